"""Every document compiles: no error, nothing wider than the page, nothing undefined, and nothing of a name is run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from genrec_unlearn_bench.reporting.latex_tables import PACKAGES, render_latex
from genrec_unlearn_bench.reporting.protocol import layouts
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.latex.odd import ODD

pytestmark = pytest.mark.skipif(
    shutil.which("pdflatex") is None or shutil.which("bibtex") is None,
    reason="pdflatex and bibtex are not installed (Debian: texlive-latex-extra, lmodern)",
)
WIDER = 1.0
"""Points by which a line may stick out."""


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60
    )
    assert done.returncode == 0, done.stdout[-2000:]
    return done.stdout


def compiled(folder: Path, text: str, *, cites: bool = False) -> str:
    """The log of the last run, checked; with ``cites``, of the run in which every citation and label is known."""
    (folder / "paper.tex").write_text(text, encoding="utf-8")
    command = ("pdflatex", "-no-shell-escape", "-interaction=nonstopmode", "-halt-on-error")
    if cites:
        run(folder, *command, "-draftmode", "paper.tex")
        said = run(folder, "bibtex", "paper")
        assert "Warning" not in said, said
        run(folder, *command, "-draftmode", "paper.tex")
    run(folder, *command, "paper.tex")
    log = (folder / "paper.log").read_text(encoding="utf-8", errors="replace")
    wide = [float(width) for width in re.findall(r"Overfull \\[hv]box \(([0-9.]+)pt too", log)]
    assert max(wide, default=0.0) <= WIDER, log
    for fault in ("Missing character", "Float too large", "multiply defined", *(["undefined"] if cites else [])):
        assert fault not in log
    return log


def pages(log: str) -> int:
    """How many pages came out."""
    return int(re.findall(r"\((\d+) pages?", log)[0])


@pytest.mark.slow
@pytest.mark.parametrize("layout", list(layouts(1)))
def test_every_layout(layout: str, tmp_path: Path) -> None:
    tables = make_synthetic_tables(layout)
    log = compiled(tmp_path, render_latex(tables, standalone=True), cites=layout == "main")
    assert pages(log) >= 1


def test_odd_names_print_and_do_nothing(tmp_path: Path) -> None:
    methods = {name: (0.3 + 0.02 * place, 0.9) for place, name in enumerate(ODD)}
    records = make_records(
        tasks=("[t]#$&{}~^ 50%-brand", r"a_b \input{x}" + "-brand"),
        backbones=("<i>_1", "שלום"),
        methods=methods,
        seeds=(0, 1),
    )
    text = render_latex(make_synthetic_tables("main", records), standalone=True)
    compiled(tmp_path, text, cites=True)
    assert not list(tmp_path.glob("owned*"))
    if shutil.which("pdftotext"):
        said = run(tmp_path, "pdftotext", "-layout", "paper.pdf", "-")
        for name in (
            "a_b",
            "50%",
            r"\input{/etc/hostname}",
            "<script>alert(1)</script>",
            "[U+1F600] emoji",
            "[U+202E]",
        ):
            assert name in said


def test_forty_methods_in_one_table(tmp_path: Path) -> None:
    methods = {f"method-{place:02d}": (0.3 + 0.015 * place, 0.9) for place in range(40)}
    records = make_records(methods=methods, seeds=(0, 1))
    log = compiled(tmp_path, render_latex(make_synthetic_tables("main", records), standalone=True))
    assert pages(log) <= 6


@pytest.mark.parametrize("options", ["", "[twocolumn]"])
def test_a_fragment_fits_another_document(options: str, tmp_path: Path) -> None:
    packages = "".join(rf"\usepackage{{{name}}}" for name in PACKAGES)
    tables = (*make_synthetic_tables("main"), *make_synthetic_tables("attack"))
    log = compiled(
        tmp_path,
        rf"\documentclass{options}{{article}}\usepackage[T1]{{fontenc}}{packages}"
        rf"\begin{{document}}Text.{render_latex(tables)}\end{{document}}",
    )
    assert pages(log) >= 1


def test_every_reference_of_ours_is_complete(tmp_path: Path) -> None:
    from genrec_unlearn_bench.reporting.paper import references

    entries = {entry.key: entry.text() for found in references().values() for entry in found}
    (tmp_path / "all.bib").write_text("\n\n".join(entries.values()), encoding="utf-8")
    compiled(
        tmp_path,
        r"\documentclass{article}\usepackage[T1]{fontenc}\emergencystretch=3em"
        r"\begin{document}\nocite{*}\bibliographystyle{plain}\bibliography{all}\end{document}",
        cites=True,
    )
    listed = (tmp_path / "paper.bbl").read_text(encoding="utf-8")
    assert listed.count(r"\bibitem") == len(entries)
