"""What a paper needs beside its tables: the paragraph "Statistical analysis" and the bibliography.

Every number of the paragraph is the tables' own. It says what was done and what was found, how often, and what could
not be found with so few seeds; which result matters is for the author to say. Its sentences are those of the template
``leaderboard/templates/text/statistics.txt``.

Entries of the bibliography lie in ``leaderboard/references.bib``, those of datasets in their YAML. Both are our own
files: what a submission brings is on the page as text, and never becomes TeX in somebody's paper.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.latex_text import shorten
from genrec_unlearn_bench.reporting.sentences import Cited, ReportText, amount, in_latex, report_text, sentences
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import smallest_p
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import leaderboard_text, listed, variants

ALWAYS = ("suite", "statistics:t", "statistics:holm", "statistics:effect", "statistics:tost", "software:scipy")
"""Sources of every table. Friedman joins from the protocol's number of blocks up, the sign flip from its seeds."""
SOFTWARE = {"NumPy": "numpy", "SciPy": "scipy"}
OUTCOMES = {
    Verdict.BETTER: "found the method better",
    Verdict.WORSE: "found the method worse",
    Verdict.NOT_SEPARABLE: "did not separate the two",
}


_ENTRY = re.compile(r"^@(\w+)\{([^,\s]+),\n(.*?)\n\}$", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(r"^\s*(\w+)\s*=\s*\{(.*)\},?$", re.MULTILINE)


class BibEntry(NamedTuple):
    """One entry; values without their outer braces."""

    kind: str
    key: str
    fields: Mapping[str, str]

    def text(self) -> str:
        """The entry as it is printed, without its keywords."""
        shown = {name: value for name, value in self.fields.items() if name != "keywords"}
        width = max(map(len, shown))
        lines = [f"  {name:<{width}} = {{{value}}}" for name, value in shown.items()]
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"


def bibtex_entries(text: str) -> list[BibEntry]:
    """The entries of a file of ours: a field a line, in braces."""
    return [BibEntry(kind, key, dict(_FIELD.findall(fields))) for kind, key, fields in _ENTRY.findall(text)]


@dataclass(frozen=True)
class Bibliography:
    """Entries for some tables.

    Attributes:
        keys: Keys by what they belong to: ``method:tracer``, ``backbone:tiger``, ``dataset:sports``,
            ``statistics:holm``, ``software:scipy``, ``suite``.
        text: The entries, sorted by key, each once.
    """

    keys: Mapping[str, tuple[str, ...]]
    text: str

    def cited(self, *names: str) -> tuple[str, ...]:
        """Keys of some things, each once."""
        return tuple(dict.fromkeys(key for name in names for key in self.keys.get(name, ())))


@cache
def references() -> Mapping[str, tuple[BibEntry, ...]]:
    """Our entries and the datasets' by what they belong to."""
    own = bibtex_entries(leaderboard_text("references.bib"))
    by_key = {entry.key: entry for entry in own}
    out: dict[str, list[BibEntry]] = {}
    for entry in own:
        for name in entry.fields.get("keywords", "").split(", "):
            out.setdefault(name, []).append(entry)
    for name, spec in packaged_datasets().items():
        for entry in (entry for citation in spec.citations for entry in bibtex_entries(citation.bibtex)):
            # A paper that brought a dataset and a backbone is one entry.
            out.setdefault(f"dataset:{name}", []).append(by_key.setdefault(entry.key, entry))
    return {name: tuple(entries) for name, entries in out.items()}


def bibliography(tables: Sequence[Table]) -> Bibliography:
    """Entries for everything that ships and is in some tables; variants cite their method."""
    known, variant_of, found = references(), variants(), report_text(tables)
    datasets = {name: spec.dataset for name, spec in tasks().items()}
    names = [*ALWAYS]
    names += ["statistics:sign-flip"] * (found.seeds[1] >= found.protocol.sign_flip_from)
    names += ["statistics:friedman"] * (len(found.blocks) >= found.protocol.friedman_blocks)
    wanted = {name: name for name in names}
    # One result of every row of every block.
    for result in (row.first for table in tables for block in table.blocks for row in block.block.rows):
        wanted[f"method:{result.method}"] = f"method:{variant_of.get(result.method, result.method)}"
        wanted[f"backbone:{result.backbone}"] = f"backbone:{result.backbone}"
        dataset = f"dataset:{datasets.get(result.task, '')}"
        wanted[dataset] = dataset
    keys = {name: tuple(entry.key for entry in known[source]) for name, source in wanted.items() if source in known}
    entries = {entry.key: entry for source in wanted.values() for entry in known.get(source, ())}
    return Bibliography(keys, "\n\n".join(entries[key].text() for key in sorted(entries)) + "\n")


def statistics_paragraph(tables: Sequence[Table]) -> str:
    """The paragraph as LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
    return "\n".join([r"\paragraph{Statistical analysis.}", *map(in_latex, statistics_sentences(tables)), ""])


def statistics_sentences(tables: Sequence[Table]) -> tuple[str, ...]:
    """Its sentences, with citations."""
    return sentences("statistics.txt", **_context(tables, report_text(tables), bibliography(tables)))


def _context(tables: Sequence[Table], found: ReportText, books: Bibliography) -> dict[str, Any]:
    rows = [row for block in found.blocks for row in block.block.rows]
    owners = {
        "method": {row.label: row.method for row in rows},
        "backbone": {b.block.key.backbone: b.block.rows[0].first.backbone for b in found.blocks},
        "software": SOFTWARE,
    }

    def cited_names(kind: str, names: Sequence[str]) -> str:
        """Names in a list, each with its citations: a variant and a control with those of their method's paper."""
        keys = {name: books.cited(f"{kind}:{owners[kind][name]}") for name in names}
        return Cited(listed([Cited.plain(shorten(name)) + Cited.keys(keys[name]) for name in names]))

    counts, likeness = found.verdicts, found.likeness
    underpowered = counts.get(Verdict.UNDERPOWERED, 0)
    detectable = [(measure, found.detectable(measure)) for measure in found.primary]
    margins = [(measure, found.margins(measure)) for measure in found.primary]
    analyses = {id(table.analysis): table.analysis for table in tables}
    across = [result for analysis in analyses.values() for result in compare_across(analysis)]
    return {
        "f": found,
        "name": lambda kind, name: shorten(name),
        "cite": lambda *names: Cited.keys(books.cited(*names)),
        "cited_names": cited_names,
        "datasets": [name for name in books.keys if name.startswith("dataset:")],
        "beams": [str(b) for b in sorted({m.beam for m in found.primary if m.beam is not None})],
        "outcomes": [(str(counts[verdict]), text) for verdict, text in OUTCOMES.items() if counts.get(verdict)],
        "underpowered": underpowered,
        "least_p": min((rows.least_p for rows in found.underpowered), default=1.0),
        "detectable": [amount(m, *span) for m, span in detectable if span is not None],
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
