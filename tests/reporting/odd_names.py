"""Names that try to format, link, compute, steer or break out, as methods, tasks, backbones and sources of a board."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import Result, Source, result_of
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.planting import plant, planted_record

__all__ = ["FORMULAS", "ODD", "odd_results", "odd_tables"]

FORMULAS = (
    "=1+1",
    "+SUM(A1)",
    "-2+3",
    "@SUM(A1)",
    '=HYPERLINK("http://x","y")',
    "\t=1",
    "\r=1",
    " =1+1",
    "＝1+1",
    "=cmd|' /C calc'!A0",
)
ODD = (
    *FORMULAS,
    "a_b",
    "50%",
    "<script>alert(1)</script>",
    "\\input{/etc/passwd}",
    "a|b",
    "`code`",
    "**bold**",
    "[link](http://x.y)",
    "https://x.y/z",
    "www.x.y",
    "@everyone",
    "$x^2$",
    "# head",
    "~~gone~~",
    "[bold red]markup[/]",
    "\x1b[31mred\x1b[0m",
    "\x07bell\x00",
    "right\u202eleft",
    "\u2066iso\u2069",
    "עברית",
    "🧪 emoji",
    "two\nlines",
    "a,b;c\"d'e",
    "x" * 200,
)


def odd_results() -> list[Result]:
    """One result a seed of a method of every odd name, on an odd task and backbone, from an odd source."""
    source = Source(name="=odd|<source>", title="<b>t</b>", authors=("\x1b[31m",), link="javascript:alert(1)")
    task, backbone = "a|<task>\u202e-brand", "=back`bone`"
    places = {"task": task, "backbone": backbone}
    out: list[Result] = []
    for place, name in enumerate(("original", "retrain", *ODD)):
        for seed in range(3):
            value = 0.5 - 0.01 * place + 0.001 * seed * (1 + place % 3)
            record = planted_record(name, seed, {"forget:hr@10": value, "retain:ndcg@10": 0.1 + value / 10}, **places)
            root = Path("results")
            out.append(result_of(record, folder=root / str(place), root=root, source=source if place > 1 else Source()))
    return out + plant("diverged *", {"forget:hr@10": [0.1]}, diverged=True, **places)


def odd_tables() -> tuple[Table, ...]:
    """Their main tables."""
    board = make_board(odd_results(), statistics_protocol(1))
    return make_tables(board, find_layout("main", 1), statistics_protocol(1))
