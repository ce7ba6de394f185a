"""Methods compared across blocks: Friedman's test, its post-hocs and the diagram, from the protocol's number up.

Below that number there is a sentence and no test: with few blocks Friedman's chi-square is off, and ten tables read one
by one say more. Which rows and blocks take part is decided by what was run, never by the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.statistics.friedman import Diagram, Friedman, critical_difference, friedman
from genrec_unlearn_bench.reporting.statistics.ranks import tie_groups
from genrec_unlearn_bench.reporting.wording import listed, p_text

__all__ = ["Across", "Standing", "across"]


@dataclass(frozen=True)
class Standing:
    """One method's place over all blocks; methods that share a letter are not separable."""

    label: str
    mean_rank: float
    letters: str


@dataclass(frozen=True, eq=False)
class Across:
    """One primary measure over all blocks of one ruleset and scale.

    Attributes:
        standings: Best mean rank first; empty where no test was made.
        found: The test; None where ``why_not`` says why there is none.
        notes: Sentences for below it: what took part and what did not.
    """

    name: str
    ruleset: str
    scale: str
    measure: Measure
    blocks: int
    standings: tuple[Standing, ...]
    found: Friedman | None
    alpha: float
    why_not: str = ""
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The test's outcome."""
        if self.found is None:
            return self.why_not
        differ = "the methods differ" if self.found.p <= self.alpha else "no difference between the methods is shown"
        return (
            f"Friedman over {self.blocks} blocks and {len(self.standings)} methods: χ² = {self.found.statistic:.2f}, "
            f"p = {p_text(self.found.p)}; {differ}. Post-hocs: Siegel and Castellan, Holm over all pairs of this "
            f"measure."
        )

    def diagram(self) -> Diagram | None:
        """The critical-difference diagram; None where no test was made."""
        if self.found is None:
            return None
        # Friedman's rows are in the order of labels, the standings by rank.
        return critical_difference(self.found, sorted(place.label for place in self.standings), alpha=self.alpha)


def across(analysis: Analysis) -> tuple[Across, ...]:
    """Every primary measure over the blocks of every regime, ruleset and scale, most blocks first."""
    places: dict[tuple[str, str, str], list[BlockAnalysis]] = {}
    for block in analysis.blocks:
        key = block.block.key
        places.setdefault((key.regime, key.ruleset, key.scale), []).append(block)
    out: list[Across] = []
    for (regime, ruleset, scale), blocks in places.items():
        chosen, left_out = _one_setup(blocks)
        for measure in dict.fromkeys(measure for block in chosen for measure in block.primary):
            out.append(_compare(analysis, regime, ruleset, scale, chosen, measure, left_out))
    return tuple(sorted(out, key=lambda each: (-each.blocks, each.ruleset, each.scale)))


def _one_setup(blocks: Sequence[BlockAnalysis]) -> tuple[list[BlockAnalysis], tuple[str, ...]]:
    """One block for each task × backbone: of several setups the one with most rows, as they are not independent."""
    best: dict[tuple[str, str], BlockAnalysis] = {}
    for block in blocks:
        place = (block.block.key.task, block.block.key.backbone)
        other = best.get(place)
        if other is None or len(block.block.rows) > len(other.block.rows):
            best[place] = block
    kept = list(best.values())
    dropped = [block.block.key.title for block in blocks if block not in kept]
    note = (f"Further setups of a task and backbone count once; not counted: {listed(dropped)}.",) if dropped else ()
    return kept, note


def _compare(
    analysis: Analysis,
    regime: str,
    ruleset: str,
    scale: str,
    blocks: Sequence[BlockAnalysis],
    measure: Measure,
    left_out: tuple[str, ...],
) -> Across:
    protocol = analysis.protocol
    scores = [_scores(block, measure) for block in blocks]
    used = [found for found in scores if found]
    everyone = sorted({label for found in used for label in found})
    labels = [label for label in everyone if all(label in found for found in used)]
    gaps = [label for label in everyone if label not in labels]
    notes = left_out + ((f"Not measured in every block and left out: {listed(gaps)}.",) if gaps else ())
    why_not = ""
    where = f", {regime}" if regime else ""
    if len(used) < protocol.friedman_blocks:
        why_not = (
            f"{measure.title}: {len(used)} {'block' if len(used) == 1 else 'blocks'} (task × backbone) at scale "
            f"{scale}, ruleset {ruleset}{where}; methods are compared across blocks from {protocol.friedman_blocks} up."
        )
    elif len(labels) < 3:
        why_not = f"{measure.title}: {len(labels)} methods were measured in all {len(used)} blocks; ranks need three."
    found = None
    standings: tuple[Standing, ...] = ()
    if not why_not:
        table = np.array([[found_[label] for label in labels] for found_ in used])
        found = friedman(table, least_blocks=protocol.friedman_blocks)
        standings = _standings(found, labels, protocol.alpha)
    parts = [part.replace(" ", "-") for part in regime.split(", ") if part]
    name = "-".join(("across", *parts, ruleset, scale, measure.text.replace(":", "-").replace("/", "-beam")))
    return Across(
        name, ruleset, scale, measure, len(used), standings, found, protocol.alpha, why_not, () if why_not else notes
    )


def _scores(block: BlockAnalysis, measure: Measure) -> Mapping[str, float]:
    """Mean over seeds of each ranked row, turned so that larger is better."""
    out: dict[str, float] = {}
    for row in block.block.rows:
        if row.kind != "method" or row.diverged:
            continue
        mean = block.cell(row, measure).mean if (row.label, measure) in block.cells else None
        score = measure.score(mean) if mean is not None else None
        if score is not None:
            out[row.label] = score
    return out


def _standings(found: Friedman, labels: Sequence[str], alpha: float) -> tuple[Standing, ...]:
    order = sorted(range(len(labels)), key=lambda i: (float(found.mean_ranks[i]), labels[i]))
    separable = np.asarray(found.posthoc <= alpha)[np.ix_(order, order)]
    groups = tie_groups(separable)
    return tuple(
        Standing(labels[i], float(found.mean_ranks[i]), letters) for i, letters in zip(order, groups, strict=True)
    )
