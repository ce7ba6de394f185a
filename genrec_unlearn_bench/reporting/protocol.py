"""What ``leaderboard/`` declares for tables: the statistics protocol, and layouts, which say what a table shows.

The protocol has a version, is fixed before the numbers are seen, and is printed under every table.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

import yaml
from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel, one_of, parse, parse_yaml
from genrec_unlearn_bench.errors import DataMissing, ProtocolMismatch
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.reporting.measure import GAP, Measure
from genrec_unlearn_bench.reporting.wording import leaderboard_text


class StatisticsProtocol(StrictModel):
    """Rules that every comparison in every table follows (protocol sec. 6)."""

    version: int = Field(ge=1)
    """Version of the statistics; rises with any change that can change a mark, a rank or a verdict."""
    suite_protocol: int = Field(ge=1)
    """The protocol of data, tasks and measurements that it goes with; no table has records of another one."""
    alpha: float = Field(gt=0, lt=1)
    """Family-wise error rate of one block (task × backbone) of a table."""
    confidence: float = Field(gt=0, lt=1)
    """Of all intervals (t over seeds)."""
    seeds: int = Field(ge=2)
    """Replicates that a full row has. Fewer are shown as they are, and counted."""
    baseline: str
    """The row that all others are tested against, where a call names none."""
    oracle: str
    """The row that equivalence and gaps refer to."""
    beam: int = Field(ge=1)
    """Beam width of the list metrics, where a call names none."""
    primary: tuple[str, ...] = Field(min_length=1)
    """Measures of the confirmatory family."""
    forgetting: tuple[str, ...] = Field(min_length=1)
    """Measures of the verdict on forgetting; the worse of several counts."""
    forgetting_parts: tuple[str, ...] = ()
    """Measures that its sentence names beside them, in no family of tests."""
    sign_flip_from: int = Field(ge=2)
    """Seeds from which the exact sign-flip test is printed beside the t-test: below, it cannot reach alpha."""
    equivalence_quantile: float = Field(gt=0, lt=1)
    """Quantile of the differences between retrained models that is the margin of equivalence, which is never less than
    what one test example can change."""
    user_permutations: int = Field(ge=100)
    """Sign flips of the user-level comparison of two checkpoints."""
    friedman_blocks: int = Field(ge=3)
    """Blocks from which methods are compared across blocks."""
    power: float = Field(gt=0, lt=1)
    """At which the smallest detectable difference is stated."""

    tuning_seeds_from: int = Field(ge=0)
    """Seeds from here up belong to tuning; runs with them are left out of every table."""
    references: tuple[str, ...] = Field(min_length=1)
    """Rows that stand above the methods in every table and are neither ranked nor in a family (protocol sec. 3)."""

    def measures(self, texts: Sequence[str], beam: int | None = None) -> tuple[Measure, ...]:
        """Measures by their names, list metrics at a beam (the protocol's where none is given)."""
        return tuple(Measure.parse(text, beam=self.beam if beam is None else beam) for text in texts)

    @property
    def name(self) -> str:
        """For notes: protocol 2, statistics 3."""
        return f"protocol {self.suite_protocol}, statistics {self.version}"


PROTOCOLS = (1, PROTOCOL_VERSION)
"""Protocols whose results can be shown, the oldest first; new ones are made under the last."""


@cache
def statistics_protocol(version: int = PROTOCOL_VERSION) -> StatisticsProtocol:
    """The statistics of results under a protocol. Raises ProtocolMismatch for one that this suite does not know."""
    where, text = protocol_file("protocol", version)
    return parse_yaml(StatisticsProtocol, text, where=where)


def protocol_file(name: str, version: int) -> tuple[str, str]:
    """Place and text of ``protocol`` or ``layouts`` as of a protocol: all in which the tables of two protocols differ.

    Raises ProtocolMismatch for a version that this suite does not know.
    """
    if version not in PROTOCOLS:
        raise ProtocolMismatch(
            f"there are results of protocol {version}, and this suite shows those of protocol "
            f"{' and '.join(map(str, PROTOCOLS))}",
            hint="run them again with this version, or make their table with the version that they were run with",
        )
    file = f"{name}.yaml" if version == PROTOCOL_VERSION else f"{name}-{version}.yaml"
    return f"leaderboard/{file}", leaderboard_text(file)


class ColumnGroup(StrictModel):
    """Columns under one head."""

    head: str
    measures: tuple[str, ...] = Field(min_length=1)
    """``group:metric`` with an optional ``/beam``; ``*`` stands for any part of a metric's name."""
    tested: bool = True
    """Whether its measures are tested; the primary ones always are. Without it their means alone are shown."""


class Layout(StrictModel):
    """One kind of table: which measures and rows it shows."""

    name: str
    title: str
    caption: str
    columns: tuple[ColumnGroup, ...] = Field(min_length=1)
    kinds: tuple[str, ...] = ()
    """Kinds of request whose tasks it shows; all where none are named."""
    rows: Literal["all", "variants"] = "all"
    """``variants``: methods that have variants among the results, and these, with the reference rows."""
    primary: tuple[str, ...] = ()
    """Measures of the confirmatory family; the protocol's where none are named."""
    baseline: str = ""
    """Row that its methods are tested against where a call names none; the protocol's where this is empty."""
    side_by_side: int = Field(default=1, ge=1, le=4)
    """How many tasks stand beside each other; more go into further tables."""

    def groups(self, present: Sequence[Measure], *, beam: int) -> tuple[tuple[str, tuple[Measure, ...]], ...]:
        """Heads with their measures, of those that some result has. Raises DataMissing where nothing is left."""
        found = ((group.head, matching(group.measures, present, beam)) for group in self.columns)
        out = tuple((head, measures) for head, measures in found if measures)
        if not out:
            wanted = ", ".join(text for group in self.columns for text in group.measures)
            raise DataMissing(
                f"no result has a measurement that the layout {self.name!r} shows ({wanted})",
                hint="run what measures it (bench run --suite full; streams: --requests 4), or take another --layout",
            )
        return out


@cache
def layouts(protocol: int = PROTOCOL_VERSION) -> dict[str, Layout]:
    """The layouts of a protocol's results, by name. Raises ConfigError for a broken one."""
    where, text = protocol_file("layouts", protocol)
    content = yaml.safe_load(text)
    return {name: parse(Layout, {"name": name, **fields}, where=f"{where}: {name}") for name, fields in content.items()}


def find_layout(name: str, protocol: int = PROTOCOL_VERSION) -> Layout:
    """The layout of that name. Raises UnknownName."""
    return layouts(protocol)[one_of("layout", name, layouts(protocol))]


def matching(texts: Sequence[str], present: Sequence[Measure], beam: int) -> tuple[Measure, ...]:
    """Measures of some patterns, in their order; each once. A pattern without a beam takes ``beam``."""
    out: dict[Measure, None] = {}
    # No record has gaps of its own that count; a board takes them from the measure and the oracle's row.
    gaps = [measure._replace(metric=f"{GAP}{measure.metric}") for measure in present]
    gaps = [gap for gap in gaps if gap.metric in metric_specs()]
    for text in texts:
        pattern, slash, width = text.partition("/")
        for measure in (*present, *gaps) if GAP in pattern else present:
            # Compared as text, as a family of another suite may not be declared in this version.
            named = fnmatchcase(measure.text.partition("/")[0], pattern)
            if named and measure.beam in (None, int(width) if slash else beam):
                out.setdefault(measure)
    return tuple(out)
