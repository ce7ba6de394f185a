"""Two rows compared over the seeds that they share, block by block: tests, terminal output and JSON.

The family is what the call names: the measures of one block. Whoever looks at all pairs of methods needs the table's
families instead (``analysis``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.reporting.analysis import Cell, Difference, Verdict, analyse_block, paired_differences
from genrec_unlearn_bench.reporting.board import Block, BlockKey, Board, Row
from genrec_unlearn_bench.reporting.formats.grid import plain_grid, print_sentences
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, smallest_p
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import bare, counted, fields, fixed, p_text, six, visible

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class PairedMeasure:
    """One measure of two rows.

    Attributes:
        cells: Of both rows by themselves, with their equivalence to the oracle.
        difference: First minus second, corrected over the measures of the call; BETTER: the first is.
        detectable: The least true difference that this comparison finds with the protocol's power, at the family's
            first Holm step; None without spread or below two seeds.
        sentence: What the test shows.
    """

    measure: Measure
    cells: tuple[Cell, Cell]
    difference: Difference
    detectable: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class PairedBlock:
    """Two rows of one block."""

    block: Block
    first: Row
    second: Row
    seeds: tuple[int, ...]
    """Those that both have a run of that did not diverge."""
    family: int
    """Tests that Holm corrects for."""
    measures: tuple[PairedMeasure, ...]
    notes: tuple[str, ...]


def find_pair(board: Board, first: str, second: str) -> tuple[tuple[Block, Row, Row], ...]:
    """Both rows in every block that has both, by label or, where it is one row's alone, by the method's name.

    Raises UnknownName for a name that no block has, UsageError where no block has both or both are one.
    """
    everyone = [row for block in board.blocks for row in block.rows]
    known = {row.label for row in everyone} | {row.method for row in everyone}
    for name in (first, second):
        if name not in known:
            raise UnknownName("method", name, known)
    if first == second:
        raise UsageError(f"{first!r} cannot be compared with itself", hint="name two different rows")
    pairs = [(block, _row(block, first), _row(block, second)) for block in board.blocks]
    if found := tuple((block, one, two) for block, one, two in pairs if one and two and one is not two):
        return found
    for name in (first, second):
        labels = sorted({row.label for row in everyone if row.method == name})
        if len(labels) > 1:
            raise UsageError(f"{name!r} stands for several rows", hint=f"name one of them: {'; '.join(labels)}")
    raise UsageError(
        f"no block (task, backbone, scale, ruleset) has both {first!r} and {second!r}",
        hint="run both on the same task, or look at what there is (bench leaderboard)",
    )


def _row(block: Block, name: str) -> Row | None:
    named = [row for row in block.rows if row.method == name]
    return block.by_label.get(name) or (named[0] if len(named) == 1 else None)


def compare_rows(
    block: Block, first: Row, second: Row, measures: Sequence[Measure], protocol: StatisticsProtocol
) -> PairedBlock:
    """Compare two rows of a block, as ``find_pair`` gives them."""
    analysis = analyse_block(block, protocol, measures, measures)
    values = np.stack([block.values(measure) for measure in measures])
    ours, theirs = values[:, block.rows.index(first)], values[:, block.rows.index(second)]
    found = paired_differences(ours, theirs, measures, protocol)
    family = sum(difference.p is not None for difference in found)
    level = protocol.alpha / max(family, 1)
    out = []
    for measure, seeds, difference in zip(measures, ours - theirs, found, strict=True):
        sd = float(np.nanstd(seeds, ddof=1)) if difference.n >= 2 else 0.0
        detectable = detectable_difference(sd, difference.n, level, power=protocol.power) if sd > 0.0 else None
        sentence = f"{measure.title}: {_finding(difference, detectable, first.label, second.label, protocol)}"
        cells = analysis.cell(first, measure), analysis.cell(second, measure)
        out.append(PairedMeasure(measure, cells, difference, detectable, sentence))
    measured = np.isfinite(ours - theirs)
    shared = tuple(seed for j, seed in enumerate(block.seeds) if measured[:, j].any())
    notes = _notes(block, (first, second), shared, protocol)
    return PairedBlock(block, first, second, shared, family, tuple(out), notes)


def _finding(
    difference: Difference, detectable: float | None, first: str, second: str, protocol: StatisticsProtocol
) -> str:
    seeds = counted(difference.n, "seed")
    if difference.n == 0:
        return "no seed was measured for both, so nothing can be said."
    if difference.verdict is Verdict.UNDERPOWERED:
        least = p_text(smallest_p(difference.n, sign_flip=difference.exact))
        return f"underpowered; with {seeds} the smallest p there is, before correction, is {least}."
    if difference.low == difference.high == 0.0:
        return f"both have the same value in each of {seeds}."
    if difference.verdict is not Verdict.NOT_SEPARABLE:
        return f"{first} is {difference.verdict.value} than {second}, over {seeds} of this task and backbone."
    if difference.p_holm is not None and difference.p_holm <= protocol.alpha:
        return f"{first} and {second} differ over {seeds}; the measure has no better side."
    none = f"no difference is shown with {seeds}, which does not show that there is none."
    if detectable is None:
        return none
    return f"{none} A true difference of {detectable:.2g} would be found in {protocol.power:.0%} of such comparisons."


def _notes(
    block: Block, rows: tuple[Row, Row], shared: tuple[int, ...], protocol: StatisticsProtocol
) -> tuple[str, ...]:
    out = []
    if len(shared) < protocol.seeds:
        out.append(f"The rows share {counted(len(shared), 'seed')}; the protocol asks for {protocol.seeds}.")
    for row in rows:
        if row.diverged:
            seeds = ", ".join(map(str, row.diverged))
            out.append(f"{row.label} diverged at seed {seeds}; these runs are left out, which flatters it.")
    if block.oracle is None:
        out.append(f"There is no row {protocol.oracle}, so nothing can be said about equivalence to retraining.")
    return tuple(out)


def pairs_document(found: Iterable[PairedBlock], protocol: StatisticsProtocol) -> dict[str, Any]:
    """The document of ``bench results compare --json``: differences are first minus second, numbers have six digits."""
    blocks = [
        {
            **names_of(each.block.key),
            "setup": each.block.key.variant,
            "seeds": list(each.seeds),
            "family": each.family,
            "measures": [_measure(one, each) for one in each.measures],
            "notes": list(each.notes),
        }
        for each in found
    ]
    return {
        "kind": "genrec-unlearn-bench comparison",
        "schema_version": SCHEMA_VERSION,
        "protocol": protocol.model_dump(mode="json"),
        "blocks": blocks,
    }


def _measure(one: PairedMeasure, each: PairedBlock) -> dict[str, Any]:
    found = one.difference
    sides = [
        {
            "label": row.label,
            **fields(cell, "mean", "sd", "n"),
            "equivalence": cell.equivalence.verdict.value if cell.equivalence is not None else None,
        }
        for row, cell in zip((each.first, each.second), one.cells, strict=True)
    ]
    return {
        "measure": one.measure.text,
        **dict(zip(("first", "second"), sides, strict=True)),
        "difference": six(found.estimate),
        **fields(found, "low", "high", "n", "p", "p_holm", "p_sign_flip", "effect", "exact", "verdict"),
        "detectable": six(one.detectable),
        "sentence": one.sentence,
    }


def names_of(key: BlockKey) -> dict[str, str]:
    """Task, backbone, scale and ruleset, as documents have them."""
    return fields(key, "task", "backbone", "scale", "ruleset")


def draw_pairs(console: Console, found: Sequence[PairedBlock], protocol: StatisticsProtocol) -> None:
    """Print every block: a line for each measure, then sentences and notes."""
    heads = ("measure", "A", "B", "A - B", "p", "p Holm", "sign flip", "g", "seeds")
    for each in found:
        names = f"A = {each.first.label}, B = {each.second.label}"
        console.print(Text(visible(f"{each.block.key.title}: {names}"), style="bold"))
        console.print(plain_grid(heads, [_line(one) for one in each.measures]))
        sentences = [one.sentence for one in each.measures]
        sentences += [_equivalence(one, each, protocol) for one in each.measures]
        print_sentences(console, (*sentences, *each.notes))
        console.print()
    tests = " and ".join(dict.fromkeys(f"{each.family}" for each in found))
    note = (
        f"{protocol.name.capitalize()}: paired t over shared training seeds, Holm over the {tests} tests of a block, "
        f"α = {protocol.alpha:g}; {protocol.confidence:.0%} t intervals; g: Hedges' g of the differences; the exact "
        f"sign flip is given from {protocol.sign_flip_from} seeds up. A pair that was picked after a look at a table "
        "needs that table's families instead (bench leaderboard)."
    )
    console.print(Text(note))


def _line(one: PairedMeasure) -> tuple[str, ...]:
    found, places = one.difference, decimals(one.measure.spec)
    return (
        f"{one.measure.title} {one.measure.arrow}".strip(),
        *(_mean(cell, places) for cell in one.cells),
        interval_text(found.estimate, found.low, found.high, places),
        *map(p_text, (found.p, found.p_holm, found.p_sign_flip)),
        "–" if found.effect is None else f"{found.effect:.2f}",
        str(found.n),
    )


def _equivalence(one: PairedMeasure, each: PairedBlock, protocol: StatisticsProtocol) -> str:
    margin = next((cell.equivalence.margin for cell in one.cells if cell.equivalence is not None), None)
    parts = [
        f"{row.label} {cell.equivalence.verdict.value if cell.equivalence is not None else 'not tested'}"
        for row, cell in zip((each.first, each.second), one.cells, strict=True)
        if row is not each.block.oracle
    ]
    allowed = f" (margin {margin:.2g})" if margin is not None else ""
    return f"{one.measure.title}, equivalence to {protocol.oracle}{allowed}: {', '.join(parts)}."


def _mean(cell: Cell, places: int) -> str:
    spread = f" ±{fixed(cell.sd, places)}" if cell.sd is not None else ""
    return bare(fixed(cell.mean, places) + spread) if cell.mean is not None else "–"


def interval_text(estimate: float, low: float | None, high: float | None, places: int) -> str:
    """``+.0123 [.0100, .0150]``; the estimate alone where there is no interval."""
    if six(estimate) is None:
        return "–"
    text = f"{'+' if estimate > 0 else ''}{fixed(estimate, places)}"
    if low is not None and high is not None and isfinite(low) and isfinite(high):
        text += f" [{fixed(low, places)}, {fixed(high, places)}]"
    return bare(text)
