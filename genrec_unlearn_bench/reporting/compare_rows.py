"""Two rows compared over the seeds that they share, block by block, with a sentence that claims no more than the test.

The family is what the call names: the measures of one block. Whoever looks at all pairs of methods needs the table's
families instead (``analysis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.reporting.analysis import Cell, Verdict, analyse_block
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.families import Difference, paired_differences
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, smallest_p
from genrec_unlearn_bench.reporting.wording import counted, p_text


@dataclass(frozen=True)
class PairedMeasure:
    """One measure of one block.

    Attributes:
        first, second: Both rows by themselves, with their equivalence to the oracle.
        difference: First minus second, corrected over the measures of the call; BETTER: the first is.
        detectable: The least true difference that this comparison finds with the protocol's power, at the family's
            first Holm step; None without spread or below two seeds.
        sentence: What may be said.
    """

    measure: Measure
    first: Cell
    second: Cell
    difference: Difference
    detectable: float | None
    sentence: str


@dataclass(frozen=True, eq=False)
class PairedBlock:
    """Two rows in one block."""

    block: Block
    first: Row
    second: Row
    seeds: tuple[int, ...]
    """Those that both have a run of that did not diverge."""
    family: int
    """Tests that Holm corrects for."""
    measures: tuple[PairedMeasure, ...]
    notes: tuple[str, ...]


def find_pair(board: Board, first: str, second: str) -> tuple[Block, ...]:
    """The blocks that have both rows, by label or, where it is one row's alone, by the method's name.

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
    found = tuple(block for block, one, two in pairs if one is not None and two is not None and one is not two)
    if found:
        return found
    for name in (first, second):
        labels = sorted({row.label for row in everyone if row.method == name})
        if len(labels) > 1:
            raise UsageError(f"{name!r} stands for several rows", hint=f"name one of them: {'; '.join(labels)}")
    raise UsageError(
        f"no block (task, backbone, scale, ruleset) has both {first!r} and {second!r}",
        hint="run both on the same task, or look at what there is (bench leaderboard)",
    )


def compare_rows(
    block: Block, first: str, second: str, measures: Sequence[Measure], protocol: StatisticsProtocol
) -> PairedBlock:
    """Compare two rows of a block (``find_pair`` says which blocks have both)."""
    one, two = _row(block, first), _row(block, second)
    if one is None or two is None:
        raise UnknownName("row", first if one is None else second, [row.label for row in block.rows])
    analysis = analyse_block(block, protocol, measures=measures, primary=measures, baseline=protocol.baseline)
    values = np.stack([block.values(measure) for measure in measures])
    ours, theirs = values[:, block.rows.index(one)], values[:, block.rows.index(two)]
    found = paired_differences(ours, theirs, measures, protocol)
    family = sum(difference.p is not None for difference in found)
    level = protocol.alpha / max(family, 1)
    out = []
    for measure, seeds, difference in zip(measures, ours - theirs, found, strict=True):
        sd = float(np.nanstd(seeds, ddof=1)) if difference.n >= 2 else 0.0
        detectable = detectable_difference(sd, difference.n, level, power=protocol.power) if sd > 0.0 else None
        sentence = _sentence(measure, difference, detectable, one.label, two.label, protocol)
        cells = analysis.cell(one, measure), analysis.cell(two, measure)
        out.append(PairedMeasure(measure, *cells, difference, detectable, sentence))
    measured = np.isfinite(ours - theirs)
    shared = tuple(seed for j, seed in enumerate(block.seeds) if measured[:, j].any())
    return PairedBlock(block, one, two, shared, family, tuple(out), _notes(block, (one, two), shared, protocol))


def _row(block: Block, name: str) -> Row | None:
    exact = [row for row in block.rows if row.label == name]
    named = [row for row in block.rows if row.method == name]
    return exact[0] if exact else named[0] if len(named) == 1 else None


def _sentence(
    measure: Measure,
    difference: Difference,
    detectable: float | None,
    first: str,
    second: str,
    protocol: StatisticsProtocol,
) -> str:
    title, n = measure.title, difference.n
    seeds = counted(n, "seed")
    if n == 0:
        return f"{title}: no seed was measured for both, so nothing can be said."
    if difference.verdict is Verdict.UNDERPOWERED:
        least = p_text(smallest_p(n, sign_flip=difference.exact))
        return f"{title}: underpowered; with {seeds} the smallest p there is, before correction, is {least}."
    if difference.low == difference.high == 0.0:
        return f"{title}: both have the same value in each of {seeds}."
    if difference.verdict is not Verdict.NOT_SEPARABLE:
        return f"{title}: {first} is {difference.verdict.value} than {second}, over {seeds} of this task and backbone."
    if difference.p_holm is not None and difference.p_holm <= protocol.alpha:
        return f"{title}: {first} and {second} differ over {seeds}; the measure has no better side."
    reach = (
        f" A true difference of {detectable:.2g} would be found in {protocol.power:.0%} of such comparisons."
        if detectable is not None
        else ""
    )
    return f"{title}: no difference is shown with {seeds}, which does not show that there is none.{reach}"


def _notes(
    block: Block, rows: tuple[Row, Row], shared: tuple[int, ...], protocol: StatisticsProtocol
) -> tuple[str, ...]:
    out = []
    if len(shared) < protocol.seeds:
        out.append(f"The rows share {len(shared)} seeds; the protocol asks for {protocol.seeds}.")
    for row in rows:
        if row.diverged:
            seeds = ", ".join(map(str, row.diverged))
            out.append(f"{row.label} diverged at seed {seeds}; these runs are left out, which flatters it.")
    if block.oracle is None:
        out.append(f"There is no row {protocol.oracle}, so nothing can be said about equivalence to retraining.")
    return tuple(out)
