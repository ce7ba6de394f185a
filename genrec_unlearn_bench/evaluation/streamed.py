"""The core measurements written as they are taken: test examples in blocks, whatever their number.

What ``evaluate`` holds in memory (histories, lists and rows of every test example) is here held for one block. The
files are the same, and so are the values, as long as a group fits into one block; beyond that the rows stand block by
block, and each block draws the random items of its histories by itself.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.evaluation.collapse import counted_values, recommended
from genrec_unlearn_bench.evaluation.context import TEST_GROUPS, EvaluationContext
from genrec_unlearn_bench.evaluation.group_lists import decode_block
from genrec_unlearn_bench.evaluation.lists import list_file, put_lists
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.overlap_change import overlap_values
from genrec_unlearn_bench.evaluation.per_user import PerUserWriter, stored_blocks
from genrec_unlearn_bench.evaluation.rescore import rescored
from genrec_unlearn_bench.evaluation.suite import Neighbours, group_frames
from genrec_unlearn_bench.evaluation.user_block import BEAMS, LIST_LENGTH, WIDE_BEAM
from genrec_unlearn_bench.progress import Progress

__all__ = ["BLOCK", "evaluate_into"]

BLOCK = 1 << 16
"""Test examples in memory at once."""


def evaluate_into(
    context: EvaluationContext, table: Path, lists: Path, progress: Progress, *, block: int = BLOCK
) -> tuple[MetricValue, ...]:
    """Measure a model as ``suite.evaluate`` does.

    Args:
        table: Where the per-user table is written.
        lists: Where the ranked lists are written.
        block: Test examples decoded and written at a time.
    """
    near = Neighbours.of(context)
    rows = {group: len(context.test(group)) for group in TEST_GROUPS}
    counts: dict[int, IntArray] = {}
    with PerUserWriter(table) as writer, list_file(lists, rows, dict.fromkeys(TEST_GROUPS, _widths(context))) as file:
        for group in TEST_GROUPS:
            # A group without examples is one empty block: its tables have columns and its values a reason.
            for first in range(0, max(rows[group], 1), block):
                part = context.test(group)
                if rows[group] > block:
                    part = part.subset(np.arange(first, min(first + block, rows[group])))
                decoded = decode_block(context, group, part, progress, first=first)
                for frame in group_frames(context, decoded, near, progress):
                    writer.write(frame)
                put_lists(file, decoded)
                if group is Group.RETAIN:
                    for beam in decoded.rankings:
                        found = recommended(decoded.top(beam), context.split.items)
                        counts[beam] = counts[beam] + found if beam in counts else found
    collapse = (value for beam, found in counts.items() for value in counted_values(beam, found))
    return (*rescored(stored_blocks(table)), *overlap_values(context), *collapse)


def _widths(context: EvaluationContext) -> dict[int, int]:
    """Places of a list at each beam; what is not pruned is ranked once, as far as the widest beam."""
    pruned = isinstance(context.ranker, Recommender)
    return {beam: max(LIST_LENGTH, beam) if pruned else WIDE_BEAM for beam in BEAMS}
