"""``bench smoke``: the whole line on the demo in minutes, with the directions that every honest run must show."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.metric import Group

if TYPE_CHECKING:
    from genrec_unlearn_bench.runs.record import RunRecord

__all__ = ["METHODS", "TASK", "smoke", "violations"]

TASK = "demo-brand"
METHODS = ("original", "retrain", "sasrec", "popularity", "filter", "filter-history", "random-reassign", "tracer")


@handled
def smoke(
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

    Retraining forgets and the original does not, a filter recommends no concept item, TRACER moves items … Exit code 1
    if one of these fails.
    """
    from genrec_unlearn_bench.cli.run_cells import run_requests
    from genrec_unlearn_bench.cli.run_table import run_table
    from genrec_unlearn_bench.runs.request import RunRequest
    from genrec_unlearn_bench.runs.store import StageStore, default_cache

    with tempfile.TemporaryDirectory() as place, progressing() as progress:
        requests = [
            RunRequest(
                task=TASK,
                method=name,
                scale="smoke",
                device="cpu",
                threads=threads,
                results_dir=results_dir or Path(place),
            )
            for name in METHODS
        ]
        finished, failed = run_requests(requests, StageStore(cache_dir or default_cache(), progress), progress)
    if failed:
        raise failed[0][1]
    records = {done.record.cell.method: done.record for done in finished}
    broken = violations(records)
    if as_json:
        print_json({"records": [record.model_dump(mode="json") for record in records.values()], "violations": broken})
    else:
        stdout().print(run_table(list(records.values()), beam=10))
    if broken:
        listing = "".join(f"\n  - {line}" for line in broken)
        raise BenchError(f"the smoke benchmark does not hold:{listing}", mend="something that is measured has broken")
    if not as_json:
        stdout().print("all directions hold")


def violations(records: Mapping[str, RunRecord]) -> list[str]:
    """What is wrong with a smoke run, as sentences; ``records`` by method."""

    def of(method: str, metric: str, group: Group = Group.FORGET, beam: int | None = 50) -> float:
        for value in records[method].metrics:
            if (value.metric, value.group, value.beam) == (metric, group, beam) and value.value is not None:
                return value.value
        return float("nan")

    retain = Group.RETAIN
    before = of("original", "hr@10")
    # Each line: what must hold, and whether it does. NaN (not measured) makes every comparison false.
    claims = [
        ("the original has learned the concept: forget HR@10 above 0.05", before > 0.05),
        (
            "the original beats popularity on retain users by a quarter: NDCG@10",
            of("original", "ndcg@10", retain) > 1.25 * of("popularity", "ndcg@10", retain),
        ),
        (
            "SASRec beats popularity twice over on retain users: NDCG@10",
            of("sasrec", "ndcg@10", retain) > 2 * of("popularity", "ndcg@10", retain),
        ),
        ("retraining forgets: forget HR@10 below a third of the original's", of("retrain", "hr@10") < before / 3),
        (
            "retraining keeps the rest: retain NDCG@10 at least 0.7 of the original's",
            of("retrain", "ndcg@10", retain) >= 0.7 * of("original", "ndcg@10", retain),
        ),
        ("the original still recommends the concept: CR@10 above 0", of("original", "concept-rate@10") > 0),
        *(
            (f"{name} recommends no concept item: {metric} is 0", of(name, metric) == 0)
            for name in ("filter", "filter-history")
            for metric in ("hr@10", "concept-rate@10")
        ),
        *(
            (f"{name} moves items", float(records[name].report.get("items_moved", 0)) > 0)
            for name in ("random-reassign", "tracer")
        ),
        ("TRACER lowers forget HR@10", of("tracer", "hr@10") < before),
        ("TRACER lowers the concept rate", of("tracer", "concept-rate@10") < of("original", "concept-rate@10")),
        *((f"{name} did not diverge", not record.diverged) for name, record in records.items()),
    ]
    return [claim for claim, holds in claims if not holds]
