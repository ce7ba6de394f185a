"""The schema of the page's data block: the JSON that ``render_html`` writes and the page's scripts read.

Columns and string tables instead of one object a cell, as five thousand results have to fit into one file. A mean, an
interval or a paired difference is not stored but follows from the values by seed and the quantiles given here; what
takes a decision (marks, ranks, letters, verdicts, corrected p-values) is stored and never worked out in the browser.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import ConfigDict

from genrec_unlearn_bench.config import StrictModel

__all__ = [
    "BlockData",
    "BlockView",
    "Cited",
    "Code",
    "ConfigField",
    "Fact",
    "HealthReport",
    "MeasureData",
    "MethodPage",
    "Payload",
    "ProtocolData",
    "Reported",
    "RunColumns",
    "SourceData",
    "TaskPage",
    "ViewData",
]


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
    """A task: the request, its data, and what it resolved to."""

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


Uniform: TypeAlias = int | tuple[int, ...]
"""One number where all are the same, else one for each run."""

Code: TypeAlias = tuple[str, int, int, str, str, str]
"""Decisions about a cell: mark (b, s, or empty), first and last rank (0 = not ranked), letters, verdict against
the baseline (b better, w worse, n not separable, u underpowered, empty = no test; upper case where every seed differs
by the same number) and equivalence to the oracle (e, i identical, d different, n not shown, u underpowered, empty)."""


class ProtocolData(StrictModel):
    """The statistics protocol, with its quantiles."""

    name: str
    alpha: float
    confidence: float
    seeds: int
    baseline: str
    oracle: str
    beam: int
    equivalence_quantile: float
    t: tuple[float, ...]
    """By the number of seeds: t quantile of the two-sided interval; 0 below two."""
    t90: tuple[float, ...]
    """The same for the 90 % interval of the equivalence tests."""
    hedges: tuple[float, ...]
    """By the number of seeds: correction of the standardised difference; 0 where there is none."""


class MeasureData(StrictModel):
    """One measure."""

    id: str
    title: str
    side: str
    arrow: str
    better: str
    unit: str
    decimals: int
    beam: int | None
    about: str
    low: float | None
    """Of the metric's range; None = unbounded."""
    high: float | None
    primary: bool
    """Of the protocol's primary measures, at some beam."""


class ViewData(StrictModel):
    """One layout at one beam."""

    layout: str
    title: str
    caption: str
    beam: int | None
    """None where the beam makes no difference to it."""
    groups: tuple[tuple[str, tuple[int, ...]], ...]
    """Heads with the numbers of their measures."""
    primary: tuple[int, ...]
    variants: bool = False
    tested: bool = True
    """False for the list of every measurement, which belongs to no family."""


class BlockView(StrictModel):
    """The statistics of one view in one block; lists run over the view's measures in the order of its groups."""

    notes: tuple[int, ...]
    """Sentences below the table, as numbers of strings."""
    codes: tuple[Uniform, ...]
    """Numbers of codes, by row."""
    p: tuple[str, ...]
    """Holm-corrected p by row, as a packed column; empty where there is none."""
    raw: dict[int, tuple[str, str]]
    """Of the primary measures: p before correction and p of the sign flip."""
    margins: tuple[float | None, ...]
    """Of equivalence to the oracle."""


class RunColumns(StrictModel):
    """Where a block's results come from, run by run: rows one after another, seeds ascending."""

    have: str
    """0 or 1 for every row and seed."""
    key: str
    """The first sixteen hexadecimal digits of every key, one after another."""
    created: Uniform
    """Seconds since ``Payload.since``."""
    environment: Uniform
    commit: Uniform
    """Number of a string: the commit, with ``+`` behind it where files had been changed; the empty one = unknown."""
    command: Uniform
    notes: Uniform
    suite: Uniform
    version: Uniform
    """Version of this package."""
    per_user: str
    """0 or 1: whether the record names a per-user table."""


class BlockData(StrictModel):
    """One block: its rows, its values, where they come from."""

    task: str
    backbone: str
    scale: str
    ruleset: str
    regime: str
    variant: str
    dataset: str
    seeds: tuple[int, ...]
    oracle: int | None
    """Row of the retrained model."""
    baseline: int | None
    encoder: str
    backbone_config: int
    sid_config: int
    dataset_digest: str
    task_digest: str
    label: tuple[str, ...]
    method: tuple[str, ...]
    kind: str
    """r or m for every row."""
    source: Uniform
    config: Uniform
    digest: tuple[str, ...]
    """The first twelve digits of the method's source digest, by row."""
    diverged: dict[int, tuple[int, ...]]
    """Row -> seeds."""
    runs: RunColumns
    values: dict[int, str]
    """Measure -> packed column, rows one after another with all seeds of the block; NaN = no number."""
    views: dict[int, BlockView]


class SourceData(StrictModel):
    """Whose results they are: a ``Source`` as the page reads it."""

    model_config = ConfigDict(from_attributes=True)

    name: str
    title: str
    authors: tuple[str, ...]
    link: str
    bibtex: str
    badge: str


class Reported(StrictModel):
    """A number that a paper reports, for the block and row beside which it is shown."""

    block: int
    method: str
    measure: int
    value: float
    sd: float | None
    broken: tuple[str, ...]
    """Invariants that it breaks, as sentences."""


class Payload(StrictModel):
    """The page's data."""

    format: int = 1
    title: str
    protocol: ProtocolData
    since: int
    """Seconds since 1970."""
    measures: tuple[MeasureData, ...]
    views: tuple[ViewData, ...]
    blocks: tuple[BlockData, ...]
    codes: tuple[Code, ...]
    strings: tuple[str, ...]
    sources: tuple[SourceData, ...]
    configs: tuple[dict[str, Any], ...]
    environments: tuple[dict[str, Any], ...]
    methods: dict[str, MethodPage]
    tasks: dict[str, TaskPage]
    reported: tuple[Reported, ...]
    reported_notes: tuple[str, ...]
    left_out: tuple[str, ...]
    dropped: tuple[str, ...]
    """Views that the page had no room for."""
    results: int
    start: int
    """The block that is shown first: of the largest scale the one with the most runs."""
