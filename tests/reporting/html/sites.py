"""Pages of synthetic boards for the tests of this folder: an ordinary one, one of odd names, one of very many rows."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from genrec_unlearn_bench.reporting.board import Board, make_board
from genrec_unlearn_bench.reporting.html_page import render_html
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import Source
from tests.reporting.boards import make_records, make_results, make_synthetic_board

__all__ = ["ODD", "crowd_page", "data_of", "odd_board", "odd_page", "page", "page_of"]

ODD = (
    "<script>window.hit=1</script>",
    '"><img src=x onerror="window.hit=1">',
    "</script><script>window.hit=1</script>",
    "<!--<script>",
    "a_b",
    "50%",
    "=1+1",
    "🧹 forget",
    "نسيان",
    "{{ 7 * 7 }}",
    "x" * 160,
    "constructor",
    "__proto__",
)


@cache
def page() -> str:
    """Two tasks, two backbones, nine methods, five seeds."""
    return page_of(make_synthetic_board())


@cache
def odd_board() -> Board:
    """Methods, a task, a backbone and a submission whose names try to break out."""
    methods = {name: (0.1 + 0.05 * place, 0.9 - 0.03 * place) for place, name in enumerate(ODD)}
    records = make_records(
        tasks=("odd<img src=x onerror=window.hit=1>-brand",),
        backbones=("</title><script>window.hit=1</script>",),
        methods=methods,
        seeds=(0, 1, 2),
    )
    source = Source(
        name="<svg onload=window.hit=1>",
        title="<b>bold</b>",
        authors=("<i>one</i>", "two"),
        link="javascript:window.hit=1",
        bibtex="@article{x, title={</pre><script>window.hit=1</script>}}",
        badge_text="reproduced: 1 of 6 cells",
    )
    theirs = [record.model_copy(update={"key": record.key[::-1]}) for record in records[-6:]]
    return make_board([*make_results(records), *make_results(theirs, source=source)], statistics_protocol(1))


@cache
def odd_page() -> str:
    """The page of the odd names."""
    return page_of(odd_board())


@cache
def crowd_page() -> str:
    """Forty methods in one table."""
    methods = {f"method-{place:02d}": (0.1 + 0.02 * place, 0.95 - 0.015 * place) for place in range(40)}
    return page_of(make_synthetic_board(make_records(tasks=("sports-brand",), backbones=("tiger",), methods=methods)))


def page_of(board: Board, **options: Any) -> str:
    """The page of a board."""
    return render_html(board, statistics_protocol(1), **options)


def data_of(html: str) -> dict[str, Any]:
    """The page's data block."""
    begin = html.index('<script type="application/json" id="data">') + 42
    found: dict[str, Any] = json.loads(html[begin : html.index("</script>", begin)])
    return found
