"""Which oracles a run may be held against: a retrained model is no reference for itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.measurement import Measured, References

__all__ = ["independent_oracles"]


def independent_oracles(own: Mapping[str, Measured], references: References) -> list[Mapping[str, Measured]]:
    """What was measured on the oracles, without the one that is the run itself (the runner measures a model once)."""
    return [parts for parts in references.oracles if parts is not own]
