"""Methods compared across blocks: Friedman's test, its post-hocs and the diagram, from the protocol's number up.

Below that number there is a sentence and no test: with few blocks Friedman's chi-square is off, and ten tables read one
by one say more. Which rows and blocks take part is decided by what was run, never by the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isnan
from typing import Literal

import numpy as np

from genrec_unlearn_bench.reporting.analysis import Analysis, BlockAnalysis
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.friedman import Friedman, critical_difference, friedman
from genrec_unlearn_bench.reporting.statistics.ranks import tie_groups
from genrec_unlearn_bench.reporting.wording import counted, listed, p_text


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
        alpha: Level of the post-hocs.
        sentence: The test's outcome, or why there is none.
        notes: What took part and what did not.
    """

    name: str
    ruleset: str
    scale: str
    regime: str
    measure: Measure
    blocks: int
    standings: tuple[Standing, ...]
    found: Friedman | None
    alpha: float
    sentence: str
    notes: tuple[str, ...] = ()

    def diagram(self, form: Literal["svg", "pdf"]) -> bytes | None:
        """The critical-difference diagram; None where no test was made."""
        if self.found is None:
            return None
        # Friedman's rows are in the order of labels, the standings by rank.
        return critical_difference(self.found, sorted(place.label for place in self.standings), form, alpha=self.alpha)


@lru_cache(maxsize=1)
def across(analysis: Analysis) -> tuple[Across, ...]:
    """Every primary measure over the blocks of every regime, ruleset and scale, most blocks first."""
    out: list[Across] = []
    for blocks in analysis.by_table():
        chosen, left_out = _one_setup(blocks)
        for measure in dict.fromkeys(measure for block in chosen for measure in block.primary):
            out.append(_compare(analysis.protocol, chosen, measure, left_out))
    return tuple(sorted(out, key=lambda each: (-each.blocks, each.ruleset, each.scale)))


def _one_setup(blocks: Sequence[BlockAnalysis]) -> tuple[list[BlockAnalysis], tuple[str, ...]]:
    """One block for each task × backbone: of several setups the one with most rows, as they are not independent."""
    setups: dict[tuple[str, str], list[BlockAnalysis]] = {}
    for block in blocks:
        setups.setdefault((block.block.key.task, block.block.key.backbone), []).append(block)
    kept = [max(found, key=lambda block: len(block.block.rows)) for found in setups.values()]
    dropped = [block.block.key.title for block in blocks if block not in kept]
    note = (f"Further setups of a task and backbone count once; not counted: {listed(dropped)}.",) if dropped else ()
    return kept, note


def _compare(
    protocol: StatisticsProtocol, blocks: Sequence[BlockAnalysis], measure: Measure, left_out: tuple[str, ...]
) -> Across:
    key = blocks[0].block.key
    used = [found for block in blocks if (found := _scores(block, measure))]
    everyone = sorted({label for found in used for label in found})
    labels = [label for label in everyone if all(label in found for found in used)]
    gaps = [label for label in everyone if label not in labels]
    notes = left_out + ((f"Not measured in every block and left out: {listed(gaps)}.",) if gaps else ())
    test = None
    standings: tuple[Standing, ...] = ()
    if len(used) < protocol.friedman_blocks:
        where = f"scale {key.scale}, ruleset {key.ruleset}" + (f", {key.regime}" if key.regime else "")
        sentence = (
            f"{measure.title}: {counted(len(used), 'block')} (task × backbone) at {where}; methods are compared across "
            f"blocks from {protocol.friedman_blocks} up."
        )
    elif len(labels) < 3:
        sentence = f"{measure.title}: {len(labels)} methods were measured in all {len(used)} blocks; ranks need three."
    else:
        test = friedman([[found[label] for label in labels] for found in used])
        order = sorted(range(len(labels)), key=lambda i: (float(test.mean_ranks[i]), labels[i]))
        letters = tie_groups(np.asarray(test.posthoc <= protocol.alpha)[np.ix_(order, order)])
        standings = tuple(
            Standing(labels[i], float(test.mean_ranks[i]), each) for i, each in zip(order, letters, strict=True)
        )
        differ = "the methods differ" if test.p <= protocol.alpha else "no difference between the methods is shown"
        sentence = (
            f"Friedman over {len(used)} blocks and {len(labels)} methods: χ² = {test.statistic:.2f}, "
            f"p = {p_text(test.p)}; {differ}. Post-hocs: Siegel and Castellan, Holm over all pairs of this measure."
        )
    return Across(
        name="-".join(("across", *key.table, measure.text.replace(":", "-").replace("/", "-beam"))),
        ruleset=key.ruleset,
        scale=key.scale,
        regime=key.regime,
        measure=measure,
        blocks=len(used),
        standings=standings,
        found=test,
        alpha=protocol.alpha,
        sentence=sentence,
        notes=notes if test is not None else (),
    )


def _scores(block: BlockAnalysis, measure: Measure) -> Mapping[str, float]:
    """Mean over seeds of each ranked row, turned so that larger is better."""
    rows = [row.label for row in block.block.rows if row.kind == "method" and not row.diverged]
    cells = {label: block.cells[label, measure] for label in rows if (label, measure) in block.cells}
    scores = {label: measure.score(cell.mean) for label, cell in cells.items() if cell.mean is not None}
    return {label: score for label, score in scores.items() if not isnan(score)}
