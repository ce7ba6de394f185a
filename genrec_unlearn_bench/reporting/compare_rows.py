"""Two rows compared over the seeds that they share, block by block, with a sentence that claims no more than the test.

The family is what the call names: the measures of one block. Whoever looks at all pairs of methods needs the table's
families instead (``analysis``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.reporting.analysis import Cell, Verdict, analyse_block
from genrec_unlearn_bench.reporting.board import Block, Board, Row
from genrec_unlearn_bench.reporting.families import scores
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.paired import (
    PairedTest,
    detectable_difference,
    holm,
    paired_tests,
    sign_flip,
    smallest_p,
)
from genrec_unlearn_bench.reporting.wording import finite, p_text

__all__ = ["PairedBlock", "PairedMeasure", "compare_rows", "find_pair"]


@dataclass(frozen=True)
class PairedMeasure:
    """One measure of one block.

    Attributes:
        first, second: Both rows by themselves, with their equivalence to the oracle.
        estimate, low, high: First minus second, paired by seed, in the measure's unit.
        p_holm: Corrected over the measures of the call in this block.
        p_sign_flip: From the protocol's number of seeds up.
        verdict: BETTER: the first is. NOT_SEPARABLE for a measure without a direction as well.
        detectable: The least true difference that this comparison finds with the protocol's power, at the family's
            first Holm step; None without spread or below two seeds.
        sentence: What may be said.
    """

    measure: Measure
    first: Cell
    second: Cell
    estimate: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    p_holm: float | None
    p_sign_flip: float | None
    effect: float | None
    exact: bool
    verdict: Verdict
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
    known = {row.label for block in board.blocks for row in block.rows}
    known |= {row.method for block in board.blocks for row in block.rows}
    for name in (first, second):
        if name not in known:
            raise UnknownName("method", name, known)
    if first == second:
        raise UsageError(f"{first!r} cannot be compared with itself", hint="name two different rows")
    found = tuple(
        block
        for block in board.blocks
        if _row(block, first) is not None
        and _row(block, second) is not None
        and _row(block, first) is not _row(block, second)
    )
    if found:
        return found
    for name in (first, second):
        labels = sorted({r.label for b in board.blocks for r in b.rows if r.method == name})
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
    places = block.rows.index(one), block.rows.index(two)
    differences = values[:, places[0]] - values[:, places[1]]
    shown = paired_tests(differences, confidence=protocol.confidence)
    # Tested is what the verdict says: for a measure that is best near the oracle the distance, not the sign.
    # Without a better side it is the difference itself.
    turned = [scores(v, m) if m.score(1.0) is not None else v for v, m in zip(values, measures, strict=True)]
    gains = np.stack([one[places[0]] - one[places[1]] for one in turned])
    tests = paired_tests(gains)
    corrected, flips = holm(tests.p), sign_flip(gains)
    family = int(np.isfinite(tests.p).sum())
    shared = tuple(seed for j, seed in enumerate(block.seeds) if np.isfinite(differences[:, j]).any())
    level = protocol.alpha / max(family, 1)
    out = []
    for i, measure in enumerate(measures):
        n, exact = int(tests.n[i]), bool(tests.exact[i])
        sd = float(np.nanstd(differences[i], ddof=1)) if n >= 2 else 0.0
        found = PairedMeasure(
            measure=measure,
            first=analysis.cell(one, measure),
            second=analysis.cell(two, measure),
            estimate=finite(shown.estimate[i]),
            low=finite(shown.low[i]),
            high=finite(shown.high[i]),
            n=n,
            p=finite(tests.p[i]),
            p_holm=finite(corrected[i]),
            p_sign_flip=finite(flips[i]) if n >= protocol.sign_flip_from else None,
            effect=finite(shown.effect[i]),
            exact=exact,
            verdict=_verdict(measure, float(tests.estimate[i]), float(corrected[i]), n, exact=exact, of=protocol),
            detectable=detectable_difference(sd, n, level, power=protocol.power) if sd > 0.0 else None,
            sentence="",
        )
        out.append(replace(found, sentence=_sentence(found, one.label, two.label, protocol)))
    return PairedBlock(block, one, two, shared, family, tuple(out), _notes(block, (one, two), shared, protocol))


def _row(block: Block, name: str) -> Row | None:
    exact = [row for row in block.rows if row.label == name]
    named = [row for row in block.rows if row.method == name]
    return exact[0] if exact else named[0] if len(named) == 1 else None


def _verdict(measure: Measure, estimate: float, p: float, n: int, *, exact: bool, of: StatisticsProtocol) -> Verdict:
    if n < 2 or (exact and smallest_p(n, PairedTest.SIGN_FLIP) > of.alpha):
        return Verdict.UNDERPOWERED
    if not p <= of.alpha or measure.score(1.0) is None:
        return Verdict.NOT_SEPARABLE
    return Verdict.BETTER if estimate > 0 else Verdict.WORSE


def _sentence(found: PairedMeasure, first: str, second: str, protocol: StatisticsProtocol) -> str:
    title, n = found.measure.title, found.n
    seeds = f"{n} {'seed' if n == 1 else 'seeds'}"
    if n == 0 or found.estimate is None:
        return f"{title}: no seed was measured for both, so nothing can be said."
    if found.verdict is Verdict.UNDERPOWERED:
        test = PairedTest.SIGN_FLIP if found.exact else PairedTest.T
        least = p_text(smallest_p(n, test))
        return f"{title}: underpowered; with {seeds} the smallest p there is, before correction, is {least}."
    if found.low == found.high == 0.0:
        return f"{title}: both have the same value in each of {seeds}."
    significant = found.p_holm is not None and found.p_holm <= protocol.alpha
    if significant and found.verdict is Verdict.NOT_SEPARABLE:
        return f"{title}: {first} and {second} differ over {seeds}; the measure has no better side."
    if significant:
        return f"{title}: {first} is {found.verdict.value} than {second}, over {seeds} of this task and backbone."
    reach = (
        f" A true difference of {found.detectable:.2g} would be found in {protocol.power:.0%} of such comparisons."
        if found.detectable is not None
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
