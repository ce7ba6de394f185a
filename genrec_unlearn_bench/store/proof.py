"""Proves that changed code does what older code did: computes stored cells again, apart from everything, and compares.

Where every stage that was compared came out the same to the bit, the two listings of code are entered in the ledger
(``equal_code``), and keys stay what they were. Compared are stages whose keys differ in their code alone: a stage whose
input came out differently, or whose configuration has another default now, says nothing about its own code.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.pipeline.pipeline import run_cell
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD, read_record
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce.repeat import request_of
from genrec_unlearn_bench.store.equal_code import EqualCode, code_digest, combined, read_ledger
from genrec_unlearn_bench.store.inventory import Entry, entries
from genrec_unlearn_bench.store.keys import CODE
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.tuning.rulesets import Ruling

__all__ = ["Compared", "ledger_with", "prove", "proven"]


@dataclass(frozen=True)
class Compared:
    """One stage, computed with the code that stored it and with today's.

    Attributes:
        cell: ``task/backbone/method/scale``.
        before, now: Digests of both listings of code; ``before`` by the ledger's name for it.
        same: Whether all files are equal to the bit; None where the two cannot be compared, for the reason given.
    """

    cell: str
    stage: str
    before: str
    now: str
    same: bool | None
    reason: str = ""


def prove(
    against: Path, results: Sequence[Path], progress: Progress, *, data_dir: Path | None = None
) -> tuple[Compared, ...]:
    """Run the cells of some results again in a store of their own, and hold every stage against the stored one.

    Args:
        against: The store that made the results, its keys of version 2.
        results: Folders with results; each distinct cell is run once.

    Raises:
        DataMissing: There is no result.
        BenchError: A cell cannot be run.
    """
    records = [read_record(path.parent) for folder in results for path in sorted(folder.rglob(RECORD))]
    if not records:
        raise DataMissing("there is no result to run again", where=", ".join(map(str, results)))
    old = _by_key(entries(against))
    found: dict[tuple[str, str], Compared] = {}
    with tempfile.TemporaryDirectory(prefix="bench-prove-") as place:
        aside = Path(place)
        store = StageStore(aside / "cache", progress, shared=aside / "cache")
        for record in progress.track("prove", records, total=len(records)):
            now = _run_again(record, store, aside / "results", data_dir)
            new = _by_key(entries(store.root))
            for before, after in _pairs(record, now, old, new):
                found.setdefault((before.key, after.key), _compared(_cell(record), before, after))
    return tuple(found.values())


def proven(compared: Iterable[Compared]) -> tuple[EqualCode, ...]:
    """Entries for the listings of which every stage that could be compared agreed."""
    groups: dict[tuple[str, str], list[Compared]] = {}
    for one in compared:
        if one.same is not None and one.now != one.before:
            groups.setdefault((one.now, one.before), []).append(one)
    claimed: dict[str, set[str]] = {}
    for now, before in groups:
        claimed.setdefault(now, set()).add(before)
    return tuple(
        EqualCode(
            code=now,
            equals=before,
            stages=tuple(sorted({one.stage for one in members})),
            compared=len(members),
            on=tuple(sorted({one.cell for one in members})),
        )
        # Code that repeats two older ones could not be known under both names.
        for (now, before), members in groups.items()
        if all(one.same for one in members) and len(claimed[now]) == 1
    )


def ledger_with(found: Iterable[EqualCode]) -> tuple[EqualCode, ...]:
    """The ledger with entries added; what it says already stays."""
    known = {entry.code: entry for entry in read_ledger()}
    return tuple({**{entry.code: entry for entry in found}, **known}.values())


def _run_again(record: RunRecord, store: StageStore, results: Path, data_dir: Path | None) -> RunRecord:
    request = request_of(record, results_dir=results, data_dir=data_dir)
    ruling = Ruling(record.cell.ruleset, record.method_config, f"the record {record.key[:10]}, method_config")
    return run_cell(request, store, ruling=ruling).record


def _by_key(found: Iterable[Entry]) -> dict[str, Entry]:
    out: dict[str, Entry] = {}
    for entry in found:
        if entry.is_old or entry.manifest is None:
            continue
        out[entry.key] = entry
        if entry.manifest.was:
            out[entry.manifest.was] = entry
    return out


def _pairs(
    record: RunRecord, now: RunRecord, old: Mapping[str, Entry], new: Mapping[str, Entry]
) -> Iterator[tuple[Entry, Entry]]:
    """Stages that both records call by one name, where both stores hold them."""
    names = {stage.name: stage.key for stage in now.stages}
    for stage in record.stages:
        before, after = old.get(stage.key), new.get(names.get(stage.name, ""))
        if before is not None and after is not None and before.name == after.name:
            yield before, after


def _compared(cell: str, before: Entry, after: Entry) -> Compared:
    then, now = before.content(), after.content()
    listing, listing_now = then.pop(CODE, {}), now.pop(CODE, {})
    one = (code_digest(listing), combined(listing_now))
    fields = sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))
    if fields:
        return Compared(cell, before.name, *one, None, f"differs in {', '.join(fields)}")
    return Compared(cell, before.name, *one, _digest(before) == _digest(after))


def _digest(entry: Entry) -> Any:
    return entry.manifest.digest if entry.manifest is not None else None


def _cell(record: RunRecord) -> str:
    cell = record.cell
    return f"{cell.task}/{cell.backbone}/{cell.method}/{cell.scale}"
