"""A paper's numbers beside ours in LaTeX: one table a block, the cells that contradict their own row marked."""

from __future__ import annotations

from collections.abc import Sequence

from genrec_unlearn_bench.reporting.beside import Beside, beside_notes
from genrec_unlearn_bench.reporting.latex.escape import escape, label
from genrec_unlearn_bench.reporting.latex.templates import TexFloat, template
from genrec_unlearn_bench.reporting.numbers import fixed

__all__ = ["reported_floats"]

MARK = r"\rlap{\textsuperscript{!}}"
"""Takes no room, so that the digits of a column stay below each other."""


def reported_floats(found: Sequence[Beside]) -> list[str]:
    """A float for every block that the paper reports something for; none where it reports nothing."""
    out = []
    for block in dict.fromkeys(pair.block for pair in found):
        here = [pair for pair in found if pair.block == block]
        out.append(template("table.tex").render(table=_float(block, here)))
    return out


def _float(block: str, found: Sequence[Beside]) -> TexFloat:
    titles = list(dict.fromkeys(pair.title for pair in found))
    methods = list(dict.fromkeys(pair.method for pair in found))
    cells = {(pair.method, pair.title): pair for pair in found}
    width = 2 * len(titles)
    heads = " & ".join(rf"\multicolumn{{2}}{{c}}{{{escape(title)}}}" for title in titles)
    rules = "".join(rf"\cmidrule(lr){{{2 * i + 2}-{2 * i + 3}}}" for i in range(len(titles)))
    body = [r"\midrule"]
    for method in methods:
        parts = [_pair(cells.get((method, title))) for title in titles]
        body.append(f"{escape(method)} & {' & '.join(parts)} " + r"\\")
    return TexFloat(
        environment="table*" if width > 6 else "table",
        caption=f"Reported numbers beside ours: {escape(block)}.",
        short=f"Reported beside ours: {escape(block)}",
        label=f"tab:reported-{label(block)}",
        again=False,
        columns="l" + "r" * width,
        head=(rf"& {heads} \\", rules, "& " + " & ".join(["reported & ours"] * len(titles)) + r" \\"),
        body=tuple(body),
        notes=" ".join(escape(note) for note in beside_notes(found)),
    )


def _pair(pair: Beside | None) -> str:
    if pair is None:
        return "-- & --"
    # The paper prints three places; more would be invented.
    reported = fixed(pair.reported, 3) + (MARK if pair.mark else "")
    ours = fixed(pair.ours, pair.decimals) if pair.ours is not None else "--"
    return f"{reported} & {ours}"
