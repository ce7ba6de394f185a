"""What the page says about a method and a task, beside their results."""

from __future__ import annotations

from genrec_unlearn_bench.config import StrictModel

__all__ = ["Cited", "ConfigField", "Fact", "HealthReport", "MethodPage", "TaskPage"]


class Fact(StrictModel):
    """One line of a list: a name and what it is."""

    name: str
    text: str


class ConfigField(StrictModel):
    """One setting of a method."""

    name: str
    kind: str
    """The type, as written."""
    default: str
    """As JSON where it is a plain literal, else as written; empty where there is none."""
    about: str
    search: str = ""
    """Values that tuning tries; empty where it is not tuned."""


class MethodPage(StrictModel):
    """A method's account of itself, as far as its source can be read here."""

    summary: str
    text: str = ""
    """The module's docstring: the paper, what is updated, deviations."""
    file: str = ""
    reference: bool = False
    requires: tuple[str, ...] = ()
    variant_of: str = ""
    changes: tuple[Fact, ...] = ()
    """Of a variant: the fields it changes."""
    variants: tuple[Fact, ...] = ()
    fields: tuple[ConfigField, ...] = ()


class Cited(StrictModel):
    """A citation."""

    key: str
    bibtex: str


class HealthReport(StrictModel):
    """The semantic IDs of one backbone at one scale."""

    backbone: str
    scale: str
    items: int
    levels: tuple[tuple[str, ...], ...]
    """Level, codes used, perplexity, largest code, prefixes, error, nearest code."""
    facts: tuple[Fact, ...] = ()
    prefixes: tuple[tuple[str, ...], ...] = ()
    """Length, prefixes with two or more items, of one brand, of one category, concept items that share one."""


class TaskPage(StrictModel):
    """What a task asks to forget, on which data, and what it resolved to."""

    title: str
    text: str = ""
    kind: str = ""
    facts: tuple[Fact, ...] = ()
    dataset: str = ""
    dataset_title: str = ""
    dataset_facts: tuple[Fact, ...] = ()
    citations: tuple[Cited, ...] = ()
    resolved: tuple[Fact, ...] = ()
    """From the manifest: draws, shares, digest."""
    counts: tuple[tuple[str, int, int], ...] = ()
    """Part, forget examples, retain examples."""
    concepts: tuple[str, ...] = ()
    more_concepts: int = 0
    health: tuple[HealthReport, ...] = ()
