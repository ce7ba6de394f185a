"""Every layout gives the LaTeX that lies in ``golden/``.

``GENREC_UPDATE_GOLDEN=1 pytest tests/reporting/latex`` renews the files; the diff is then to be read before it is kept.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genrec_unlearn_bench.reporting.latex.render import render_latex
from genrec_unlearn_bench.reporting.layouts import layouts
from tests.reporting.boards import make_records, make_synthetic_tables

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("layout", list(layouts()))
def test_layout(layout: str) -> None:
    text = render_latex(make_synthetic_tables(layout))
    file = GOLDEN / f"latex-{layout}.tex"
    if os.environ.get("GENREC_UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), "see the docstring of this file"


def test_the_order_of_the_records_changes_nothing() -> None:
    records = make_records(seeds=(0, 1, 2))
    assert render_latex(make_synthetic_tables("main", records), standalone=True) == render_latex(
        make_synthetic_tables("main", records[::-1]), standalone=True
    )
