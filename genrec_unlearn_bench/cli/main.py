"""``bench``: one thin verb a file. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Annotated

import typer

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.cli import (
    cache,
    check,
    collect,
    compare,
    data,
    doctor,
    export,
    figures,
    leaderboard,
    ls,
    new,
    plan,
    pull,
    reproduce,
    run_cells,
    show,
    sids,
    site,
    smoke,
    status,
    submit,
    sweep,
    tune,
    verify,
)
from genrec_unlearn_bench.cli import examples as examples_of
from genrec_unlearn_bench.cli.options import examples

__all__ = ["app", "run"]

app = typer.Typer(
    name="bench",
    help="Can a generative recommender forget a brand, a price band, an item or some interactions, and at what cost?",
    epilog=examples("bench run --task demo-brand --method tracer", "bench ls tasks"),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
)


def _version(wanted: bool) -> None:
    if wanted:
        print(__version__)
        raise typer.Exit


@app.callback()
def bench(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Can a generative recommender forget a brand, a price band, an item or some interactions, and at what cost?"""


app.command(
    "run",
    epilog=examples(
        "bench run --task demo-brand --method tracer",
        "bench run --task steam-price --method retrain-full,filter,tracer --seed 0 --seed 1 --data-dir data",
    ),
)(run_cells.run)
app.command(
    "tune",
    epilog=examples(
        "bench tune --task demo-brand --method tracer",
        "bench tune --task demo-brand --method tracer,filter --seed 9000 --seed 9001 --fixed fixed.yaml",
    ),
)(tune.tune)
app.command("ls", epilog=examples("bench ls", "bench ls tasks --json"))(ls.ls)
app.command("show", epilog=examples("bench show tracer", "bench show steam-price --data-dir data"))(show.show)
app.command(
    "sids",
    epilog=examples(
        "bench sids --task demo-brand",
        "bench sids --task industrial-brand --scale paper --data-dir data --json",
    ),
)(sids.sids)
app.command(
    "reproduce",
    epilog=examples(
        "bench reproduce letter-instruments --data-dir data --minutes 10",
        "bench reproduce results/demo-brand/tiger/tracer/smoke-seed0-a8e952dce0",
    ),
)(reproduce.reproduce)
app.command(
    "leaderboard",
    epilog=examples(
        "bench leaderboard --layout main --ruleset tuned",
        "bench leaderboard --results-dir results --format latex,md,html --out tables --bib",
    ),
)(leaderboard.leaderboard)
app.command(
    "compare",
    epilog=examples(
        "bench compare tracer npo --metric forget:hr@10,retain:ndcg@10",
        "bench compare tracer retrain --task industrial-brand --users --seed 0",
    ),
)(compare.compare)
app.command(
    "examples",
    epilog=examples(
        "bench examples --task demo-brand --method tracer,npo --top 5",
        "bench examples --task demo-brand --method tracer --group retain --output examples.html",
    ),
)(examples_of.examples)
app.command(
    "export",
    epilog=examples(
        "bench export results/demo-brand/tiger/tracer/smoke-seed0-a8e952dce0 --output trec",
        "bench export a8e952dce0 8bd0714732 --ids rows --output trec",
    ),
)(export.export)
app.command(
    "figures",
    epilog=examples(
        "bench figures results --kind probing,relearning --method filter,npo,tracer",
        "bench figures --kind pareto --task industrial-brand --width page --format pdf --output paper/figures",
    ),
)(figures.figures)
app.add_typer(cache.app, name="cache")
app.command(
    "plan",
    epilog=examples(
        "bench plan paper-main --processes 2",
        'bench plan grid.yaml --explain "tiger tracer seed0"',
    ),
)(plan.plan)
app.add_typer(data.app, name="data")
app.add_typer(new.app, name="new")
app.command("check", epilog=examples("bench check path/to/my_method.py", "bench check npo --backbone mor --json"))(
    check.check
)
app.command(
    "submit",
    epilog=examples(
        'bench submit mine --title "Mine" --author "Ada Example | A University" --contact ada@example.org '
        "--licence MIT --affirm-rules",
        "bench submit mine --method path/to/mine.py --results-dir results --withhold similarity",
    ),
)(submit.submit)
app.command(
    "verify",
    epilog=examples("bench verify leaderboard/submissions/mine --write", "bench verify mine.zip --no-demo --json"),
)(verify.verify)
app.command(
    "pull",
    epilog=examples(
        "bench pull https://example.org/leaderboard --task industrial-brand",
        "bench pull ../their/leaderboard --method tracer",
    ),
)(pull.pull)
app.command("site", epilog=examples("bench site", "bench site --leaderboard leaderboard --check"))(site.site)
app.command(
    "sweep",
    epilog=examples(
        "bench sweep smoke",
        "bench sweep paper-main --only '*/tiger/*' --processes 2 --minutes 120 --data-dir data",
    ),
)(sweep.sweep)
app.command("status", epilog=examples("bench status", "bench status paper-main --failed --once"))(status.status)
app.command(
    "collect", epilog=examples("bench collect paper-main", "bench collect smoke --format latex,md --out paper")
)(collect.collect)
app.command("smoke", epilog=examples("bench smoke", "bench smoke --cache-dir smoke-cache"))(smoke.smoke)
app.command("doctor", epilog=examples("bench doctor", "bench doctor --network --json"))(doctor.doctor)


def run() -> None:
    """Entry point of the console script."""
    # OpenMP's threads wait by spinning, which on a machine with other work slows small models down by a factor of ten
    # (100 steps of the demo's T5 on two threads: 66 s spinning, 9.5 s sleeping). Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # A polite kill is an interrupt: drafts are removed and locks given back on the way out.
    signal.signal(signal.SIGTERM, _interrupt)
    app()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
