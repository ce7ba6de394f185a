"""One cell as two LaTeX columns: the mean, which siunitx aligns at its decimal point, and the spread with its marks.

Two columns, because siunitx has one font size for a number with its uncertainty, and a paper's table wants the spread
small. Bold and underline go around the aligned number without moving it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from genrec_unlearn_bench.reporting.analysis import Mark, Verdict
from genrec_unlearn_bench.reporting.numbers import fixed
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import Column, Entry

__all__ = ["MISSING", "NOT_RUN", "ColumnShape", "marks_of", "shape_of"]

MISSING = "{n.m.}"
NOT_RUN = "{--}"
_SIGNS = {Verdict.BETTER: "+", Verdict.WORSE: "-"}


@dataclass(frozen=True)
class ColumnShape:
    """How wide the numbers of a column are, over all sections of a table.

    Attributes:
        whole: Digits before the decimal point.
        spread: Digits before the decimal point of the standard deviations.
        characters: Widest cell, roughly, for choosing where to cut a wide table.
    """

    decimals: int
    whole: int
    negative: bool
    spread: int
    characters: float

    @property
    def format(self) -> str:
        """The two columns in a tabular's preamble."""
        sign = "-" if self.negative else ""
        return f"S[table-format={sign}{self.whole}.{self.decimals}]@{{\\,}}l"

    def cells(self, entry: Entry) -> str:
        """The two cells."""
        cell = entry.cell
        if cell is None:
            return f"{NOT_RUN} &"
        if cell.mean is None:
            return f"{MISSING} &"
        mean = fixed(cell.mean, self.decimals)
        if cell.mark is Mark.BEST:
            mean = rf"\gubbest {mean}"
        elif cell.mark is Mark.SECOND:
            mean = rf"{mean}{{\gubsecond{{{mean}}}}}"
        marks = "".join(marks_of(entry))
        tail = self._spread(cell.sd) + (f"$^{{{marks}}}$" if marks else "")
        return f"{mean} & {tail}" if tail else f"{mean} &"

    def _spread(self, sd: float | None) -> str:
        if sd is None:
            return ""
        text = _short(sd, self.decimals)
        filler = "0" * (self.spread - _whole(text))
        return rf"\gubsd{{\phantom{{{filler}}}{text}}}" if filler else rf"\gubsd{{{text}}}"


def shape_of(column: Column, entries: Iterable[Entry]) -> ColumnShape:
    """The shape that fits every cell of a column."""
    cells = [entry.cell for entry in entries if entry.cell is not None]
    means = [fixed(cell.mean, column.decimals) for cell in cells if cell.mean is not None]
    spreads = [_short(cell.sd, column.decimals) for cell in cells if cell.sd is not None]
    whole = max((_whole(text) for text in means), default=1)
    spread = max((_whole(text) for text in spreads), default=0)
    return ColumnShape(
        decimals=column.decimals,
        whole=whole,
        negative=any(text.startswith("-") for text in means),
        spread=spread,
        characters=whole + column.decimals + 3.0 + 0.7 * (spread + column.decimals + 2 if spreads else 0),
    )


def marks_of(entry: Entry) -> Sequence[str]:
    """Signs behind the number, in maths: at primary measures alone, as only these carry a claim."""
    cell = entry.cell
    if cell is None or not entry.column.primary or (entry.row is not None and entry.row.diverged):
        return ()
    out = []
    if cell.difference is not None and cell.difference.verdict in _SIGNS:
        out.append(_SIGNS[cell.difference.verdict])
    if cell.equivalence is not None and cell.equivalence.verdict in (Likeness.EQUIVALENT, Likeness.IDENTICAL):
        out.append(r"\dagger")
    return out


def _short(value: float, decimals: int) -> str:
    """Without the zero before the point, as spreads of rates are written."""
    text = fixed(value, decimals)
    return text.removeprefix("0") if text.startswith("0.") else text


def _whole(text: str) -> int:
    return len(text.removeprefix("-").partition(".")[0])
