"""Bibliography of a table: BibTeX of its methods, backbones, datasets, statistics and suite.

Entries of ours lie in ``leaderboard/references.bib``, those of datasets beside them, and submissions bring their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.reporting.bibtex import BibEntry, parse_bibtex
from genrec_unlearn_bench.reporting.facts import facts
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.tables import Table

__all__ = ["Bibliography", "bibliography", "references"]

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
    from genrec_unlearn_bench.data.catalogue import packaged_datasets

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
    known = references()
    results = _results(tables)
    wanted = dict.fromkeys([*ALWAYS, *_further(tables)])
    families = _families(result.method for result in results)
    tasks = _datasets()
    keys: dict[str, list[str]] = {}
    entries: dict[str, BibEntry] = {}

    def add(name: str, found: Iterable[BibEntry]) -> None:
        for entry in found:
            entries.setdefault(entry.key, entry)
            listed = keys.setdefault(name, [])
            if entry.key not in listed:
                listed.append(entry.key)

    for name in wanted:
        add(name, known.get(name, ()))
    for result in results:
        add(f"method:{result.method}", known.get(f"method:{families.get(result.method, result.method)}", ()))
        add(f"backbone:{result.backbone}", known.get(f"backbone:{result.backbone}", ()))
        dataset = tasks.get(result.task, "")
        add(f"dataset:{dataset}", known.get(f"dataset:{dataset}", ()))
    left_out = []
    for name, (text, methods) in _submitted(results).items():
        try:
            brought = parse_bibtex(text, where=f"the submission {name}")
        except ConfigError as fault:
            left_out.append(f"BibTeX of the submission {name}: {'; '.join(fault.faults)}")
            continue
        for entry in brought:
            unique = _unique(entry, entries, name)
            for method in methods:
                add(f"method:{method}", [unique])
    text = "\n\n".join(entries[key].text() for key in sorted(entries)) + "\n"
    return Bibliography({name: tuple(found) for name, found in keys.items()}, text, tuple(left_out))


def _results(tables: Sequence[Table]) -> list[Result]:
    """One result of every row of every block."""
    return [row.first for table in tables for block in table.blocks for row in block.block.rows]


def _further(tables: Sequence[Table]) -> list[str]:
    if not tables:
        return []
    found = facts(tables)
    out = []
    if found.seeds[1] >= found.protocol.sign_flip_from:
        out.append("statistics:sign-flip")
    if len(found.blocks) >= found.protocol.friedman_blocks:
        out.append("statistics:friedman")
    return out


def _families(names: Iterable[str]) -> dict[str, str]:
    """The method that each variant belongs to."""
    from genrec_unlearn_bench.registry import methods

    known = methods()
    return {name: known[name].variant_of for name in names if name in known and known[name].variant_of}


def _datasets() -> dict[str, str]:
    """The dataset of every task that ships."""
    from genrec_unlearn_bench.data.tasks import tasks

    return {name: spec.dataset for name, spec in tasks().items()}


def _submitted(results: Iterable[Result]) -> dict[str, tuple[str, list[str]]]:
    """BibTeX and methods of every submission that brings any."""
    out: dict[str, tuple[str, list[str]]] = {}
    for result in results:
        if result.source.bibtex.strip():
            methods = out.setdefault(result.source.name, (result.source.bibtex, []))[1]
            if result.method not in methods:
                methods.append(result.method)
    return out


def _unique(entry: BibEntry, entries: Mapping[str, BibEntry], submission: str) -> BibEntry:
    """The entry, under another key where its own belongs to something else already."""
    other = entries.get(entry.key)
    if other is None or other.text() == entry.text():
        return entry
    kept = "".join(character for character in submission if character.isascii() and character.isalnum())
    return BibEntry(entry.kind, f"{kept or 'submission'}:{entry.key}", entry.fields)
