"""One cell of a grid: a name that people can type, and the request that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["GridCell", "cell_name"]


@dataclass(frozen=True)
class GridCell:
    """One cell, as a grid file asks for it.

    Attributes:
        name: Unique within the grid, the same on every machine (``cell_name``).
        request: What ``bench run`` would be asked for.
        resources: What the cell may use, by the grid file; what is None is not limited or not known.
        axes: The cell's place on the grid's axes, for exclusions, tables and messages: ``{"backbone": "tiger", …}``.
    """

    name: str
    request: RunRequest
    resources: Resources = field(default_factory=Resources)
    axes: Mapping[str, Any] = field(default_factory=dict)


def cell_name(request: RunRequest, varied: Mapping[str, Any] | None = None) -> str:
    """``task/backbone/method/scale-suite-ruleset-seed0``, and ``[field=value,…]`` behind it where a grid varies fields.

    Args:
        varied: Fields of configurations that this grid varies, with this cell's values.
    """
    parts = [request.scale or "default", request.suite, request.ruleset]
    if request.requests > 1:
        parts.append(f"requests{request.requests}")
    name = f"{request.task}/{request.backbone}/{request.method}/{'-'.join(parts)}-seed{request.seed}"
    told = ",".join(f"{field}={value}" for field, value in (varied or {}).items())
    return f"{name}[{told}]" if told else name
