"""The paragraph "Statistical analysis" of a paper, written from its tables: every number in it is theirs.

As plain text and as LaTeX, ready to paste. It says what was done and what was found, how often, and what could not be
found with so few seeds; which result matters is for the author to say. The sentences are those of the template
``leaderboard/templates/latex/statistics.txt``; here is what it is filled with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata, resources
from typing import Any

from numpy import format_float_positional

from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.bibliography import Bibliography, bibliography
from genrec_unlearn_bench.reporting.facts import Facts, Short, facts
from genrec_unlearn_bench.reporting.latex.escape import escape, shorten
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import PairedTest, smallest_p
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import counted, listed, p_text, spanned, verb

__all__ = ["Paragraph", "installed_versions", "statistical_paragraph"]

SOFTWARE = {"numpy": "NumPy", "scipy": "SciPy"}
TITLE = "Statistical analysis"
NAMED = 6
"""Places that are named when runs are missing or diverged; more are counted."""
OUTCOMES = {
    Verdict.BETTER: "found the method better",
    Verdict.WORSE: "found the method worse",
    Verdict.NOT_SEPARABLE: "did not separate the two",
}
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the keys of a citation in a sentence; private characters, taken out of all names."""
_CITATION = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_T = re.compile(r"\bt(?=-test| interval)")


@dataclass(frozen=True)
class Paragraph:
    """Sentences under a heading; citations stand in them as keys between ``_OPEN`` and ``_CLOSE``."""

    title: str
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """Plain text, in one line; empty without sentences."""
        lines = [_CITATION.sub("", sentence) for sentence in self.sentences]
        return " ".join([f"{self.title}.", *lines]) if lines else ""

    @property
    def latex(self) -> str:
        """LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
        lines = [_tex(sentence) for sentence in self.sentences]
        return "\n".join([rf"\paragraph{{{escape(self.title)}.}}", *lines, ""]) if lines else ""


class _Marked(str):
    """Text with citations in it."""


def statistical_paragraph(tables: Sequence[Table], *, versions: Mapping[str, str] | None = None) -> Paragraph:
    """The paragraph of some tables of one call.

    Args:
        versions: Of the packages that computed the statistics, as ``installed_versions`` has them. Without them the
            packages are named alone, and the same results give the same text everywhere.
    """
    if not tables:
        return Paragraph(TITLE, ())
    import jinja2

    environment = jinja2.Environment(  # noqa: S701 - plain text, escaped where it becomes TeX
        undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=_plain_value
    )
    environment.filters |= {"place": _place, "effect": _effect}
    place = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "latex" / "statistics.txt"
    template = environment.from_string(place.read_text(encoding="utf-8"))
    text = template.render(
        _context(tables, facts(tables), bibliography(tables), versions or dict.fromkeys(SOFTWARE, ""))
    )
    return Paragraph(TITLE, tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text) if part.strip()))


def installed_versions() -> dict[str, str]:
    """Versions of the packages that compute the statistics here."""
    return {name: metadata.version(name) for name in SOFTWARE}


def _context(tables: Sequence[Table], found: Facts, books: Bibliography, versions: Mapping[str, str]) -> dict[str, Any]:
    rows = [row for block in found.blocks for row in block.block.rows]
    owners = {
        "method": {row.label: row.method for row in rows},
        "backbone": {b.block.key.backbone: b.block.rows[0].first.backbone for b in found.blocks},
        "software": {f"{SOFTWARE.get(name, name)} {version}".rstrip(): name for name, version in versions.items()},
    }

    def cite(*names: str) -> str:
        return _citation(books.cited(*names))

    def cited_names(kind: str, names: Sequence[str]) -> str:
        return _cited_list(names, lambda name: books.cited(f"{kind}:{owners[kind][name]}"))

    counts, likeness = found.verdicts, found.likeness
    detectable = [(measure, found.detectable(measure)) for measure in found.primary]
    margins = [(measure, found.margins(measure)) for measure in found.primary]
    analyses = {id(table.analysis): table.analysis for table in tables}
    across = [result for analysis in analyses.values() for result in compare_across(analysis)]
    return {
        "f": found,
        "protocol": found.protocol,
        "cite": cite,
        "cited_names": cited_names,
        "named": lambda names: listed(map(shorten, names)),
        "counted": counted,
        "listed": listed,
        "spanned": spanned,
        "verb": verb,
        "p_text": p_text,
        "p_equals": lambda p: f"p {p_text(p)}" if p_text(p).startswith("<") else f"p = {p_text(p)}",
        "percent": lambda share: f"{100 * share:g}%",
        "most_named": NAMED,
        "methods": found.rows("method"),
        "references": found.rows("reference"),
        "datasets": [name for name in books.keys if name.startswith("dataset:")],
        "fewer_rows": {label for group in found.fewer for label in group.labels},
        "beams": [str(b) for b in sorted({m.beam for m in found.primary if m.beam is not None})],
        "outcomes": [(str(counts[verdict]), text) for verdict, text in OUTCOMES.items() if counts.get(verdict)],
        "tested": sum(counts.values()) - counts.get(Verdict.UNDERPOWERED, 0),
        "underpowered": counts.get(Verdict.UNDERPOWERED, 0),
        "least_p": _least(found),
        "detectable": [_amount(m, value, value) for m, value in detectable if value is not None],
        "sign_flip_least": smallest_p(found.seeds[1], PairedTest.SIGN_FLIP),
        "equivalence_level": LEVEL,
        "margins": [_amount(m, *span) for m, span in margins if span is not None],
        "likeness": (
            likeness.get(Likeness.EQUIVALENT, 0) + likeness.get(Likeness.IDENTICAL, 0),
            likeness.get(Likeness.DIFFERENT, 0),
            likeness.get(Likeness.NOT_SHOWN, 0),
        ),
        "across": [result for result in across if result.found is not None],
        "suites": sorted({row.first.suite_version for row in rows}),
        "software": list(owners["software"]),
    }


def _plain_value(value: object) -> object:
    """A value as the template prints it: without the marks of citations, unless it is one."""
    return value if isinstance(value, _Marked) else re.sub(f"[{_OPEN}{_CLOSE}]", "", str(value))


def _citation(keys: Sequence[str]) -> str:
    return _Marked(f"{_OPEN}{','.join(keys)}{_CLOSE}" if keys else "")


def _cited_list(names: Sequence[str], cite: Callable[[str], tuple[str, ...]]) -> str:
    """Names in a list, each with its citations, a key only once."""
    out: list[str] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        joint = "" if place == 0 else " and " if place == len(names) - 1 else ", "
        keys = [key for key in cite(name) if key not in seen]
        seen.update(keys)
        out.append(f"{joint}{_plain_value(shorten(name))}{_citation(keys)}")
    return _Marked("".join(out))


def _tex(sentence: str) -> str:
    out = []
    for number, piece in enumerate(_CITATION.split(sentence)):
        # Escaping trims, and spaces at the ends of pieces part them from citations.
        head, tail = " " * piece.startswith(" "), " " * (piece.endswith(" ") and len(piece) > 1)
        out.append(rf"~\cite{{{piece}}}" if number % 2 else head + _T.sub("$t$", escape(piece)) + tail)
    return "".join(out)


def _least(found: Facts) -> float:
    """The smallest p that the underpowered comparisons could have had, over all of them."""
    numbers = {
        cell.difference.n
        for block in found.blocks
        for cell in block.cells.values()
        if cell.difference is not None and cell.difference.verdict is Verdict.UNDERPOWERED
    }
    return min((smallest_p(n, PairedTest.SIGN_FLIP) for n in numbers), default=1.0)


def _effect(value: float) -> str:
    """An effect size as it is read: no more than two decimals, and none from ten up."""
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def _amount(measure: Measure, low: float, high: float) -> str:
    """0.012 to 0.03 for forget HR@10: two significant digits, without an exponent."""
    first, last = (format_float_positional(value, precision=2, fractional=False, trim="-") for value in (low, high))
    unit = f" {measure.spec.unit}" if measure.spec.unit in ("seconds", "MiB", "nats", "bits") else ""
    return f"{first if first == last else f'{first} to {last}'}{unit} for {measure.title}"


def _place(short: Short) -> str:
    names = listed(map(shorten, short.labels))
    each = " each" if len(short.labels) > 1 else ""
    return f"{names} on {shorten(short.task)} with {shorten(short.backbone)} ({short.n} of {short.of}{each})"
