"""``bench smoke``: the whole line on the demo in minutes, with the directions that every honest run must show."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.cli.run_options import Backbones
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.metric import Group

if TYPE_CHECKING:
    from genrec_unlearn_bench.runs.record import RunRecord

__all__ = ["METHODS", "TASK", "smoke", "violations"]

TASK = "demo-brand"
FIRST = "tiger"
METHODS = ("original", "retrain", "sasrec", "popularity", "filter", "filter-history", "random-reassign", "tracer")
"""Run on ``FIRST``."""
FEW = ("original", "retrain", "popularity", "filter", "tracer")
"""Run on every other backbone that is asked for."""


@handled
def smoke(
    backbone: Backbones = [FIRST],  # noqa: B006
    cache_dir: CacheDir = None,
    results_dir: Annotated[
        Path | None, typer.Option(help="Where results are written (default: a temporary folder).", metavar="DIR")
    ] = None,
    threads: Annotated[
        int | None, typer.Option(help="CPU threads (default: one at smoke scale, else the physical cores).", min=1)
    ] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Run the demo with every method and check that the numbers point the right way.

    With --backbone all (or several names) the main methods run on those as well.
    Retraining forgets and the original does not, a filter recommends no concept item, TRACER moves items … Exit code 1
    if one of these fails.
    """
    from genrec_unlearn_bench.cli.run_cells import named_backbones, run_requests
    from genrec_unlearn_bench.cli.run_table import run_table
    from genrec_unlearn_bench.runs.request import RunRequest
    from genrec_unlearn_bench.runs.store import StageStore, default_cache

    with tempfile.TemporaryDirectory() as place, progressing() as progress:
        names = named_backbones(backbone)
        requests = [
            RunRequest(
                task=TASK,
                backbone=name,
                method=method,
                scale="smoke",
                device="cpu",
                threads=threads,
                results_dir=results_dir or Path(place),
            )
            for name in names
            for method in (METHODS if name == FIRST else FEW)
        ]
        finished, failed = run_requests(requests, StageStore(cache_dir or default_cache(), progress), progress)
    if failed:
        raise failed[0][1]
    records = [done.record for done in finished]
    broken = []
    for name in names:
        found = violations({record.cell.method: record for record in records if record.cell.backbone == name})
        broken += [f"{name}: {line}" for line in found]
    if as_json:
        print_json({"records": [record.model_dump(mode="json") for record in records], "violations": broken})
    else:
        stdout().print(run_table(records, beam=10))
    if broken:
        listing = "".join(f"\n  - {line}" for line in broken)
        raise BenchError(f"the smoke benchmark does not hold:{listing}", mend="something that is measured has broken")
    if not as_json:
        stdout().print("all directions hold")


def violations(records: Mapping[str, RunRecord]) -> list[str]:
    """What is wrong with one backbone's smoke run, as sentences; ``records`` by method.

    Claims about methods that were not run are left out.
    """

    def of(method: str, metric: str, group: Group = Group.FORGET, beam: int | None = 50) -> float:
        for value in records[method].metrics:
            if (value.metric, value.group, value.beam) == (metric, group, beam) and value.value is not None:
                return value.value
        return float("nan")

    retain = Group.RETAIN

    def lowers(method: str, metric: str) -> bool:
        return of(method, metric) < of("original", metric)

    # Each line: whom it is about, what must hold, and whether it does. NaN (not measured) makes comparisons false.
    claims: list[tuple[str, str, Callable[[], bool]]] = [
        (
            "original",
            "the original has learned the concept: forget HR@10 above 0.05",
            lambda: of("original", "hr@10") > 0.05,
        ),
        (
            "popularity",
            "the original beats popularity on retain users by a quarter: NDCG@10",
            lambda: of("original", "ndcg@10", retain) > 1.25 * of("popularity", "ndcg@10", retain),
        ),
        (
            "sasrec",
            "SASRec beats popularity twice over on retain users: NDCG@10",
            lambda: of("sasrec", "ndcg@10", retain) > 2 * of("popularity", "ndcg@10", retain),
        ),
        (
            "retrain",
            "retraining forgets: forget HR@10 below a third of the original's",
            lambda: of("retrain", "hr@10") < of("original", "hr@10") / 3,
        ),
        (
            "retrain",
            "retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's",
            lambda: of("retrain", "ndcg@10", retain) >= 0.7 * of("original", "ndcg@10", retain),
        ),
        (
            "original",
            "the original still recommends the concept: CR@10 above 0",
            lambda: of("original", "concept-rate@10") > 0,
        ),
        ("tracer", "TRACER lowers forget HR@10", lambda: lowers("tracer", "hr@10")),
        ("tracer", "TRACER lowers the concept rate", lambda: lowers("tracer", "concept-rate@10")),
    ]
    for name in ("filter", "filter-history"):
        for metric in ("hr@10", "concept-rate@10"):
            claims.append(
                (name, f"{name} recommends no concept item: {metric} is 0", partial(_is_zero, of, name, metric))
            )
    for name in ("random-reassign", "tracer"):
        claims.append((name, f"{name} moves items", partial(_moves, records, name)))
    broken = [claim for name, claim, holds in claims if name in records and not holds()]
    return broken + [f"{name} did not diverge" for name, record in records.items() if record.diverged]


def _is_zero(of: Callable[[str, str], float], name: str, metric: str) -> bool:
    return of(name, metric) == 0


def _moves(records: Mapping[str, RunRecord], name: str) -> bool:
    return float(records[name].report.get("items_moved", 0)) > 0
