"""Results at hand: those below some folders, and those that ship with the suite: its own and the submissions."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import several
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import DataMissing, ProtocolMismatch, UnknownName, UsageError
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.reporting.board import Board, without_copies
from genrec_unlearn_bench.reporting.comparisons import PairedBlock, compare_rows, find_pair
from genrec_unlearn_bench.reporting.measure import check_beam
from genrec_unlearn_bench.reporting.outputs import Report, make_report
from genrec_unlearn_bench.reporting.protocol import PROTOCOLS, StatisticsProtocol, find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import OWN, SCALES, Loaded, Result, load_results
from genrec_unlearn_bench.reporting.selection import chosen, chosen_layout, filtered, selected_board
from genrec_unlearn_bench.submissions.bundle import SHIPPED
from genrec_unlearn_bench.submissions.verification import published_sources

_PATH = ("task", "backbone", "method", "scale")
"""What the path of a published result says of it."""
_VALUES = {"suite": ("core", "full"), "ruleset": ("default", "fixed", "tuned")}


@dataclass(frozen=True)
class ResultSet:
    """Results of one protocol, descriptions of the records that could not be read, and the folders that were read.

    Attributes:
        others: Sentences about results of other protocols, which are in no table with these.
    """

    results: tuple[Result, ...]
    faults: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    published: bool = False
    others: tuple[str, ...] = ()

    @property
    def protocol(self) -> StatisticsProtocol:
        """The statistics of the results' protocol. Raises ProtocolMismatch for one that this suite does not know."""
        return statistics_protocol(self.results[0].protocol_version if self.results else PROTOCOL_VERSION)

    def board(self, filters: Mapping[str, Any]) -> Board:
        """The board of the results that pass some filters. Raises UsageError with the folders that were read."""
        with self.located():
            board = selected_board(self.results, self.protocol, filters)
        notes = [f"records that cannot be read: {len(self.faults)}"] if self.faults else []
        return replace(board, left_out=(*board.left_out, *self.others, *notes))

    def report(
        self,
        filters: Mapping[str, Any],
        layout: str = "main",
        metrics: Sequence[str] = (),
        *,
        beam: int | None = None,
        baseline: str | None = None,
        compare_reported: bool = False,
    ) -> Report:
        """Tables of the selected results in a layout, or of the metrics where some are named."""
        protocol = self.protocol
        width = check_beam(protocol.beam if beam is None else beam)
        found = chosen_layout(metrics, beam=width) if metrics else None
        return make_report(
            self.board(filters),
            found or find_layout(layout, protocol.suite_protocol),
            protocol,
            methods=[*map(str, several(filters.get("method", ())))],
            beam=beam,
            baseline=baseline,
            compare_reported=compare_reported,
        )

    def compare(
        self,
        first: str,
        second: str,
        filters: Mapping[str, Any],
        metrics: Sequence[str] = (),
        *,
        beam: int | None = None,
    ) -> tuple[PairedBlock, ...]:
        """Two rows of each selected block that has both, by the protocol's primary measures unless some are named."""
        protocol = self.protocol
        measures = tuple(dict.fromkeys(protocol.measures(metrics or protocol.primary, beam)))
        with self.located():
            pairs = find_pair(self.board(filters), first, second)
        return tuple(compare_rows(*pair, measures, protocol) for pair in pairs)

    @contextmanager
    def located(self) -> Iterator[None]:
        """Add to an error about names which folders were read, and whether the suite knows the name or a near one."""
        try:
            yield
        except UsageError as fault:
            fault.where = fault.where or ", ".join((*self.places, *self.others))
            if isinstance(fault, UnknownName):
                self._explain(fault)
            raise

    def _explain(self, fault: UnknownName) -> None:
        kind, more = fault.kind, "" if self.published else "--published adds the suite's own"
        paths = (path for _, top in published_sources(SHIPPED) for path in top.glob("*/*/*/*-seed*"))
        parts = [dict(zip(_PATH, (*path.parts[-4:-1], path.name.partition("-")[0]), strict=True)) for path in paths]
        suite = {part[kind] for part in parts} if kind in _PATH else {*_VALUES.get(kind, ())}
        known = suite.union({"task": [*tasks()], "method": [*methods()], "scale": [*SCALES]}.get(kind, []))
        fits = {name for name in known if chosen(name, (fault.name,))}
        near = UnknownName(kind, fault.name, known.union(fault.known))
        fault.hint = f"{near.hint}{f' ({more})' if more and near.near and not {*near.near} & {*fault.known} else ''}"
        if fits or fault.name.isdigit():
            fault.what = f"no results of {kind} {fault.name!r}"
            offer = more if more and fits & suite else "run it first (bench run)"
            fault.hint = f"{offer}; known here: {', '.join(fault.known)}"


def load_result_set(
    folders: Sequence[Path],
    *,
    published: bool,
    skip_broken: bool,
    protocol: int | None = None,
    filters: Mapping[str, Any] = MappingProxyType({}),
) -> ResultSet:
    """All results of a call that were made under one protocol.

    Args:
        folders: ``results`` where it exists and none are named, else what ships with the suite.
        published: Whether to add what ships with the suite.
        protocol: The newest that there are results of, of those that this suite knows, where none is given.
        filters: Columns with the values to keep (``filtered``), before the protocol is chosen.

    Raises:
        DataMissing: There is nothing to read, or nothing of that protocol.
        UnknownName: A filter that no result fits.
        CorruptArtefact: Some records cannot be read, unless ``skip_broken``.
    """
    own = _own(folders)
    published = published or not own
    # Records make millions of objects and no cycle, and looking for cycles among them takes 40 % of the time to read
    # them (0.77 against 0.44 ms for a record of 41 KB).
    running = gc.isenabled()
    gc.disable()
    try:
        parts = [load_results(own, skip_broken=skip_broken)] if own else []
        parts += load_published(skip_broken=skip_broken) if published else []
    finally:
        if running:
            gc.enable()
    places = (*map(str, own), *(["the suite's own results"] if published else []))
    with ResultSet((), (), places, published).located():
        results = filtered((result for part in parts for result in part.results), filters)
    faults = tuple(fault for part in parts for fault in part.faults)
    versions = Counter(result.protocol_version for result in results)
    newest = max(versions, key=lambda version: (version in PROTOCOLS, version), default=PROTOCOL_VERSION)
    chosen = newest if protocol is None else int(protocol)
    if chosen not in versions:
        there = ", ".join(map(str, sorted(versions))) or "none"
        raise DataMissing(
            f"there is no result of protocol {chosen} (but of: {there}; records that cannot be read: {len(faults)})",
            where=", ".join(places),
            hint="run something first (bench run), or name a folder with results (--results-dir)",
        )
    others = tuple(
        f"runs of protocol {version} (--protocol {version}): {number}"
        for version, number in sorted(versions.items())
        if version != chosen
    )
    kept = without_copies([result for result in results if result.protocol_version == chosen])
    return ResultSet(tuple(kept), faults, places, published, others)


def _own(folders: Sequence[Path]) -> list[Path]:
    return list(folders) or [path for path in (Path("results"),) if path.is_dir()]


def results_at(folders: Sequence[Path]) -> ResultSet:
    """The results in some folders, as a frame's column ``folder`` has them; published ones with their source.

    Raises:
        DataMissing: None is named, or one is not there any more.
        CorruptArtefact: One cannot be read.
        ProtocolMismatch: They are of several protocols.
    """
    published = {folder.resolve(): source for source, folder in published_sources(SHIPPED)}
    found: list[Result] = []
    for folder in dict.fromkeys(folders):
        source = next((published[above] for above in folder.resolve().parents if above in published), OWN)
        found += load_results([folder], source=source).results
    if len(versions := sorted({result.protocol_version for result in found})) > 1:
        raise ProtocolMismatch(
            f"results of the protocols {', '.join(map(str, versions))} cannot share a table",
            hint=f"df[df.protocol_version == {versions[-1]}]",
        )
    if not found:
        raise DataMissing("the data frame has no row", hint="filter less")
    return ResultSet(tuple(found), places=("the data frame",))


def load_published(root: Path | None = None, *, skip_broken: bool = False, required: bool = True) -> list[Loaded]:
    """Results of a leaderboard's folder (default: of the one that ships), by source."""
    sources = published_sources(root or SHIPPED)
    if required and not sources:
        hint = "work from a clone of the repository, or fetch some with `bench results pull`"
        hint = "give the leaderboard's folder (--leaderboard)" if root else hint
        raise DataMissing(f"there are no published results in {root or 'this installation'}", hint=hint)
    return [load_results([folder], source=source, skip_broken=skip_broken) for source, folder in sources]


def load_every_protocol(folders: Sequence[Path], *, skip_broken: bool) -> Loaded:
    """Results of all protocols: one's own (default: ``results``, where it exists) and the published."""
    own = _own(folders)
    parts = [load_results(own, skip_broken=skip_broken)] if own else []
    parts += load_published(skip_broken=skip_broken, required=not own)
    results = tuple(result for part in parts for result in part.results)
    return Loaded(results, tuple(fault for part in parts for fault in part.faults))
