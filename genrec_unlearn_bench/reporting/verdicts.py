"""Three verdicts on a row of a block: does it forget, what does it keep, what does it cost.

Forgets: forget HR@10 against the retrained model, by two one-sided tests, in the worst case over the lists as served
and exposed (protocol 1: and, where measured, decoded in the original IDs). Keeps: retain NDCG@10 and HR@10 against the
original, by the same tests with the same margin; the worse of both counts. Costs: seconds of unlearning and of tuning
as a share of retraining. A method whose every number is the original's in every seed has no effect, whatever the tests
say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean
from typing import NamedTuple

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting import analysis
from genrec_unlearn_bench.reporting.analysis import BlockAnalysis
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS, TOTAL_SHARE, TUNING_SECONDS, UNLEARN_SECONDS, Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics import equivalence
from genrec_unlearn_bench.reporting.statistics.equivalence import tosts
from genrec_unlearn_bench.reporting.statistics.paired import t_interval

SHARE = Measure("cost.share-of-retraining", Group.ALL)
COSTS = (UNLEARN_SECONDS, SHARE, *RECORDED_COSTS)
"""Of no family of tests here."""
KEPT = ("retain:ndcg@10", "retain:hr@10")
_NOT_OUTCOMES = ("cost.", "overlap-change.")
"""Families of metrics that differ from the original's although the model is the same."""


class Tone(StrEnum):
    """How a verdict is coloured; open: nothing was shown, or nothing could be."""

    GOOD = "good"
    FAIR = "fair"
    BAD = "bad"
    OPEN = "open"


class Forgets(StrEnum):
    """Compared with retraining, best first."""

    YES = "yes"
    BELOW = "below retrain"
    """Names fewer forget items than the retrained model, by more than the margin."""
    UNCLEAR = "unclear"
    PARTLY = "partly"
    """More than retraining leaves, and less than the original names."""
    NO = "no"
    UNTESTED = "not tested"
    NO_EFFECT = "no effect"
    MISSING = "not measured"
    DIVERGED = "diverged"


_MEANING = {
    Forgets.YES: "equivalent",
    Forgets.BELOW: "less",
    Forgets.UNCLEAR: "neither equivalence nor a difference is shown",
    Forgets.PARTLY: "more, but less than the original",
    Forgets.NO: "more, and not shown to be less than the original",
    Forgets.UNTESTED: "too few seeds",
}


class Keeps(StrEnum):
    """Compared with the original, best first."""

    BETTER = "better"
    EQUIVALENT = "equivalent"
    UNCLEAR = "unclear"
    WORSE = "worse"
    UNTESTED = "not tested"
    MISSING = "not measured"
    DIVERGED = "diverged"


class Costs(StrEnum):
    """Compared with retraining (cheaper: less than half of it); with tuning where its seconds are recorded."""

    CHEAPER = "cheaper"
    OVER_HALF = "over half"
    DEARER = "dearer"
    MISSING = "not measured"


_TONES: dict[Forgets | Keeps | Costs, Tone] = {
    **dict.fromkeys((Forgets.YES, Keeps.BETTER, Keeps.EQUIVALENT, Costs.CHEAPER), Tone.GOOD),
    **dict.fromkeys((Forgets.BELOW, Forgets.UNCLEAR, Forgets.PARTLY, Keeps.UNCLEAR, Costs.OVER_HALF), Tone.FAIR),
    **dict.fromkeys((Forgets.NO, Forgets.NO_EFFECT, Forgets.DIVERGED, Keeps.WORSE, Costs.DEARER), Tone.BAD),
}
"""Outcomes of one name have one tone; the others are open."""


@dataclass(frozen=True)
class Verdict:
    """One verdict.

    Attributes:
        outcome: In a word or two.
        detail: The number behind it, short enough for a table: ``34 % left``, ``−2.1 %``, ``33%``.
        sentence: All of it, with the measures that were compared.
        order: To sort by; smaller is better.
    """

    outcome: Forgets | Keeps | Costs
    detail: str
    sentence: str
    order: float

    @property
    def tone(self) -> Tone:
        return _TONES.get(self.outcome, Tone.OPEN)


@dataclass(frozen=True)
class Verdicts:
    """The three verdicts on a row, and its place in the plot of forgetting against retaining.

    Attributes:
        gap: Forget HR@10 minus the retrained model's, in the worst case; None = not measured.
        kept: Mean retain NDCG@10.
    """

    forgets: Verdict
    keeps: Verdict
    costs: Verdict
    gap: float | None
    kept: float | None

    @property
    def order(self) -> tuple[float, float, float]:
        """Of the three verdicts, to sort a column by."""
        return self.forgets.order, self.keeps.order, self.costs.order


def sort_key(order: Sequence[float]) -> tuple[float, float, float]:
    """To sort rows by ``Verdicts.order``: the outcome of forgetting, then that of keeping, then the cost; without
    tests, the number left."""
    forgets, keeps, costs = order
    return forgets if int(forgets) == _place(Forgets.UNTESTED) else int(forgets), int(keeps), costs


class _Evidence(NamedTuple):
    """A row's forget HR@10 in one kind of IDs; ``left`` is the share of the original's advantage over retraining."""

    outcome: Forgets
    gap: float
    left: float | None
    sentence: str


def verdict_measures(protocol: StatisticsProtocol) -> tuple[Measure, ...]:
    """What verdicts are about: forgetting and its parts, NDCG@10 and HR@10 kept, then costs."""
    return *protocol.measures((*protocol.forgetting, *protocol.forgetting_parts, *KEPT)), *COSTS


def verdict_analysis(block: Block, protocol: StatisticsProtocol) -> BlockAnalysis:
    """The analysis that ``verdicts`` reads."""
    untested = frozenset((*COSTS, *protocol.measures(protocol.forgetting_parts)))
    primary = protocol.measures(protocol.primary)
    return analysis.analyse_block(block, protocol, verdict_measures(protocol), primary, untested=untested)


def verdicts(block: BlockAnalysis, row: Row, protocol: StatisticsProtocol) -> Verdicts:
    """The verdicts on a row of a block, from its ``verdict_analysis``."""
    kept = protocol.measures(KEPT)
    evidence = [found for each in protocol.measures(protocol.forgetting) if (found := _evidence(block, row, each))]
    worst = max(evidence, key=lambda found: (_place(found.outcome), found.gap), default=None)
    return Verdicts(
        forgets=_forgets(block, row, evidence, worst, protocol.measures(protocol.forgetting_parts)),
        keeps=_keeps(block, row, kept),
        costs=_costs(block, row),
        gap=worst.gap if worst else None,
        kept=cell.mean if (cell := _cell(block, row, kept[0])) else None,
    )


def pareto_front(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Whether no other point is nearer to zero in the first number and as high in the second, or the other way."""
    turned = [(abs(gap), -kept) for gap, kept in points]
    return tuple(
        not any(other != own and other[0] <= own[0] and other[1] <= own[1] for other in turned) for own in turned
    )


def _place(outcome: Forgets | Keeps) -> int:
    return list(type(outcome)).index(outcome)


def _cell(block: BlockAnalysis, row: Row | None, measure: Measure) -> analysis.Cell | None:
    found = block.cells.get((row.label, measure)) if row is not None else None
    return found if found is not None and found.mean is not None else None


def _evidence(block: BlockAnalysis, row: Row, measure: Measure) -> _Evidence | None:
    cell, target = _cell(block, row, measure), _cell(block, block.block.oracle, measure)
    if cell is None or target is None or not (differences := cell.minus(target)):
        return None
    gap = fmean(differences)
    original = _cell(block, block.baseline, measure)
    advantage = fmean((original.minus(target) if original else []) or [0.0])
    outcome = _against_retraining(cell, original, gap)
    return _Evidence(
        outcome=outcome,
        gap=gap,
        left=max(0.0, gap / advantage) if advantage > (block.margins.get(measure) or 0.0) else None,
        sentence=f"{measure.title} {cell.mean:.4f}, retrained {target.mean:.4f}: {_MEANING[outcome]}",
    )


def _against_retraining(cell: analysis.Cell, original: analysis.Cell | None, gap: float) -> Forgets:
    match cell.equivalence.verdict if cell.equivalence else None:
        case equivalence.Verdict.EQUIVALENT | equivalence.Verdict.IDENTICAL:
            return Forgets.YES
        case equivalence.Verdict.NOT_SHOWN:
            return Forgets.UNCLEAR
        case equivalence.Verdict.DIFFERENT:
            return Forgets.BELOW if gap < 0 else Forgets.PARTLY if _lower(cell, original) else Forgets.NO
    return Forgets.UNTESTED


def _lower(cell: analysis.Cell, original: analysis.Cell | None) -> bool:
    """Whether a row names fewer than the original: by its test, or for a row of no family by its own interval."""
    if cell.difference is not None:
        return cell.difference.verdict is analysis.Verdict.BETTER
    differences = cell.minus(original) if original else []
    return len(differences) > 1 and bool(t_interval([differences]).high[0] < 0.0)


def _verdict(outcome: Forgets | Keeps, detail: str, sentence: str, fine: float = 0.0) -> Verdict:
    """A verdict that is sorted by its outcome, and within one by ``fine``, which is below 1."""
    return Verdict(outcome, detail, sentence, _place(outcome) + fine)


def _forgets(
    block: BlockAnalysis, row: Row, evidence: Sequence[_Evidence], worst: _Evidence | None, parts: Sequence[Measure]
) -> Verdict:
    if row.diverged:
        number = f"{len(row.diverged)} of {len(row.results)}"
        return _verdict(Forgets.DIVERGED, number, f"{number} runs diverged.")
    if worst is None:
        return _verdict(Forgets.MISSING, "", "Forget HR@10 or a retrained model is missing.")
    outcome = Forgets.NO_EFFECT if _unchanged(row, block.baseline) else worst.outcome
    shown = [f"{part.title} {cell.mean:.4f}" for part in parts if (cell := _cell(block, row, part)) is not None]
    sentence = "; ".join([*(found.sentence for found in evidence), *shown])
    if outcome is Forgets.NO_EFFECT:
        sentence = f"Every number is the original's in every seed. {sentence}"
    if outcome is Forgets.UNTESTED:
        sentence = "Too few seeds for a test, or for a margin"
    number = f"{worst.left:.0%} left" if worst.left is not None else f"{worst.gap:+.4f}"
    fine = min(worst.left if worst.left is not None else abs(worst.gap), 9.0) / 10
    return _verdict(outcome, number, f"{sentence}.", fine)


def _unchanged(row: Row, original: Row | None) -> bool:
    """Whether every outcome of every run is the original's of the same seed."""
    if original is None or row is original:
        return False
    for seed, result in row.results.items():
        theirs = original.results[seed].values if seed in original.results else {}
        shared = [m for m in result.values.keys() & theirs.keys() if not m.metric.startswith(_NOT_OUTCOMES)]
        if not shared or any(result.values[measure] != theirs[measure] for measure in shared):
            return False
    return True


def _keeps(block: BlockAnalysis, row: Row, measures: Sequence[Measure]) -> Verdict:
    if row.diverged:
        return _verdict(Keeps.DIVERGED, "", "A diverged run keeps nothing.")
    found: list[tuple[Keeps, str, float]] = []
    for measure in measures:
        cell, original = _cell(block, row, measure), _cell(block, block.baseline, measure)
        differences = cell.minus(original) if cell and original else []
        if cell is None or original is None or not differences or not original.mean:
            continue
        margin = block.margins.get(measure)
        outcome = _against_original(cell, differences, margin)
        allowed = f" (margin {margin:.4f})" if margin is not None else ""
        words = f"{measure.title} {cell.mean:.4f}, original {original.mean:.4f}{allowed}: {outcome.value}"
        found.append((outcome, words, fmean(differences) / original.mean))
    if not found:
        return _verdict(Keeps.MISSING, "", "Retain quality or the original is missing.")
    worst = max((outcome for outcome, _, _ in found), key=_place)
    change = found[0][2]
    sentence = "; ".join(words for _, words, _ in found) + "." if worst is not Keeps.UNTESTED else ""
    shown = f"{change:+.1%}".replace("-", "−") if abs(change) >= 0.0005 else "0.0%"
    return _verdict(worst, shown, sentence, 0.5 - max(-0.49, min(0.49, change / 10)))


def _against_original(cell: analysis.Cell, differences: Sequence[float], margin: float | None) -> Keeps:
    """A difference inside the margin is equivalent, even where it is significant."""
    found = tosts([differences], margin)[0]
    tested = cell.difference.verdict if cell.difference else None
    if found.verdict in (equivalence.Verdict.EQUIVALENT, equivalence.Verdict.IDENTICAL):
        return Keeps.EQUIVALENT
    if found.verdict is equivalence.Verdict.DIFFERENT:
        return Keeps.WORSE if found.estimate < 0 else Keeps.BETTER
    if tested in (analysis.Verdict.WORSE, analysis.Verdict.BETTER):
        return Keeps.WORSE if tested is analysis.Verdict.WORSE else Keeps.BETTER
    return Keeps.UNTESTED if found.verdict is equivalence.Verdict.UNDERPOWERED else Keeps.UNCLEAR


def _costs(block: BlockAnalysis, row: Row) -> Verdict:
    seconds, share, tuning, total = (
        cell.mean if (cell := _cell(block, row, measure)) else None
        for measure in (UNLEARN_SECONDS, SHARE, TUNING_SECONDS, TOTAL_SHARE)
    )
    if seconds is None or share is None:
        return Verdict(Costs.MISSING, "", "Seconds of unlearning or of retraining are missing.", 99.0)
    if tuning is None or total is None:
        whole, how, mark = share, "; seconds of tuning are not recorded", " + tuning"
    else:
        whole, how, mark = total / 100.0, f" and {tuning:.0f} s of tuning" if tuning else ", not tuned", ""
    outcome = Costs.CHEAPER if whole < 0.5 else Costs.OVER_HALF if whole < 1.0 else Costs.DEARER
    sentence = f"{seconds:.1f} s of unlearning{how}; {_share(share)} of retraining by itself."
    return Verdict(outcome, f"{_share(whole)}{mark}", sentence, whole)


def _share(share: float) -> str:
    """As a table shows it: 7%, 104%, 260%, < 1%."""
    return f"{share:.0%}" if share >= 0.01 else "< 1%"
