"""What a paper needs beside its tables: the paragraph "Statistical analysis" and the bibliography.

Every number of the paragraph is the tables' own. It says what was done and what was found, how often, and what could
not be found with so few seeds; which result matters is for the author to say. Its sentences are those of the template
``leaderboard/templates/text/statistics.txt``.

Entries of the bibliography lie in ``leaderboard/references.bib``, those of datasets in their YAML, and submissions
bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.reporting.across import across as compare_across
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.latex_text import BibEntry, parse_bibtex, shorten
from genrec_unlearn_bench.reporting.sentences import Cited, Facts, amount, facts, in_latex, sentences
from genrec_unlearn_bench.reporting.statistics.equivalence import LEVEL
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import smallest_p
from genrec_unlearn_bench.reporting.tables import Table
from genrec_unlearn_bench.reporting.wording import listed, variants

ALWAYS = ("suite", "statistics:t", "statistics:holm", "statistics:effect", "statistics:tost", "software:scipy")
"""Sources of every table. Friedman joins from the protocol's number of blocks up, the sign flip from its seeds."""
SOFTWARE = {"NumPy": "numpy", "SciPy": "scipy"}
OUTCOMES = {
    Verdict.BETTER: "found the method better",
    Verdict.WORSE: "found the method worse",
    Verdict.NOT_SEPARABLE: "did not separate the two",
}


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
    """Our entries and the datasets' by what they belong to. Raises ConfigError for a broken file."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "references.bib"
    own = parse_bibtex(file.read_text(encoding="utf-8"), where="leaderboard/references.bib", longest=None)
    by_key = {entry.key: entry for entry in own}
    out: dict[str, list[BibEntry]] = {}
    for entry in own:
        for name in entry.keywords:
            out.setdefault(name, []).append(entry)
    for name, spec in packaged_datasets().items():
        for citation in spec.citations:
            for entry in parse_bibtex(citation.bibtex, where=f"tasks/datasets/{name}.yaml"):
                # A paper that brought a dataset and a backbone is one entry.
                out.setdefault(f"dataset:{name}", []).append(by_key.setdefault(entry.key, entry))
    return {name: tuple(entries) for name, entries in out.items()}


def bibliography(tables: Sequence[Table]) -> Bibliography:
    """Entries for everything in some tables; variants cite their method."""
    known, variant_of = references(), variants()
    datasets = {name: spec.dataset for name, spec in tasks().items()}
    # One result of every row of every block.
    results = [row.first for table in tables for block in table.blocks for row in block.block.rows]
    wanted = {name: name for name in ALWAYS}
    if tables:
        found_in = facts(tables)
        if found_in.seeds[1] >= found_in.protocol.sign_flip_from:
            wanted["statistics:sign-flip"] = "statistics:sign-flip"
        if len(found_in.blocks) >= found_in.protocol.friedman_blocks:
            wanted["statistics:friedman"] = "statistics:friedman"
    for result in results:
        wanted[f"method:{result.method}"] = f"method:{variant_of.get(result.method, result.method)}"
        wanted[f"backbone:{result.backbone}"] = f"backbone:{result.backbone}"
        dataset = f"dataset:{datasets.get(result.task, '')}"
        wanted[dataset] = dataset
    found = {name: [entry.key for entry in known[source]] for name, source in wanted.items() if source in known}
    entries = {entry.key: entry for source in wanted.values() for entry in known.get(source, ())}
    submitted = {result.source.name: result.source.bibtex for result in results if result.source.bibtex.strip()}
    for name, text in submitted.items():
        try:
            brought = parse_bibtex(text, where=f"the submission {name}")
        except ConfigError:
            # Checked when it was submitted; what was changed since is not cited.
            continue
        own = [_unique(entry, entries, name) for entry in brought]
        entries |= {entry.key: entry for entry in own}
        for method in {result.method for result in results if result.source.name == name}:
            found.setdefault(f"method:{method}", []).extend(entry.key for entry in own)
    keys = {name: tuple(dict.fromkeys(each)) for name, each in found.items()}
    text = "\n\n".join(entries[key].text() for key in sorted(entries)) + "\n"
    return Bibliography(keys, text)


def _unique(entry: BibEntry, entries: Mapping[str, BibEntry], submission: str) -> BibEntry:
    """The entry, under another key where its own belongs to something else already."""
    other = entries.get(entry.key)
    if other is None or other.text() == entry.text():
        return entry
    kept = "".join(character for character in submission if character.isascii() and character.isalnum())
    return replace(entry, key=f"{kept or 'submission'}:{entry.key}")


def statistics_paragraph(tables: Sequence[Table]) -> str:
    """The paragraph as LaTeX, one sentence a line; its citations are keys of ``bibliography(tables)``."""
    return "\n".join([r"\paragraph{Statistical analysis.}", *map(in_latex, statistics_sentences(tables)), ""])


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
        """Names in a list, each with its citations, a key only once."""
        parts = []
        seen: set[str] = set()
        for name in names:
            keys = tuple(key for key in books.cited(f"{kind}:{owners[kind][name]}") if key not in seen)
            seen.update(keys)
            parts.append(Cited.plain(shorten(name)) + Cited.keys(keys))
        return Cited(listed(parts))

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
