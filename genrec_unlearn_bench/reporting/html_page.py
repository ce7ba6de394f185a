"""The leaderboard as one HTML file: template, styles, scripts and document, with a policy that lets nothing else in.

It opens from a disk, an archive of supplementary material or a web server alike, and loads nothing from them.
Verdicts and the pages of methods and tasks are static; scripts draw tables of numbers and the plot from the document.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.board import Board
from genrec_unlearn_bench.reporting.document import document
from genrec_unlearn_bench.reporting.html_subjects import method_pages, task_pages
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol, layouts
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from genrec_unlearn_bench.reporting.verdicts import sort_key
from genrec_unlearn_bench.reporting.wording import leaderboard_text, template_environment

if TYPE_CHECKING:
    from jinja2 import Environment

TITLE = "Unlearning in generative recommendation"
SCRIPTS = ("elements.js", "table.js", "plot.js", "details.js", "compare.js", "main.js")
"""In the order in which they build on each other."""
SCALES = ("smoke", "small", "official", "paper")
"""From the smallest."""
GROUPS = (("method", "Methods"), ("control", "Controls"), ("reference", "References"))
OFFLINE = ("full",)
"""Layouts that have no room on the page: ``bench leaderboard --layout`` and the site's tables have them."""
_ESCAPES = str.maketrans({character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"})


def render_html(
    board: Board,
    protocol: StatisticsProtocol,
    *,
    baseline: str | None = None,
    manifests: Path | None = None,
    health: Path | None = None,
    code: str = "",
    files: Sequence[str] = (),
) -> str:
    """The whole page. The same board gives the same bytes.

    Args:
        baseline: Label of the row that others are tested against; each layout's where none is given.
        manifests: Folder with ``<task>.json``, for results that have no manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json`` from ``bench data sids --json``.
        code: Where the methods' files lie, relative to the page; empty where they are not linked.
        files: Tables to link, relative to the page.

    Raises ProtocolMismatch and CorruptArtefact as ``make_board`` and ``analyse`` do.
    """
    results = [run for block in board.blocks for row in block.rows for run in row.results.values()]
    content = _content(board, protocol, baseline)
    blocks = content["blocks"]
    roles = {row["method"]: row["kind"] for block in blocks for row in block["rows"]}
    pages = method_pages(list(roles))
    settings = Counter(field for page in pages.values() for field in page.fields)
    submissions = {run.source.name: run.source for run in results if run.source.name}
    scripts = "\n".join(leaderboard_text("templates", "site", name) for name in SCRIPTS)
    return (
        html_environment()
        .get_template("page.html.j2")
        .render(
            title=TITLE,
            document=content,
            protocol=protocol,
            order=sorted(range(len(blocks)), key=lambda place: (place != content["start"], place)),
            groups=GROUPS,
            rows_of=_rows_of,
            methods=pages,
            # With the same default in three methods or more.
            shared=[field for field, number in settings.items() if number >= 3],
            roles=roles,
            tasks=task_pages(board.blocks, manifests=manifests, health=health),
            submissions=[source for _, source in sorted(submissions.items())],
            code=code,
            files=files,
            results=len({(run.key, run.source.name) for run in results}),
            style=leaderboard_text("templates", "site", "style.css"),
            script=f"(() => {{\n'use strict';\n{scripts}\n}})();\n",
            data=data_block(content),
        )
    )


def data_block(content: Mapping[str, Any]) -> str:
    """The document as JSON that can stand inside a script element, as nothing in it can close that or open another."""
    return to_json(content).decode().translate(_ESCAPES)


def html_environment() -> Environment:
    """Templates of pages: all values are escaped.

    Its filter ``inline_hash`` names an inline script or style as a content security policy does.
    """

    def inline_hash(text: str) -> str:
        return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")

    environment = template_environment("site", autoescape=True, keep_trailing_newline=True)
    environment.filters["inline_hash"] = inline_hash
    return environment


def _content(board: Board, protocol: StatisticsProtocol, baseline: str | None) -> dict[str, Any]:
    """The document of every layout that some result fills, at the protocol's beam."""
    tables: list[Table] = []
    for name, layout in layouts(protocol.suite_protocol).items():
        if name not in OFFLINE:
            with suppress(DataMissing):
                tables += make_tables(board, layout, protocol, baseline=baseline)
    content: dict[str, Any] = {"blocks": [], "left_out": board.left_out, "across": [], "reported": None}
    if tables:
        content = document(tables, across=across(tables[0].analysis), brief=True)

    def importance(place: int) -> tuple[int, int]:
        block = content["blocks"][place]
        scale = SCALES.index(block["scale"]) if block["scale"] in SCALES else -1
        return scale, sum(len(row["runs"]) for row in block["rows"])

    # The page opens on the largest scale, as small ones are for trying things, and there on the most runs.
    start = max(range(len(content["blocks"])), key=importance, default=0)
    return {**content, "title": TITLE, "start": start}


def _rows_of(block: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Rows of a kind: methods and controls by their verdicts, references in their own order."""
    found = [row for row in block["rows"] if row["kind"] == kind]
    return found if kind == "reference" else sorted(found, key=lambda row: (*sort_key(row["order"]), row["label"]))
