"""``bench``: one thin verb a file. Nothing heavy is imported before a verb needs it."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Annotated

import typer
from typer import Option

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.cli import cache, check, data
from genrec_unlearn_bench.cli.options import examples

__all__ = ["app", "run"]

VERBS = (
    *("run", "tune", "ls", "show", "sids", "reproduce", "leaderboard", "compare", "examples", "export", "figures"),
    *("plan", "check", "submit", "verify", "pull", "site", "sweep", "status", "collect", "doctor"),
)
"""In the order of the help; each is a function in the module of its name."""

EXAMPLES = """
bench run --task demo-brand --method tracer
bench run --task steam-price --method retrain-full,filter,tracer --seed 0 --seed 1 --data-dir data
bench tune --task demo-brand --method tracer
bench tune --task demo-brand --method tracer,filter --seed 9000 --seed 9001 --fixed fixed.yaml
bench ls
bench ls tasks --json
bench show tracer
bench show steam-price --data-dir data
bench sids --task demo-brand
bench sids --task industrial-brand --scale paper --data-dir data --json
bench reproduce letter-instruments --data-dir data --minutes 10
bench reproduce results/demo-brand/tiger/tracer/smoke-seed0-a8e952dce0
bench leaderboard --layout main --ruleset tuned
bench leaderboard --results-dir results --format latex,md,html --out tables --bib
bench compare tracer npo --metric forget:hr@10,retain:ndcg@10
bench compare tracer retrain --task industrial-brand --users --seed 0
bench examples --task demo-brand --method tracer,npo --top 5
bench examples --task demo-brand --method tracer --group retain --output examples.html
bench export results/demo-brand/tiger/tracer/smoke-seed0-a8e952dce0 --output trec
bench export a8e952dce0 8bd0714732 --ids rows --output trec
bench figures results --kind probing,relearning --method filter,npo,tracer
bench figures --kind pareto --task industrial-brand --width page --format pdf --output paper/figures
bench plan paper-main --processes 2
bench plan grid.yaml --explain "tiger tracer seed0"
bench check path/to/my_method.py
bench check npo --backbone mor --json
bench submit mine --title "Mine" --author "Ada Example | A University" --contact ada@example.org \
--licence MIT --affirm-rules
bench submit mine --method path/to/mine.py --results-dir results --withhold similarity
bench verify leaderboard/submissions/mine --write
bench verify mine.zip --no-demo --json
bench pull https://example.org/leaderboard --task industrial-brand
bench pull ../shared/results --backbone tiger
bench site
bench site --leaderboard leaderboard --check
bench sweep smoke
bench sweep paper-main --only '*/tiger/*' --processes 2 --minutes 120 --data-dir data
bench status
bench status paper-main --failed --once
bench collect paper-main
bench collect smoke --format latex,md --out paper
bench doctor
bench doctor --network --json
"""
"""By verb, for the end of its help."""

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
        bool, Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Can a generative recommender forget a brand, a price band, an item or some interactions, and at what cost?"""


for _verb in VERBS:
    _own = [line for line in EXAMPLES.strip().splitlines() if line.split()[1] == _verb]
    app.command(_verb, epilog=examples(*_own))(getattr(import_module(f"genrec_unlearn_bench.cli.{_verb}"), _verb))
for _name, _group in {"cache": cache.app, "data": data.app, "new": check.new}.items():
    app.add_typer(_group, name=_name)


def run() -> None:
    """Start the command line; the console script is ``start.run``, which handles interrupts first."""
    # OpenMP's threads wait by spinning, which on a machine with other work slows small models down by a factor of ten
    # (100 steps of the demo's T5 on two threads: 66 s spinning, 9.5 s sleeping). Read when torch is loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    app()
