"""Sphinx configuration: ``make docs`` builds the site into docs/_build, offline, with warnings as errors."""

from __future__ import annotations

import os
import re
from pathlib import Path

from sphinx.application import Sphinx
from typer.testing import CliRunner

from genrec_unlearn_bench import __version__
from genrec_unlearn_bench.cli.main import VERBS
from genrec_unlearn_bench.cli.main import app as bench

project = "genrec_unlearn_bench"
author = "The genrec_unlearn_bench maintainers"
copyright = "2026, the genrec_unlearn_bench maintainers. Apache-2.0"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = "genrec_unlearn_bench"
html_show_sphinx = False
html_static_path = ["_static"]
html_css_files = ["site.css"]

# GitHub's anchors of headings, so that one link works there and here.
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
# Nothing outside the suite is linked: the build is offline.
nitpick_ignore_regex = [("py:.*", ".*")]

PAGES = {
    "CONTRIBUTING.md": "your-method.md",
    "leaderboard/RULES.md": "submit.md#rules-of-the-leaderboard",
    "README.md": "index.md",
}
"""Documents outside docs/ that the site includes, and where it does."""


def link_outside(app: Sphinx, name: str, source: list[str]) -> None:
    """Links that leave docs/, as GitHub wants them: to the page that includes the document, or to the file itself."""
    for path, page in PAGES.items():
        source[0] = source[0].replace(f"](../{path}", f"]({page}")
    source[0] = re.sub(r"(?<!!)\[([^\]]+)\]\((\.\./[^)#]+\.md)\)", r"{download}`\1 <\2>`", source[0])


def link_inside(app: Sphinx, path: Path, name: str, source: list[str]) -> None:
    """Links of an included document to others."""
    for target, page in PAGES.items():
        source[0] = source[0].replace(f"]({target}", f"]({page}")


def list_commands(app: Sphinx, name: str, source: list[str]) -> None:
    """The reference of the command line: what each verb's ``--help-all`` prints."""
    if name == "cli":
        os.environ["COLUMNS"] = "84"
        for verb in VERBS:
            text = CliRunner().invoke(bench, [*verb.split(), "--help-all"]).stdout
            source[0] += f"\n## bench {verb}\n\n```text\n{text.strip()}\n```\n"


def keep_colons(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """An empty first line: napoleon then takes "A hint: how to go on" below a field for a sentence, not for a type."""
    if what in ("attribute", "property", "data"):
        lines.insert(0, "")


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", keep_colons, priority=100)
    app.connect("source-read", link_outside)
    app.connect("source-read", list_commands)
    app.connect("include-read", link_inside)
