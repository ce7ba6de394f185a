"""Tables as LaTeX: booktabs, floats that fit a page; alone or as a whole document.

Deterministic: the same tables give the same bytes. Whatever comes from records is escaped before a template sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from itertools import groupby
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.latex.columns import CELLS, FORMAT, cells_of, head_lines
from genrec_unlearn_bench.reporting.latex.escape import escape, label, shorten
from genrec_unlearn_bench.reporting.latex.pages import Page, pages_of
from genrec_unlearn_bench.reporting.reported import Beside, beside_notes
from genrec_unlearn_bench.reporting.sentences import latex_notes
from genrec_unlearn_bench.reporting.tables import Entry, Line, Table
from genrec_unlearn_bench.reporting.titles import backbone_title, row_title
from genrec_unlearn_bench.reporting.wording import fixed

if TYPE_CHECKING:
    from jinja2 import Template


@cache
def template(name: str) -> Template:
    """A template with delimiters that LaTeX does not use: ``((* block *))``, ``((( value )))``, ``((= comment =))``."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(  # noqa: S701 - values are TeX, escaped where they are made; HTML's escapes would break it
        block_start_string="((*",
        block_end_string="*))",
        variable_start_string="(((",
        variable_end_string=")))",
        comment_start_string="((=",
        comment_end_string="=))",
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    folder = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "latex"
    return environment.from_string((folder / name).read_text(encoding="utf-8"))


MARK = r"\rlap{\textsuperscript{!}}"
"""Takes no room, so that the digits of a column stay below each other."""


def reported_floats(found: Sequence[Beside]) -> list[str]:
    """A float for every block that the paper reports something for; none where it reports nothing."""
    out = []
    for block in dict.fromkeys(pair.block for pair in found):
        here = [pair for pair in found if pair.block == block]
        out.append(template("table.tex").render(table=_float(block, here)))
    return out


def _float(block: str, found: Sequence[Beside]) -> dict[str, object]:
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
    return {
        "environment": "table*" if width > 6 else "table",
        "caption": f"Reported numbers beside ours: {escape(block)}.",
        "short": f"Reported beside ours: {escape(block)}",
        "label": f"tab:reported-{label(block)}",
        "again": False,
        "columns": "l" + "r" * width,
        "head": (rf"& {heads} \\", rules, "& " + " & ".join(["reported & ours"] * len(titles)) + r" \\"),
        "body": tuple(body),
        "notes": " ".join(escape(note) for note in beside_notes(found)),
    }


def _pair(pair: Beside | None) -> str:
    if pair is None:
        return "-- & --"
    # The paper prints three places; more would be invented.
    reported = fixed(pair.reported, 3) + (MARK if pair.mark else "")
    ours = fixed(pair.ours, pair.decimals) if pair.ours is not None else "--"
    return f"{reported} & {ours}"


PACKAGES = ("booktabs", "adjustbox")
"""What a document has to load."""
ONE_COLUMN = 75.0
"""Characters from which a table spans both columns of a two-column page."""


def render_latex(
    tables: Sequence[Table],
    *,
    standalone: bool = False,
    reported: Sequence[Beside] | None = None,
) -> str:
    """All tables, one float or more for each.

    Args:
        tables: Of one call of ``make_tables``.
        standalone: A whole document: tables, the paragraph on the statistics, and the bibliography, which it writes
            beside itself as ``<job name>.bib`` when it is compiled.
        reported: A paper's numbers beside ours (``beside(tables)``), as further tables; none where it is None.
    """
    floats = [text for table in tables for text in _floats(table)]
    floats += reported_floats(reported) if reported is not None else []
    if not standalone:
        return template("fragment.tex").render(packages=PACKAGES, floats=floats)
    from genrec_unlearn_bench.reporting.bibliography import bibliography
    from genrec_unlearn_bench.reporting.paragraph import statistics_paragraph

    return template("document.tex").render(
        packages=PACKAGES,
        floats=floats,
        paragraph=statistics_paragraph(tables),
        bibliography=bibliography(tables).text,
    )


def _floats(table: Table) -> list[str]:
    pages = pages_of(table)
    title = f"{escape(table.title)} ({escape(table.ruleset)}, {escape(table.scale)})"
    out = []
    for page in pages:
        first, last = page.number == 1, page.number == page.total
        part = "" if page.total == 1 else f", part {page.number} of {page.total}"
        name = f"tab:{label(table.name)}" + ("" if first else f"-part{page.number}")
        filled = {
            "environment": "table*" if page.width > ONE_COLUMN else "table",
            "caption": f"{title}{part}." + (f" {escape(table.caption)}" if first else ""),
            "short": title,
            "label": name,
            "again": not first,
            "columns": "l" + FORMAT * len(page.columns),
            "head": tuple(head_lines(page.columns)),
            "body": tuple(_body(page)),
            "notes": " ".join(latex_notes(table)) if last else "Notes: below the last part.",
        }
        out.append(template("table.tex").render(table=filled))
    return out


def _body(page: Page) -> list[str]:
    width = 1 + CELLS * len(page.columns)
    lines = []
    for number, section in enumerate(page.sections):
        goes_on = " (continued)" if number == 0 and page.continued else ""
        lines.append(r"\midrule")
        backbone = escape(shorten(backbone_title(section.title)))
        lines.append(rf"\multicolumn{{{width}}}{{@{{}}l}}{{\textit{{{backbone}}}{goes_on}}} \\")
        before = ""
        seen: dict[str, int] = {}
        for line in section.lines:
            if line.kind == "reference" and not any(_says(entry) for entry in line.entries):
                continue
            if before == "reference" and line.kind == "method":
                lines.append(rf"\cmidrule(l){{2-{width}}}")
            before = line.kind
            lines.append(_line(page, line, _name(line, seen)))
    return lines


def _name(line: Line, seen: dict[str, int]) -> str:
    """The row's label, told apart from others that were cut to the same."""
    short = shorten(row_title(line.label))
    seen[short] = seen.get(short, 0) + 1
    return escape(short if seen[short] == 1 else f"{short} ({seen[short]})")


def _line(page: Page, line: Line, name: str) -> str:
    cells = [name]
    for _, members in groupby(page.entries(line), lambda entry: entry.column.top):
        entries = list(members)
        row = entries[0].row
        if row is not None and row.diverged:
            words = rf"\emph{{diverged in {len(row.diverged)} of {len(row.results)} runs}}"
            cells.append(rf"\multicolumn{{{CELLS * len(entries)}}}{{c}}{{{words}}}")
        else:
            cells += [part for entry in entries for part in cells_of(entry)]
    return " & ".join(cells) + r" \\"


def _says(entry: Entry) -> bool:
    """Whether a cell holds anything but a gap."""
    return entry.row is not None and (
        bool(entry.row.diverged) or (entry.cell is not None and entry.cell.mean is not None)
    )
