"""Examples as one HTML file that asks nobody for anything: styles inside, no script, a policy that lets nothing in.

Every text is escaped; concept items and the target carry a sign, a colour and words for those who hear the page.
"""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from genrec_unlearn_bench.reporting.examples import words
from genrec_unlearn_bench.reporting.examples.names import clipped
from genrec_unlearn_bench.reporting.examples.page import Page
from genrec_unlearn_bench.reporting.formats.escaping import visible

__all__ = ["render_html"]

WIDTH = 90
"""Characters of a title."""


def render_html(page: Page) -> str:
    """The whole page. The same page gives the same bytes."""
    import jinja2
    from markupsafe import Markup

    style = _file("style.css")
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["visible"] = visible
    digest = base64.b64encode(hashlib.sha256(style.encode("utf-8")).digest()).decode("ascii")
    return environment.from_string(_file("page.html.j2")).render(
        page=page,
        words=words,
        clipped=clipped,
        width=WIDTH,
        style=Markup(style),  # noqa: S704 - our own file
        style_hash=f"sha256-{digest}",
    )


def _file(name: str) -> str:
    place = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "examples" / name
    return place.read_text(encoding="utf-8")
