"""``bench smoke``: the whole line on the demo in minutes, with the directions that every honest run must show."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.cli.run_options import Backbones
from genrec_unlearn_bench.errors import BenchError

__all__ = ["FEW", "METHODS", "TASK", "smoke"]

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
    from genrec_unlearn_bench.cli.smoke_claims import violations
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
