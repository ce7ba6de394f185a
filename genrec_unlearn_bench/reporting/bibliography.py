"""Bibliography of a table: BibTeX of its methods, backbones, datasets, statistics and suite.

Entries of ours lie in ``leaderboard/references.bib``, those of datasets beside them, and submissions bring their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.reporting.bibtex import BibEntry, parse_bibtex
from genrec_unlearn_bench.reporting.facts import facts
from genrec_unlearn_bench.reporting.selection import variants
from genrec_unlearn_bench.reporting.tables import Table

ALWAYS = ("suite", "statistics:t", "statistics:holm", "statistics:effect", "statistics:tost", "software:scipy")
"""Sources of every table. Friedman joins from the protocol's number of blocks up, the sign flip from its seeds."""


@dataclass(frozen=True)
class Bibliography:
    """Entries for some tables.

    Attributes:
        keys: Keys by what they belong to: ``method:tracer``, ``backbone:tiger``, ``dataset:sports``,
            ``statistics:holm``, ``software:scipy``, ``suite``.
        text: The entries, sorted by key, each once.
        left_out: Submissions whose BibTeX cannot be used, as sentences.
    """

    keys: Mapping[str, tuple[str, ...]]
    text: str
    left_out: tuple[str, ...] = ()

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
    wanted = {name: name for name in (*ALWAYS, *_further(tables))}
    for result in results:
        wanted[f"method:{result.method}"] = f"method:{variant_of.get(result.method, result.method)}"
        wanted[f"backbone:{result.backbone}"] = f"backbone:{result.backbone}"
        dataset = f"dataset:{datasets.get(result.task, '')}"
        wanted[dataset] = dataset
    found = {name: [entry.key for entry in known[source]] for name, source in wanted.items() if source in known}
    entries = {entry.key: entry for source in wanted.values() for entry in known.get(source, ())}
    left_out = []
    submitted = {result.source.name: result.source.bibtex for result in results if result.source.bibtex.strip()}
    for name, text in submitted.items():
        try:
            brought = parse_bibtex(text, where=f"the submission {name}")
        except ConfigError as fault:
            left_out.append(f"BibTeX of the submission {name}: {'; '.join(fault.faults)}")
            continue
        own = [_unique(entry, entries, name) for entry in brought]
        entries |= {entry.key: entry for entry in own}
        for method in {result.method for result in results if result.source.name == name}:
            found.setdefault(f"method:{method}", []).extend(entry.key for entry in own)
    keys = {name: tuple(dict.fromkeys(each)) for name, each in found.items()}
    text = "\n\n".join(entries[key].text() for key in sorted(entries)) + "\n"
    return Bibliography(keys, text, tuple(left_out))


def _further(tables: Sequence[Table]) -> list[str]:
    if not tables:
        return []
    found = facts(tables)
    sign_flip = found.seeds[1] >= found.protocol.sign_flip_from
    friedman = len(found.blocks) >= found.protocol.friedman_blocks
    return ["statistics:sign-flip"] * sign_flip + ["statistics:friedman"] * friedman


def _unique(entry: BibEntry, entries: Mapping[str, BibEntry], submission: str) -> BibEntry:
    """The entry, under another key where its own belongs to something else already."""
    other = entries.get(entry.key)
    if other is None or other.text() == entry.text():
        return entry
    kept = "".join(character for character in submission if character.isascii() and character.isalnum())
    return replace(entry, key=f"{kept or 'submission'}:{entry.key}")
