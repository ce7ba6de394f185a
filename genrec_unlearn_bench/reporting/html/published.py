"""Numbers that a paper reports, placed beside the blocks and measures that they would stand in.

They are context: never ranked, never tested, and marked where they break what every correct evaluation keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from genrec_unlearn_bench.reporting.html.payload_model import BlockData, Reported
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.numbers import six
from genrec_unlearn_bench.reporting.reported import ReportedCell

__all__ = ["published_beside"]


def published_beside(
    cells: Sequence[ReportedCell], blocks: Sequence[BlockData], numbers: Mapping[Measure, int]
) -> tuple[Reported, ...]:
    """The cells of these blocks' tasks and backbones whose measure is on the page, run here or not."""
    places: dict[tuple[str, str], list[int]] = {}
    for place, block in enumerate(blocks):
        if block.regime:
            # What is reported was measured after one request.
            continue
        places.setdefault((block.task, block.backbone), []).append(place)
    return tuple(
        Reported(
            block=place,
            method=cell.method,
            measure=numbers[cell.measure],
            value=six(cell.value) or 0.0,
            sd=six(cell.sd),
            broken=cell.broken,
        )
        for cell in cells
        for place in places.get((cell.task, cell.backbone), ())
        if cell.measure in numbers
    )
