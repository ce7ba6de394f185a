"""How figures look: widths of a paper, type sizes, and a colour, marker and dash for every row.

Colours are those of Okabe and Ito (2008), which the common kinds of colour blindness keep apart; yellow is left out, as
it is too light for lines on white. Markers differ with the colours, so that a print in grey can be read as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Any

__all__ = ["FLOOR", "ORACLE", "ORIGINAL", "PALETTE", "ROWS", "Look", "Width", "columns_of_legend", "looks", "styled"]


class Width(StrEnum):
    """Of a figure, on paper."""

    COLUMN = "column"
    PAGE = "page"

    @property
    def inches(self) -> float:
        """3.33 is a column of ACM's and near that of IEEE's and ACL's classes, 7 the text of both columns."""
        return 3.33 if self is Width.COLUMN else 7.0


@dataclass(frozen=True)
class Look:
    """Of one row.

    Attributes:
        dash: In points on and off; empty = solid.
        order: What is drawn over what.
    """

    colour: str
    marker: str
    width: float = 1.1
    dash: tuple[float, ...] = ()
    order: float = 2.0


PALETTE: tuple[tuple[str, str], ...] = (
    ("#0072B2", "o"),
    ("#D55E00", "s"),
    ("#009E73", "^"),
    ("#CC79A7", "D"),
    ("#E69F00", "v"),
    ("#56B4E9", "P"),
)
"""Colours of Okabe and Ito with the marker that goes with each."""
ROWS = len(PALETTE)
"""Rows that one figure tells apart, beside the references; more go into further parts."""

ORIGINAL = Look("#000000", "x", width=1.3, order=3.0)
ORACLE = Look("#707070", "+", width=1.8, order=2.5)
FLOOR = Look("#A0A0A0", "", width=1.0, dash=(1.0, 1.5), order=1.0)

_SETTINGS: Mapping[str, Any] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 7.5,
        "axes.titlesize": 8.0,
        "axes.labelsize": 7.5,
        "xtick.labelsize": 7.0,
        "ytick.labelsize": 7.0,
        "legend.fontsize": 7.0,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "lines.markersize": 3.6,
        "figure.dpi": 100,
        "savefig.dpi": 300,
        "savefig.facecolor": "white",
        # Names are text and no formulas, whoever chose them.
        "text.parse_math": False,
        "text.usetex": False,
        "pdf.fonttype": 42,
        "svg.fonttype": "path",
        # Element ids are hashed with it instead of a random number.
        "svg.hashsalt": "genrec-unlearn-bench",
    }
)


def looks(labels: Sequence[str]) -> dict[str, Look]:
    """A look for every row, in their order; ``ROWS`` neighbours never share one."""
    return {label: Look(*PALETTE[place % ROWS]) for place, label in enumerate(labels)}


def columns_of_legend(labels: Sequence[str], width: Width) -> int:
    """Columns that the legend's entries fit into."""
    letters = max((len(label) for label in labels), default=1)
    # A letter of 7 pt is 3.9 pt wide on average; handle and gaps take 29 pt.
    return max(1, min(len(labels), int(width.inches * 72.0 / (3.9 * letters + 29.0))))


@contextmanager
def styled() -> Iterator[None]:
    """The settings above, for drawing and for writing; nothing of the caller's own settings gets in."""
    from matplotlib import rc_context, rcParamsDefault

    # The backend is nobody's business here: figures are drawn without one.
    chosen: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")}
    chosen.update(_SETTINGS)
    with rc_context(chosen):
        yield
