"""The leaderboard as one HTML file: template, styles, scripts and data in one, with a policy that lets nothing else in.

It opens from a disk, an archive of supplementary material or a web server alike, and asks none of them for anything.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from genrec_unlearn_bench.reporting.board import Board
from genrec_unlearn_bench.reporting.formats.notes import notes
from genrec_unlearn_bench.reporting.html.payload import BUDGET, NOTHING, Extras, build_payload
from genrec_unlearn_bench.reporting.html.payload_model import Payload
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.tables import Table, line_label, show

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["SCRIPTS", "data_block", "html_environment", "inline_hash", "render_html", "template_file", "trusted"]


def static_table(table: Table) -> dict[str, object]:
    """The first section of a table, which the page shows before any script runs, as its template reads it.

    ``heads``: head and number of its columns; ``lines``: label, whether it is a reference row, and (number, what
    stands behind it, mark) by column.
    """
    heads: list[tuple[str, int]] = []
    for column in table.columns:
        if heads and heads[-1][0] == column.head:
            heads[-1] = (column.head, heads[-1][1] + 1)
        else:
            heads.append((column.head, 1))
    section = table.sections[0]
    lines = []
    for line in section.lines:
        parts = [show(entry) for entry in line.entries]
        cells = tuple((part.number, part.tail, part.mark.value) for part in parts)
        lines.append((line_label(line), line.kind == "reference", cells))
    where = f"{', '.join(table.tasks)} · {section.title} · {table.scale} · {table.ruleset}"
    return {
        "caption": f"{table.title}: {where}",
        "heads": tuple(heads),
        "columns": tuple((column.title, column.measure.arrow) for column in table.columns),
        "lines": tuple(lines),
        "notes": notes(table, second="underlined"),
    }


TITLE = "Unlearning in generative recommendation"
SCRIPTS = (
    "elements.js",
    "numbers.js",
    "data.js",
    "state.js",
    "whiskers.js",
    "pareto.js",
    "dialog.js",
    "table.js",
    "csv.js",
    "controls.js",
    "subjects.js",
    "overview.js",
    "main.js",
)
"""In the order in which they build on each other."""
_ESCAPES = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def render_html(
    board: Board,
    protocol: StatisticsProtocol,
    extras: Extras = NOTHING,
    *,
    title: str = TITLE,
    budget: int = BUDGET,
) -> str:
    """The whole page. The same board gives the same bytes; views beyond ``budget`` bytes of data are left out."""
    built = build_payload(board, protocol, title=title, extras=extras, budget=budget)
    style = template_file("site", "style.css")
    script = "(() => {\n'use strict';\n" + "\n".join(template_file("site", name) for name in SCRIPTS) + "\n})();\n"
    return (
        html_environment()
        .from_string(template_file("site", "page.html.j2"))
        .render(
            title=title,
            protocol=protocol,
            payload=built.payload,
            table=static_table(built.first) if built.first is not None else None,
            style=trusted(style),
            style_hash=inline_hash(style),
            script=trusted(script),
            script_hash=inline_hash(script),
            data=trusted(data_block(built.payload)),
        )
    )


def data_block(payload: Payload) -> str:
    """The payload as JSON that can stand inside a script element, as nothing in it can close that or open another."""
    text = payload.model_dump_json()
    for character, escape in _ESCAPES.items():
        text = text.replace(character, escape)
    return text


def html_environment() -> Environment:
    """Templates of pages: all values are escaped, and a name that is not there is a fault."""
    from jinja2 import Environment, StrictUndefined

    return Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def template_file(folder: str, name: str) -> str:
    """The text of a file below ``leaderboard/templates``."""
    place = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / folder / name
    return place.read_text(encoding="utf-8")


def trusted(text: str) -> str:
    """Our own files and the escaped data block, which autoescaping would break."""
    from markupsafe import Markup

    return Markup(text)  # noqa: S704 - see above


def inline_hash(text: str) -> str:
    """As a content security policy names an inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")
