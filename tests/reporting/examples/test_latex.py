"""LaTeX that compiles whatever the names are, in one column and in two, and prints marks without colour."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.reporting.examples.page import Page
from genrec_unlearn_bench.reporting.examples.render import PACKAGES, render_latex
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns
from tests.reporting.examples.planted_runs import made_page
from tests.reporting.latex.test_pdflatex import compiled, pytestmark

PDFLATEX = pytestmark


def some(page: Page, count: int) -> Page:
    return page.model_copy(update={"examples": page.examples[:count]})


def test_every_mark_is_printed(page: Page) -> None:
    text = render_latex(page)
    body = text[text.index(r"\begin{table*}") :]
    marked = [
        item
        for example in page.examples
        for item in [*example.history, example.target, *(item for each in example.lists for item in each.items)]
    ]
    assert body.count(r"\gubconcept{") == sum(item.concept for item in marked)
    assert body.count(r"\gubtarget{") == sum(item.target for item in marked)
    assert body.count(r"\begin{table*}") == len(page.examples)
    assert len({line for line in body.splitlines() if line.startswith(r"\label")}) == len(page.examples)
    assert render_latex(page) == text
    assert r"\documentclass" not in text
    assert all(rf"\usepackage{{{name}}}" in text for name in PACKAGES)


@PDFLATEX
@pytest.mark.parametrize("names", ["plain", "odd"])
def test_the_document_compiles(task_runs: TaskRuns, odd: Page, names: str, tmp_path: Path) -> None:
    page = some(made_page(task_runs, ids=True) if names == "plain" else odd, 9)
    compiled(tmp_path, render_latex(page, standalone=True))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["paper.aux", "paper.log", "paper.pdf", "paper.tex"]


@PDFLATEX
@pytest.mark.parametrize("layout", ["onecolumn", "twocolumn"])
def test_floats_compile_in_papers(page: Page, layout: str, tmp_path: Path) -> None:
    head = "\n".join(rf"\usepackage{{{name}}}" for name in PACKAGES)
    document = "\n".join(
        [
            rf"\documentclass[{layout},10pt]{{article}}",
            r"\usepackage[T1]{fontenc}",
            r"\usepackage{lmodern}",
            head,
            r"\newcommand{\gubconcept}[1]{\underline{\smash{\textsuperscript{\textdagger}}}#1}",
            r"\begin{document}",
            render_latex(some(page, 4)),
            r"\end{document}",
        ]
    )
    compiled(tmp_path, document)
    assert (tmp_path / "paper.pdf").stat().st_size > 10_000


def test_many_lists_go_below_each_other(page: Page) -> None:
    first = page.examples[0]
    six = first.model_copy(update={"lists": (*first.lists, *first.lists[2:])})
    text = render_latex(page.model_copy(update={"examples": (six,)}))
    assert text.count(r"\begin{tabular}") == 2
    assert text.count("*{3}{") == 2
    assert text.count("To forget") == 2
    assert text.count(r"\textbf{History") == 1


def test_an_example_without_history(page: Page) -> None:
    bare = page.examples[0].model_copy(update={"history": (), "history_length": 0})
    text = render_latex(page.model_copy(update={"examples": (bare,)}))
    assert r"\textbf{No history}" in text


def test_floats_do_not_pile_up(page: Page) -> None:
    # LaTeX holds back 52 floats at most, and a document of floats alone lets none of them go.
    many = page.model_copy(update={"examples": page.examples[:3] * 7})
    assert render_latex(many, standalone=True).count(r"\clearpage") == 2
    assert r"\clearpage" not in render_latex(many)


@pytest.mark.parametrize(
    ("title", "printed"),
    [
        ("Manufacturing: heavy-duty-reinforced", "Manufacturing: heavy-duty-reinforced"),
        ("a14092200ux0209", r"a14092\allowbreak{}200ux0\allowbreak{}209"),
        ("x" * 30, r"\allowbreak{}".join(["xxxxxx"] * 5)),
        ("short_1", r"short\_1"),
    ],
)
def test_long_words_can_be_broken_where_tex_has_no_syllables(page: Page, title: str, printed: str) -> None:
    first = page.examples[0]
    target = first.target.model_copy(update={"title": title, "brand": "", "concept": False, "target": False})
    text = render_latex(page.model_copy(update={"examples": (first.model_copy(update={"target": target}),)}))
    assert f"Target: {printed}.}}" in text
