"""``bench smoke``: the whole line on the demo in minutes, with the directions that every honest run must show.

With ``--method`` one's own methods run along, and are asked what anyone's method is asked. With ``--matrix`` instead
every method on every backbone for every kind of request, a few steps each. With ``--full`` instead the suite full.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout
from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.cli.options import AsJson, CacheDir, Debug
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from genrec_unlearn_bench.cli.smoke_claims import Judged
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["FEW", "METHODS", "TASK", "smoke"]

TASK = "demo-brand"
FIRST = "tiger"
METHODS = (
    "original",
    "retrain",
    "sasrec",
    "popularity",
    "filter",
    "filter-history",
    "grad-ascent",
    "random-reassign",
    "tracer",
)
"""Run on ``FIRST``."""
FEW = ("original", "retrain", "popularity", "filter", "tracer")
"""Run on every other backbone that is asked for."""


@handled
def smoke(
    backbone: Annotated[
        list[str] | None,
        typer.Option(help="Backbone; several with commas or repeated, or all (default: tiger; with --matrix all)."),
    ] = None,
    matrix: Annotated[
        bool, typer.Option("--matrix", help="Try every method on every backbone and kind of request instead.")
    ] = False,
    full: Annotated[
        bool, typer.Option("--full", help="Take the suite full on rows whose answers are known instead.")
    ] = False,
    method: Annotated[
        list[str] | None,
        typer.Option(help="Methods that run along: names or path/to/file.py:Class. With --matrix: these alone."),
    ] = None,
    task: Annotated[list[str] | None, typer.Option(help="With --matrix: these tasks alone.")] = None,
    processes: Annotated[int, typer.Option(help="Processes at a time, a thread each.", min=1)] = 1,
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

    With --full: probing, membership, forget quality, quantisation and relearning of original, retrain and a filter.
    With --backbone all (or several names) the main methods run on those as well.
    Retraining forgets and the original does not, gradient ascent at a high rate destroys, TRACER forgets and keeps the
    rest … With --method also: the original is left as it is, nothing diverged, something changed. Exit code 1 if one of
    these fails.
    """
    from genrec_unlearn_bench.cli.run_cells import named, named_backbones
    from genrec_unlearn_bench.cli.smoke_matrix import matrix as run_matrix
    from genrec_unlearn_bench.store.store import default_cache

    cache = cache_dir or default_cache()
    if matrix:
        names = named_backbones(backbone or ["all"])
        run_matrix(method or [], names, task or [], cache, processes=processes, as_json=as_json)
        return
    if task:
        raise UsageError("--task chooses cells of --matrix", hint="add --matrix, or use bench run")
    names = named_backbones(backbone or [FIRST])
    if full and method:
        raise UsageError("--full takes rows whose answers are known", hint="for a method: bench run --suite full")
    report = _report(names, named(method or []), cache, results_dir, threads, full=full, processes=processes)
    if as_json:
        print_json(report.document())
    else:
        _draw(report)
    if report.violations:
        listing = "".join(f"\n  - {line}" for line in report.violations)
        raise BenchError(f"the smoke benchmark does not hold:{listing}", hint="something that is measured has broken")


@dataclass(frozen=True)
class _Report:
    """Records, claims by backbone, and refusals in words."""

    records: list[RunRecord]
    claims: list[tuple[str, Judged]]
    refusals: list[str]

    @property
    def violations(self) -> list[str]:
        return [f"{where}: {one.text} ({one.numbers})" for where, one in self.claims if one.holds is False]

    def document(self) -> dict[str, Any]:
        """As ``--json`` prints it."""
        return {
            "records": [record.model_dump(mode="json") for record in self.records],
            "claims": [{"backbone": where, **vars(one)} for where, one in self.claims],
            "violations": self.violations,
        }


def _report(
    names: list[str],
    own: list[str],
    cache: Path,
    results_dir: Path | None,
    threads: int | None,
    *,
    full: bool,
    processes: int,
) -> _Report:
    """Run everything. Raises the first fault, but for a backbone that one's own method declares it cannot serve."""
    from genrec_unlearn_bench.cli.smoke_claims import judged, own_claims
    from genrec_unlearn_bench.cli.smoke_full import full_claims, full_requests
    from genrec_unlearn_bench.pipeline.matrix import run_matrix
    from genrec_unlearn_bench.registry import find_method
    from genrec_unlearn_bench.store.store import StageStore

    called = {find_method(text).name: text for text in own}
    with tempfile.TemporaryDirectory() as place, progressing() as progress:
        store = StageStore(cache, progress)
        out = results_dir or Path(place)
        requests = [
            request
            for name in names
            for request in (
                full_requests(name, out, threads) if full else _requests(name, [*called.values()], out, threads)
            )
        ]
        found, failed = _run(requests, store, progress, processes)
        tried = run_matrix([*called.values()], names, [TASK], store, progress) if called else []
    refused = [(request, fault) for request, fault in failed if request.method in own and _is_refusal(fault)]
    if len(failed) > len(refused):
        raise next(fault for request, fault in failed if (request, fault) not in refused)
    claims: list[tuple[str, Judged]] = []
    for name in names:
        records = {record.cell.method: record for record in found if record.cell.backbone == name}
        claims += [(name, one) for one in (full_claims(records) if full else judged(records))]
        for method in (method for method in called if method in records):
            faults = [part for cell in tried if (cell.method, cell.backbone) == (method, name) for part in cell.faults]
            claims += [(name, one) for one in own_claims(method, records, tuple(faults))]
    return _Report(found, claims, [fault.what for _, fault in refused])


def _run(
    requests: Sequence[RunRequest], store: StageStore, progress: Progress, processes: int
) -> tuple[list[RunRecord], list[tuple[RunRequest, BenchError]]]:
    """Records in the order in which they were asked for, and what could not be run."""
    from genrec_unlearn_bench.cli.run_cells import run_requests

    if processes == 1:
        finished, failed = run_requests(requests, store, progress)
        return [done.record for done in finished], failed
    from genrec_unlearn_bench.grid.side_by_side import run_side_by_side
    from genrec_unlearn_bench.pipeline.results import read_record

    done = run_side_by_side(requests, store.root, progress, processes=processes)
    return [read_record(done.folders[place]) for place in sorted(done.folders)], done.refused


def _requests(backbone: str, own: list[str], results_dir: Path, threads: int | None) -> list[RunRequest]:
    from genrec_unlearn_bench.cli.smoke_claims import DESTRUCTIVE
    from genrec_unlearn_bench.pipeline.request import RunRequest

    methods = METHODS if backbone == FIRST else FEW
    return [
        RunRequest(
            task=TASK,
            backbone=backbone,
            method=method,
            scale="smoke",
            device="cpu",
            threads=threads,
            method_set=DESTRUCTIVE if method == "grad-ascent" else {},
            results_dir=results_dir,
        )
        for method in dict.fromkeys([*methods, *own])
    ]


def _is_refusal(fault: BenchError) -> bool:
    return isinstance(fault, CapabilityMissing)


def _draw(report: _Report) -> None:
    from genrec_unlearn_bench.cli.measured_table import measured_table
    from genrec_unlearn_bench.cli.run_table import run_table

    console = stdout()
    console.print(run_table(report.records, beam=10))
    beyond = measured_table(report.records)
    if beyond is not None:
        console.print(beyond)
    several = len({where for where, _ in report.claims}) > 1
    for where, one in report.claims:
        console.print(f"  {where}: {one}" if several else f"  {one}", soft_wrap=True)
    for line in report.refusals:
        console.print(f"  – {line}", soft_wrap=True)
    judged = [one for _, one in report.claims if one.holds is not None]
    holding = sum(one.holds is True for one in judged)
    console.print(
        f"{holding} of {len(judged)} claims hold" + (": all directions hold" if holding == len(judged) else "")
    )
