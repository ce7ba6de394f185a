"""BibTeX of strangers is read, mended where it can be, and refused where it could do more than print."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.reporting.latex_text import bibtex_faults, parse_bibtex

GOOD = """
% a comment
@Article{doe2026,
  title = {Forgetting {SIDs} \\& more},
  author = "Doe, Jane and {\\L}uk, M\\'ario",
  journal = {J}, volume = 3,
  year = 2026,
}
@misc{roe2025, title={B}, author={Roe, R.}, year={2025}, howpublished={\\url{https://x.org/a_b}}}
"""


def entry(**fields: str) -> str:
    content = {"title": "T", "author": "A", "year": "2026", **fields}
    return "@misc{k, " + ", ".join(f"{name} = {{{value}}}" for name, value in content.items()) + "}"


def test_entries_are_written_anew() -> None:
    first, second = parse_bibtex(GOOD, where="here")
    assert (first.kind, first.key) == ("article", "doe2026")
    assert first.fields["author"] == "Doe, Jane and {\\L}uk, M\\'ario"
    assert first.fields["volume"] == "3"
    assert second.fields["howpublished"] == r"\texttt{https:/\allowbreak{}/\allowbreak{}x.org/\allowbreak{}a\_b}"
    assert parse_bibtex(first.text(), where="again") == (first,)
    assert first.text().startswith("@article{doe2026,\n  title ")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("50% of a_b & c #1", r"50\% of a\_b \& c \#1"),
        (r"50\% of a\_b", r"50\% of a\_b"),
        ("x^2", r"x\textasciicircum{}2"),
        (r"H{\^o}tel", r"H{\^o}tel"),
        ("an \U0001f600", "an [U+1F600]"),
        ("two\n  lines", "two lines"),
    ],
)
def test_special_characters(value: str, written: str) -> None:
    assert parse_bibtex(entry(note=value), where="here")[0].fields["note"] == written


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "there is no entry"),
        ("hello", "no entry begins at 'hello'"),
        ("@misc{k, title = {a", "no field can be read at"),
        ("@misc{k, title = {a}}}", "no entry begins at '}'"),
        ("@misc{k, title = {a\\}}", "\\ is not allowed in 'title'"),
        ("@misc{k, title = {a \\{ b}", "no field can be read at"),
        ("@misc{k title = {a}}", "no field can be read at ' title = {a}}'"),
        ("@misc{k, title {a}}", "no field can be read at"),
        ("@misc{, title = {a}}", "no entry begins at"),
        ("@misc{a{b, title = {a}}", "no entry begins at"),
        ("@misc{k}", "the field 'title' is missing"),
        ("@misc{k, title = {T}, year = 2026}", "it has no author"),
        ("@preamble{\\input{x}}", "no entry begins at"),
        ("@string{a = {b}}", "@string is no type of entry"),
        (entry(title=r"\input{/etc/passwd}"), r"\input is not allowed in 'title'"),
        (entry(title=r"\write18{ls}"), r"\write is not allowed"),
        (entry(title=r"\end{filecontents*}"), r"\end is not allowed"),
        (entry(title=r"a \\ b"), "\\\\ is not allowed"),
        (entry(title=r"\def\x{y}"), r"\def is not allowed"),
        (entry(title=r"\csname input\endcsname x"), r"\csname is not allowed"),
        (entry(title="$x$"), "no formulas"),
        (entry(crossref="other"), "'crossref' is not followed"),
        (entry() + entry(), "is there twice"),
        ("%" * 30_000, "more than 20,000 characters"),
    ],
)
def test_faults(text: str, fault: str) -> None:
    assert fault in "\n".join(bibtex_faults(text))
    with pytest.raises(ConfigError) as caught:
        parse_bibtex(text, where="submission.yaml")
    assert "submission.yaml" in caught.value.render()


def test_all_faults_at_once() -> None:
    assert len(bibtex_faults(entry(title=r"\input{x} $y$", note=r"\write1"))) == 3
