"""A figure's files: PDF, SVG and PNG, its numbers as CSV, and the lines that put it into a paper.

The same results give the same bytes: no date, no version of a program and no random name goes in.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.reporting.figures.model import Figure, Width, styled
from genrec_unlearn_bench.reporting.latex.escape import escape, label
from genrec_unlearn_bench.reporting.wording import csv_text

__all__ = ["FORMATS", "Written", "figure_files", "snippet"]

_METADATA: Mapping[str, Mapping[str, None]] = MappingProxyType(
    {
        "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
        "svg": {"Date": None, "Creator": None},
        "png": {"Software": None},
    }
)
FORMATS = tuple(_METADATA)


@dataclass(frozen=True)
class Written:
    """One file of a figure, by its name in the folder."""

    name: str
    content: bytes


def figure_files(figure: Figure, formats: Sequence[str], width: Width) -> tuple[Written, ...]:
    """The pictures in the formats asked for, ``<name>.csv`` and ``<name>.tex``. Raises UnknownName for a format."""
    for name in formats:
        if name not in _METADATA:
            raise UnknownName("format", name, FORMATS)
    out = [Written(f"{figure.name}.{name}", content) for name, content in _pictures(figure, formats, width)]
    out.append(Written(f"{figure.name}.csv", _sheet(figure).encode()))
    out.append(Written(f"{figure.name}.tex", snippet(figure, width, formats).encode()))
    return tuple(out)


def snippet(figure: Figure, width: Width, formats: Sequence[str] = ("pdf",)) -> str:
    """LaTeX that places the figure with its caption; for a document that loads graphicx."""
    star, size = ("*", r"\textwidth") if width is Width.PAGE else ("", r"\columnwidth")
    # pdflatex reads no SVG, and a picture of dots only where there is nothing else.
    ending = "pdf" if "pdf" in formats or "png" not in formats else "png"
    return (
        f"\\begin{{figure{star}}}[tbp]\n"
        "\\centering\n"
        f"\\includegraphics[width={size}]{{{figure.name}.{ending}}}\n"
        f"\\caption{{{escape(' '.join(figure.caption))}}}\n"
        f"\\label{{fig:{label(figure.name)}}}\n"
        f"\\end{{figure{star}}}\n"
    )


def _pictures(figure: Figure, formats: Sequence[str], width: Width) -> list[tuple[str, bytes]]:
    out = []
    with styled(), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; its letters are in the CSV.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        for name in formats:
            # Drawn anew for every format, as a layout that was made for one is not that of another.
            canvas = figure.paint(width)
            buffer = io.BytesIO()
            canvas.savefig(buffer, format=name, metadata=dict(_METADATA[name]))
            out.append((name, buffer.getvalue()))
    return out


def _sheet(figure: Figure) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(figure.heads)
    writer.writerows([_cell(value) for value in row] for row in figure.rows)
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        # Six digits, as in every other file; empty where nothing was measured.
        return format(value, ".6g") if math.isfinite(value) else ""
    return csv_text(value) if isinstance(value, str) else value
