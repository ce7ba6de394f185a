"""What a reader of the table has to find in it: marks, gaps, directions, parts."""

from __future__ import annotations

from genrec_unlearn_bench.reporting.latex_tables import LINES, MEASURES, pages_of, render_latex
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.tables import make_tables
from tests.reporting.boards import SEEDS, make_records, make_synthetic_board, make_synthetic_tables


def line_of(text: str, label: str, number: int = 0) -> str:
    return [line for line in text.splitlines() if line.startswith(f"{label} &")][number]


def test_marks_gaps_and_diverged_rows() -> None:
    text = render_latex(make_synthetic_tables("main"))
    assert r"\gubbest{0.0499}" in line_of(text, "TRACER, bounded")
    assert r"\gubsecond{0.0596}" in line_of(text, "TRACER, bounded, no coherence")
    assert line_of(text, "NPO").split("&")[1:16] == line_of(text, "SimNPO").split("&")[1:16]
    assert r"\emph{diverged in 1 of 5 runs}" in line_of(text, "GradAscent")
    assert line_of(text, "GradAscent", 2).count("0.") > 5, "of the second task, where no run diverged"
    assert "diverged" not in line_of(text, "GradAscent", 1)
    assert line_of(text, "FLAT").count("n.m.") == 1
    assert line_of(text, "PISCES", 2).count("--") == 8
    assert "Fewer seeds: RMU on Sports, brand with TIGER (4 of 5)." in text


def test_signs_stand_at_primary_measures_alone() -> None:
    text = render_latex(make_synthetic_tables("main"))
    cells = [cell.strip(" \\") for cell in line_of(text, "FLAT").split("&")[1:]]
    signed = [place for place, cell in enumerate(cells) if "$^" in cell]
    assert signed == [2, 11]
    assert cells[2] == "$^{+}$"
    assert cells[11] == "$^{-}$"


def test_directions_come_from_the_measures() -> None:
    text = render_latex(make_synthetic_tables("main"))
    assert r"\multicolumn{6}{c}{Forget $\downarrow$}" in text
    assert r"\multicolumn{6}{c}{Retain $\uparrow$}" in text


def test_numbers_of_a_column_have_the_same_decimals() -> None:
    text = render_latex(make_synthetic_tables("efficiency"))
    cells = [
        line.strip(" \\").split(" & ")[1::3]
        for line in text.splitlines()
        if line.startswith(("TRACER, bounded &", "NPO &"))
    ]
    assert {tuple(len(cell.partition(".")[2]) for cell in row) for row in cells} == {(1, 4, 0, 0, 0, 1, 1) * 2}


def test_reference_rows_without_any_measurement_are_left_out() -> None:
    assert "\nOriginal &" not in render_latex(make_synthetic_tables("efficiency"))
    assert "\nOriginal &" in render_latex(make_synthetic_tables("main"))


def test_forty_methods_come_in_parts_with_one_number() -> None:
    methods = {f"method-{place:02d}": (0.3 + 0.015 * place, 0.9) for place in range(40)}
    tables = make_synthetic_tables("main", make_records(methods=methods, seeds=(0, 1, 2)))
    pages = pages_of(tables[0])
    assert len(pages) == 4
    assert all(sum(len(section.lines) for section in page.sections) <= LINES for page in pages)
    text = render_latex(tables)
    assert text.count(r"\begin{table*}") == 4
    assert text.count(r"\addtocounter{table}{-1}") == 3
    assert text.count(r"\label{tab:main-tuned-small}") == 1
    assert r"\label{tab:main-tuned-small-part2}" in text
    assert text.count("method-07 &") == 4


def test_a_section_longer_than_a_page_goes_on() -> None:
    methods = {f"method-{place:03d}": (0.5, 0.9) for place in range(60)}
    tables = make_synthetic_tables("attack", make_records(methods=methods, seeds=(0, 1), tasks=("industrial-brand",)))
    pages = pages_of(tables[0])
    assert [page.continued for page in pages] == [False, True, False, True]
    assert sum(len(section.lines) for page in pages for section in page.sections) == 130
    assert r"\textit{LETTER} (continued)" in render_latex(tables)


def test_wide_tables_are_cut_between_groups_in_parts_of_one_size() -> None:
    full = find_layout("full", 1)
    layout = full.model_copy(update={"side_by_side": 2})
    protocol = statistics_protocol(1)
    board = make_synthetic_board(make_records(seeds=SEEDS[:2]))
    (table,) = make_tables(board, layout, protocol)
    assert len(table.columns) == 22
    pages = pages_of(table)
    assert [column for page in pages for column in page.columns] == list(table.columns)
    assert [len(page.columns) for page in pages] == [11, 11]
    assert [{column.top for column in page.columns} for page in pages] == [{"industrial-brand"}, {"sports-brand"}]
    assert all(len(page.columns) <= MEASURES for page in pages)
    text = render_latex([table])
    assert text.count("Notes: below the last part.") == 1
    assert text.count("protocol 1, statistics 4.") == 1


def test_one_seed_says_that_nothing_can_be_tested() -> None:
    text = render_latex(make_synthetic_tables("main", make_records(seeds=(0,))))
    assert "Values of one seed (the protocol asks for 5)." in text
    assert r"(0 shared seeds" not in text
    assert "the smallest attainable $p$, before correction, is 1." in text
    assert r"\gubsd{." not in text
    assert r"\gubbest{0" not in text
