"""The leaderboard as one HTML file: template, styles, scripts and document, with a policy that lets nothing else in.

It opens from a disk, an archive of supplementary material or a web server alike, and loads nothing from them.
Verdicts and the pages of methods and tasks are static; scripts draw tables of numbers and the plot from the document.
What a method's page says is read from its source with ``ast``, which is never imported: that would import torch, which
reporting does without, and a submitted file is not code to be run for a table. A task's page needs no data: it has the
manifest that runs leave.
"""

from __future__ import annotations

import ast
import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment
from pydantic_core import to_json

from genrec_unlearn_bench.config import read_json
from genrec_unlearn_bench.data.catalogue import DatasetSpec, packaged_datasets
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.tasks import TaskSpec, tasks
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.pipeline.results import MANIFEST
from genrec_unlearn_bench.registry import Entry, methods
from genrec_unlearn_bench.reporting.across import across
from genrec_unlearn_bench.reporting.board import Block, Board
from genrec_unlearn_bench.reporting.document import document
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol, layouts
from genrec_unlearn_bench.reporting.results import scale_rank
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from genrec_unlearn_bench.reporting.verdicts import sort_key
from genrec_unlearn_bench.reporting.wording import leaderboard_text, template_environment

TITLE = "Unlearning in generative recommendation"
SCRIPTS = ("elements.js", "table.js", "plot.js", "details.js", "compare.js", "main.js")
"""In the order in which they build on each other."""
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
    files: Sequence[str] = (),
) -> str:
    """The whole page. The same board gives the same bytes.

    Args:
        baseline: Label of the row that others are tested against; each layout's where none is given.
        manifests: Folder with ``<task>.json``, for results that have no manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json`` from ``bench data sids --json``.
        files: Tables of a published site to link, relative to the page.

    Raises ProtocolMismatch and CorruptArtefact as ``make_board`` and ``analyse`` do.
    """
    results = [run for block in board.blocks for row in block.rows for run in row.results.values()]
    content = {**_content(board, protocol, baseline), "published": bool(files)}
    blocks = content["blocks"]
    roles = {row["method"]: row["kind"] for block in blocks for row in block["rows"]}
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
            methods=method_pages(list(roles)),
            roles=roles,
            tasks=task_pages(board.blocks, manifests=manifests, health=health),
            submissions=[source for _, source in sorted(submissions.items())],
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
                tables += make_tables(board, layout, protocol, beam=None, baseline=baseline)
    content: dict[str, Any] = {"blocks": [], "left_out": board.left_out, "across": [], "reported": None}
    if tables:
        content = document(tables, across=across(tables[0].analysis), brief=True)

    def importance(place: int) -> tuple[int, int]:
        block = content["blocks"][place]
        return scale_rank(block["scale"]), sum(len(row["runs"]) for row in block["rows"])

    # The page opens on the largest scale, as small ones are for trying things, and there on the most runs.
    start = max(range(len(content["blocks"])), key=importance, default=0)
    return {**content, "title": TITLE, "start": start}


def _rows_of(block: Mapping[str, Any], kind: str) -> list[Mapping[str, Any]]:
    """Rows of a kind: methods and controls by their verdicts, references in their own order."""
    found = [row for row in block["rows"] if row["kind"] == kind]
    return found if kind == "reference" else sorted(found, key=lambda row: (*sort_key(row["order"]), row["label"]))


class MethodPage(NamedTuple):
    """What a method's source says of it.

    Attributes:
        entry: None for a method that is not installed.
        paragraphs: Of the module's docstring: the paper, what is updated, deviations.
        paper: Address of the paper that the docstring names first.
    """

    entry: Entry | None = None
    paragraphs: tuple[str, ...] = ()
    paper: str = ""
    variants: tuple[Entry, ...] = ()


def method_pages(names: Sequence[str]) -> dict[str, MethodPage]:
    """A page for every method of some results and for what they are variants of; bare for one that does not ship."""
    known = methods()
    parents = [known[name].variant_of for name in names if name in known and known[name].variant_of]
    return {name: _method_page(known[name], known) if name in known else MethodPage() for name in (*names, *parents)}


def _method_page(entry: Entry, known: Mapping[str, Entry]) -> MethodPage:
    if entry.source is None:
        return MethodPage(entry)
    text = ast.get_docstring(ast.parse(entry.source.read_text(encoding="utf-8"))) or ""
    arxiv = re.search(r"arXiv[: ](\d{4}\.\d{4,5})", text)
    paper = f"https://arxiv.org/abs/{arxiv[1]}" if arxiv else ""
    if entry.variant_of:
        return MethodPage(entry, paper=paper)
    paragraphs = tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip())
    return MethodPage(
        entry, paragraphs, paper, tuple(other for other in known.values() if other.variant_of == entry.name)
    )


@dataclass(frozen=True)
class TaskPage:
    """A task: the request and its data, where the package has them, and what it resolved to.

    Attributes:
        dataset: Name of the dataset, and ``data`` its declaration.
        health: By backbone and scale, the report that ``bench data sids --json`` prints.
    """

    spec: TaskSpec | None
    dataset: str
    data: DatasetSpec | None
    manifest: TaskManifest | None
    health: Mapping[str, Mapping[str, Any]]

    @property
    def request(self) -> list[tuple[str, str]]:
        """Names and values of the request's fields, its kind first."""
        if self.spec is None:
            return []
        concept = self.spec.concept
        fields = {"kind": concept.kind} | concept.model_dump(mode="json", exclude_none=True)
        return [(name.replace("_", " ").capitalize(), _text(value)) for name, value in fields.items()]

    @property
    def about_data(self) -> list[tuple[str, str]]:
        """Names and values of the dataset's declaration."""
        data = self.data
        if data is None:
            return []
        core = f"{data.k_core}-core" if data.k_core > 1 else "as published"
        facts = [("Title", data.title), ("Split", data.split), ("Filtering", core), ("Terms", data.terms)]
        return [fact for fact in facts if fact[1]] + [("Note", note) for note in data.notes]


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value[:20])) + (f" … ({len(value)})" if len(value) > 20 else "")
    return str(value)


def task_pages(
    blocks: Sequence[Block], *, manifests: Path | None = None, health: Path | None = None
) -> dict[str, TaskPage]:
    """A page for every task of some blocks, in their order.

    Args:
        manifests: Folder with ``<task>.json``, for results without a manifest beside them.
        health: Folder with ``<task>-<backbone>-<scale>.json``, as ``bench data sids --json`` prints them.
    """
    out = {}
    # Of what ships alone: a data folder of this machine would make pages that nobody else can make again.
    shipped = tasks()
    for name in dict.fromkeys(block.key.task for block in blocks):
        mine = [block for block in blocks if block.key.task == name]
        manifest, spec = _manifest(name, mine, manifests), shipped.get(name)
        dataset = spec.dataset if spec is not None else manifest.dataset if manifest is not None else ""
        reports = {}
        for backbone, scale in dict.fromkeys((block.key.backbone, block.key.scale) for block in mine):
            path = health / f"{name}-{backbone}-{scale}.json".replace("/", "_") if health is not None else None
            if path is not None and path.is_file():
                reports[f"{backbone}, {scale}"] = json.loads(path.read_bytes())
        out[name] = TaskPage(spec, dataset, packaged_datasets().get(dataset), manifest, reports)
    return out


def _manifest(name: str, blocks: Sequence[Block], folder: Path | None) -> TaskManifest | None:
    """The manifest beside any of the results, if it is the one they were made with; else the folder's."""
    for result in (result for block in blocks for row in block.rows for result in row.results.values()):
        found = read_json(TaskManifest, result.folder / MANIFEST)
        if found is not None and (found.task, found.digest) == (name, result.task_digest):
            return found
    return read_json(TaskManifest, folder / f"{name}.json") if folder is not None and "/" not in name else None
