"""Every layout gives the LaTeX that lies in ``golden/``.

``GENREC_UPDATE_GOLDEN=1 pytest tests/reporting/latex`` renews the files; the diff is then to be read before it is kept.
"""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.reporting.latex_tables import render_latex
from genrec_unlearn_bench.reporting.protocol import layouts
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.golden_files import golden


@pytest.mark.parametrize("layout", list(layouts(1)))
def test_layout(layout: str) -> None:
    text = render_latex(make_synthetic_tables(layout))
    assert text == golden(text, f"latex-{layout}.tex")


def test_the_order_of_the_records_changes_nothing() -> None:
    records = make_records(seeds=(0, 1, 2))
    assert render_latex(make_synthetic_tables("main", records), standalone=True) == render_latex(
        make_synthetic_tables("main", records[::-1]), standalone=True
    )
