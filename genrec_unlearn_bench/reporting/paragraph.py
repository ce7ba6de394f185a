"""The paragraph "Statistical analysis" of a paper, written from its tables: every number in it is theirs.

It says what was done and what was found, how often, and what could not be
found with so few seeds; which result matters is for the author to say. The sentences are those of the template
``leaderboard/templates/text/statistics.txt``; here is what it is filled with.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.bibliography import Bibliography, bibliography
from genrec_unlearn_bench.reporting.facts import Facts, facts
from genrec_unlearn_bench.reporting.latex.escape import shorten
from genrec_unlearn_bench.reporting.sentences import Cited, amount, in_latex, sentences
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import smallest_p
from genrec_unlearn_bench.reporting.tables import Table

SOFTWARE = {"NumPy": "numpy", "SciPy": "scipy"}
TITLE = "Statistical analysis"
OUTCOMES = {
    Verdict.BETTER: "found the method better",
    Verdict.WORSE: "found the method worse",
    Verdict.NOT_SEPARABLE: "did not separate the two",
}


def statistics_paragraph(tables: Sequence[Table]) -> str:
    """The paragraph as LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
    head = rf"\paragraph{{{TITLE}.}}"
    return "\n".join([head, *map(in_latex, statistics_sentences(tables)), ""])


def statistics_sentences(tables: Sequence[Table]) -> tuple[str, ...]:
    """Its sentences, with citations (``without_citations`` makes them plain text)."""
    return sentences("statistics.txt", **_context(tables, facts(tables), bibliography(tables)))


def _context(tables: Sequence[Table], found: Facts, books: Bibliography) -> dict[str, Any]:
    rows = [row for block in found.blocks for row in block.block.rows]
    owners = {
        "method": {row.label: row.method for row in rows},
        "backbone": {b.block.key.backbone: b.block.rows[0].first.backbone for b in found.blocks},
        "software": SOFTWARE,
    }

    def cited_names(kind: str, names: Sequence[str]) -> str:
        return _cited_list(names, lambda name: books.cited(f"{kind}:{owners[kind][name]}"))

    counts, likeness = found.verdicts, found.likeness
    underpowered = counts.get(Verdict.UNDERPOWERED, 0)
    detectable = [(measure, found.detectable(measure)) for measure in found.primary]
    margins = [(measure, found.margins(measure)) for measure in found.primary]
    analyses = {id(table.analysis): table.analysis for table in tables}
    across = [result for analysis in analyses.values() for result in compare_across(analysis)]
    return {
        "f": found,
        "protocol": found.protocol,
        "name": lambda kind, name: shorten(name),
        "cite": lambda *names: Cited.keys(books.cited(*names)),
        "cited_names": cited_names,
        "methods": found.rows("method"),
        "references": found.rows("reference"),
        "datasets": [name for name in books.keys if name.startswith("dataset:")],
        "fewer_rows": {label for group in found.fewer for label in group.labels},
        "beams": [str(b) for b in sorted({m.beam for m in found.primary if m.beam is not None})],
        "outcomes": [(str(counts[verdict]), text) for verdict, text in OUTCOMES.items() if counts.get(verdict)],
        "tested": sum(counts.values()) - underpowered,
        "underpowered": underpowered,
        "least_p": min((rows.least_p for rows in found.underpowered), default=1.0),
        "detectable": [amount(m, value, value) for m, value in detectable if value is not None],
        "sign_flip_least": smallest_p(found.seeds[1], sign_flip=True),
        "equivalence_level": LEVEL,
        "margins": [amount(m, *span) for m, span in margins if span is not None],
        "likeness": (
            likeness.get(Likeness.EQUIVALENT, 0) + likeness.get(Likeness.IDENTICAL, 0),
            likeness.get(Likeness.DIFFERENT, 0),
            likeness.get(Likeness.NOT_SHOWN, 0),
        ),
        "across": [result for result in across if result.found is not None],
        "suites": sorted({row.first.suite_version for row in rows}),
        "software": list(SOFTWARE),
    }


def _cited_list(names: Sequence[str], cite: Callable[[str], tuple[str, ...]]) -> str:
    """Names in a list, each with its citations, a key only once."""
    out: list[str] = []
    seen: set[str] = set()
    for place, name in enumerate(names):
        joint = "" if place == 0 else " and " if place == len(names) - 1 else ", "
        keys = tuple(key for key in cite(name) if key not in seen)
        seen.update(keys)
        out.append(joint + Cited.plain(shorten(name)) + Cited.keys(keys))
    return Cited("".join(out))
