"""Notes below a LaTeX table: the marks that occur in it, seeds, families, gaps, and the protocol.

The same facts as below tables in other formats (``reporting.formats.notes``), in the few lines and signs of a paper.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.facts import Facts, Short, facts
from genrec_unlearn_bench.reporting.formats.notes import suite_notes
from genrec_unlearn_bench.reporting.latex.columns import marks_of
from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.statistics.paired import smallest_p
from genrec_unlearn_bench.reporting.tables import Column, Entry, Table
from genrec_unlearn_bench.reporting.wording import counted, listed, p_text, spanned, verb

__all__ = ["notes_of"]

NAMED = 6
"""Places that are named when seeds are missing; more are counted."""


def notes_of(table: Table) -> tuple[str, ...]:
    """Sentences in TeX."""
    found = facts([table])
    entries = [entry for section in table.sections for line in section.lines for entry in line.entries]
    return tuple(
        sentence
        for part in (
            _seeds(found),
            map(escape, suite_notes(table)),
            _best(table, entries),
            _signs(found, entries),
            _oracle(found, entries),
            _underpowered(found, entries),
            _gaps(found, entries),
            _beams(table.columns, found.protocol.beam),
            [f"genrec\\_unlearn\\_bench, {escape(found.protocol.name)}."],
        )
        for sentence in part
    )


def _seeds(found: Facts) -> Iterable[str]:
    least, most = found.seeds
    if most == 1:
        yield f"Values of one seed; the protocol asks for {found.protocol.seeds}."
    else:
        few = f" (the protocol asks for {found.protocol.seeds})" if least < found.protocol.seeds else ""
        yield f"Mean $\\pm$ standard deviation over {spanned((least, most))} seeds{few}."
    if 0 < len(found.fewer) <= NAMED:
        yield f"Fewer seeds: {'; '.join(map(_place, found.fewer))}."
    elif found.fewer:
        rows = len({label for short in found.fewer for label in short.labels})
        yield f"{counted(rows, 'row').capitalize()} {verb(rows, 'has', 'have')} fewer seeds in some blocks."


def _best(table: Table, entries: Sequence[Entry]) -> Iterable[str]:
    if any(entry.cell is not None and entry.cell.mark is not Mark.PLAIN for entry in entries):
        yield (
            "Bold: the best methods, those that no test separates from the best mean; underlined: the next ones. "
            "Reference rows are not ranked."
        )
    shown = {column.measure for column in table.columns}
    if any(
        block.separable.get(measure) is False and sum(row.kind == "method" for row in block.block.rows) > 1
        for block in table.blocks
        for measure in shown
    ):
        yield "Where nothing is bold, no method can be told from the best."


def _signs(found: Facts, entries: Sequence[Entry]) -> Iterable[str]:
    marks = {mark for entry in entries for mark in marks_of(entry)}
    if found.against is None or not marks & {"+", "-"}:
        return
    primary = listed(escape(measure.title) for measure in found.primary)
    names = listed(escape(shorten(name)) for name in found.baselines)
    yield (
        f"$^{{+}}$/$^{{-}}$: better/worse than {names} at a primary measure ({primary}; others are exploratory and "
        f"carry no sign), paired $t$ over seeds, Holm over the {spanned(found.against)} tests of a block, "
        f"$\\alpha={found.protocol.alpha:g}$."
    )


def _oracle(found: Facts, entries: Sequence[Entry]) -> Iterable[str]:
    if any(r"\dagger" in marks_of(entry) for entry in entries):
        quantile = rf"{100 * found.protocol.equivalence_quantile:g}\,\%"
        yield (
            rf"$^{{\dagger}}$: equivalent to {escape(found.protocol.oracle)} at a primary measure (two one-sided "
            f"tests; margin: the {quantile} quantile of differences between retrained models, at least one test "
            "example), or the same in every seed."
        )


def _underpowered(found: Facts, entries: Sequence[Entry]) -> Iterable[str]:
    """Rows in which no result whatever could have reached alpha."""
    rows: dict[str, int] = {}
    for entry in entries:
        difference = entry.cell.difference if entry.cell is not None else None
        if difference is None or difference.verdict is not Verdict.UNDERPOWERED:
            continue
        if entry.column.primary and entry.row is not None:
            rows[entry.row.label] = min(difference.n, rows.get(entry.row.label, difference.n))
    for n in sorted(set(rows.values())):
        names = listed(escape(shorten(label)) for label, own in rows.items() if own == n)
        least = smallest_p(n) if n < 2 else 2.0 ** (1 - n)
        # From two seeds up only a difference that is the same in every seed has no t, and the sign flip's least p.
        why = "" if n < 2 else ", the same difference in each"
        yield (
            f"Underpowered: {names} ({counted(n, 'shared seed')}{why}; the smallest attainable $p$ is "
            f"{escape(p_text(least))})."
        )


def _gaps(found: Facts, entries: Sequence[Entry]) -> Iterable[str]:
    if found.diverged:
        yield "Rows with a diverged run are neither ranked nor tested."
    if any(entry.cell is not None and entry.cell.mean is None and not _diverged(entry) for entry in entries):
        yield "n.m.: not measured."
    if any(entry.cell is None for entry in entries):
        yield "--: not run."


def _beams(columns: Sequence[Column], usual: int) -> Iterable[str]:
    beams: dict[int, list[str]] = {}
    for column in columns:
        if column.measure.beam is not None:
            beams.setdefault(column.measure.beam, []).append(column.head)
    if len(beams) == 1:
        yield f"Beam width {next(iter(beams))}."
    elif beams:
        parts = [
            f"{beam} for {listed(escape(head) for head in dict.fromkeys(heads))}"
            for beam, heads in sorted(beams.items())
        ]
        yield f"Beam width {listed(parts)}."


def _diverged(entry: Entry) -> bool:
    return entry.row is not None and bool(entry.row.diverged)


def _place(short: Short) -> str:
    task, backbone = (escape(shorten(name)) for name in (short.task, short.backbone))
    return f"{listed(escape(shorten(label)) for label in short.labels)} on {task}, {backbone} ({short.n})"
