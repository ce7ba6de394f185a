"""Notes below a table: protocol, seeds, families, marks, power, and what was left out; plain sentences.

A number without them says more than was measured, so every format prints them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Verdict
from genrec_unlearn_bench.reporting.board import CORE
from genrec_unlearn_bench.reporting.facts import facts
from genrec_unlearn_bench.reporting.formats.cells import DIVERGED, show
from genrec_unlearn_bench.reporting.statistics.paired import PairedTest, smallest_p
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import listed, p_text

__all__ = ["legend", "notes", "suite_notes"]

K = TypeVar("K")


def notes(table: Table, *, best: str = "Bold", second: str = "italic") -> tuple[str, ...]:
    """Every sentence below a table, in reading order; names in them are not escaped.

    Args:
        best, second: How the format shows the two sets.
    """
    protocol = table.protocol
    confidence = f"{protocol.confidence:.0%}"
    return (
        f"{protocol.name.capitalize()}: paired t over training seeds, Holm within each family of a block (task × "
        f"backbone), α = {protocol.alpha:g}; intervals in the files are {confidence} t intervals.",
        *legend(table, best=best, second=second),
        *suite_notes(table),
        *_families(table),
        *_seeds(table),
        *_power(table),
        *_underpowered(table),
        *_no_order(table),
        *_diverged(table),
        *(f"Left out: {text}." for text in table.analysis.board.left_out),
    )


def legend(table: Table, *, best: str = "Bold", second: str = "italic or underlined") -> tuple[str, ...]:
    """Legend of the marks, of those that stand in the table."""
    shown = [show(entry) for section in table.sections for line in section.lines for entry in line.entries]
    baselines = listed(_baselines(table))
    oracle = table.protocol.oracle
    out = ["Mean ± standard deviation over seeds."]
    if any(part.mark != "plain" for part in shown):
        out.append(
            f"{best}: the best set (the best mean and all that are not separable from it); {second}: the second set. "
            "Reference rows are not ranked."
        )
    for sign, text in (
        ("▲", f"significantly better than {baselines}"),
        ("▼", f"significantly worse than {baselines}"),
        ("?", f"underpowered against {baselines}"),
    ):
        if any(part.sign == sign for part in shown):
            out.append(f"{sign} {text}.")
    for sign, text in (
        ("≈", f"equivalent to {oracle} (two one-sided tests; margin: the "),
        ("=", f"the same as {oracle} in every seed."),
        ("≠", f"beyond the margin of equivalence to {oracle}."),
    ):
        if any(part.oracle == sign for part in shown):
            quantile = f"{table.protocol.equivalence_quantile:.0%} quantile of differences between retrained models, "
            quantile += "at least one test example)."
            out.append(f"{sign} {text}{quantile if sign == '≈' else ''}")
    if any(part.rank for part in shown):
        out.append("Last, for primary measures: the interval of ranks; methods that share a letter are not separable.")
    if any(part.number == "n/a" for part in shown):
        out.append("n/a: not measured.")
    if any(part.number == "–" for part in shown):
        out.append("–: not run.")
    return tuple(out)


def suite_notes(table: Table) -> Iterable[str]:
    """That numbers of a suite beyond the core stand apart, and why; nothing below tables of the core."""
    suite = table.blocks[0].block.rows[0].first.suite
    if suite != CORE:
        yield (
            f"Suite {suite}: some train interactions are kept from every model, {table.protocol.baseline} and "
            f"{table.protocol.oracle} among them. Its numbers are not to be compared with those of the suite "
            f"{CORE}, which have tables of their own."
        )


def _families(table: Table) -> Iterable[str]:
    primary = listed(dict.fromkeys(measure.title for block in table.blocks for measure in block.primary))
    if primary:
        others = any(not column.primary for column in table.columns)
        tail = "; all other measures are exploratory and corrected among themselves" if others else ""
        yield f"Primary measures: {primary}{tail}."
    counts: dict[tuple[str, int, int], list[str]] = {}
    for block in table.blocks:
        base = block.baseline.label if block.baseline is not None else ""
        counts.setdefault((base, block.against_baseline, block.pairs), []).append(_where(block))
    for (base, against, pairs), places in counts.items():
        where = f" in {listed(places)}" if len(counts) > 1 else " in each block" if len(places) > 1 else ""
        tests = f"{against} tests against {base}" if base else f"no row {table.protocol.baseline} to test against"
        yield f"Confirmatory families{where}: {tests}; {pairs} tests among all pairs of methods."


def _seeds(table: Table) -> Iterable[str]:
    wanted = table.protocol.seeds
    for seeds, places in _by((block.block.seeds, _where(block)) for block in table.blocks).items():
        where = f" in {listed(places)}" if len(table.blocks) > 1 else ""
        short = f"; the protocol asks for {wanted}" if len(seeds) < wanted else ""
        yield f"Seeds{where}: {len(seeds)} ({', '.join(map(str, seeds))}){short}."
    for block in table.blocks:
        full = len(block.block.seeds)
        few = _by((str(len(row.results)), row.label) for row in block.block.rows if len(row.results) < full)
        for number, labels in few.items():
            yield f"Fewer seeds in {_where(block)}, {number} of {full}: {', '.join(labels)}."


def _power(table: Table) -> Iterable[str]:
    """The differences these seeds could have found; without it "not significant" has two meanings."""
    found = facts((table,))
    seen = [(measure, found.detectable(measure)) for measure in found.primary]
    parts = [f"{number:.2g} on {measure.title}" for measure, number in seen if number is not None]
    if parts:
        yield (
            f"A test against {listed(_baselines(table))} finds true differences of {listed(parts)} with probability "
            f"{table.protocol.power:g} (first Holm step, median over methods)."
        )


def _underpowered(table: Table) -> Iterable[str]:
    """Cells in which no result whatever could have reached alpha, with the least p that there was."""
    seen: dict[tuple[int, bool], list[str]] = {}
    for section in table.sections:
        for line in section.lines:
            for entry in line.entries:
                difference = entry.cell.difference if entry.cell is not None else None
                if difference is not None and difference.verdict is Verdict.UNDERPOWERED:
                    seen.setdefault((difference.n, difference.exact), []).append(line.label)
    for (n, exact), labels in sorted(seen.items()):
        test = PairedTest.SIGN_FLIP if exact else PairedTest.T
        why = "every seed differs by the same number, so that only the sign flip is left: " if exact else ""
        yield (
            f"Underpowered: {listed(dict.fromkeys(labels))} with {n} shared seed{'s' if n != 1 else ''}; "
            f"{why}the smallest p there is, before correction, is {p_text(smallest_p(n, test))}."
        )


def _no_order(table: Table) -> Iterable[str]:
    shown = {column.measure for column in table.columns}
    for block in table.blocks:
        silent = [m.title for m in block.measures if m in shown and block.separable.get(m) is False]
        ranked = sum(row.kind == "method" and not row.diverged for row in block.block.rows)
        if silent and ranked > 1:
            yield f"On {listed(silent)} no method is separable from the best in {_where(block)}; none is marked there."


def _diverged(table: Table) -> Iterable[str]:
    for section in table.sections:
        for line in section.lines:
            if line.diverged:
                where = f"{section.title}: {listed(line.diverged)}"
                yield f"{DIVERGED} {line.label} diverged, is not ranked and has no mean on {where}."


def _baselines(table: Table) -> list[str]:
    found = dict.fromkeys(block.baseline.label for block in table.blocks if block.baseline is not None)
    return list(found) or [table.protocol.baseline]


def _where(block: BlockAnalysis) -> str:
    key = block.block.key
    return f"{key.task} on {key.backbone}" + (f" ({key.variant})" if key.variant else "")


def _by(pairs: Iterable[tuple[K, str]]) -> dict[K, list[str]]:
    out: dict[K, list[str]] = {}
    for key, value in pairs:
        out.setdefault(key, []).append(value)
    return out
