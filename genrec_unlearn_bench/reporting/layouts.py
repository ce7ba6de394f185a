"""Layouts: which measures and rows a table shows, declared in ``leaderboard/layouts.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Literal

import yaml
from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel, one_of, parse
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.reporting.measure import GAP, Measure
from genrec_unlearn_bench.reporting.protocol import protocol_file


class ColumnGroup(StrictModel):
    """Columns under one head."""

    head: str
    measures: tuple[str, ...] = Field(min_length=1)
    """``group:metric`` with an optional ``/beam``; ``*`` stands for any part of a metric's name."""
    tested: bool = True
    """Whether its measures, those outside the primary ones, are in the exploratory family of tests. Without it they
    are shown with their means alone, and change no other measure's correction."""


class Layout(StrictModel):
    """One kind of table."""

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
        """Heads with their measures, of those that some result has.

        Raises DataMissing where nothing is left.
        """
        found = ((group.head, _matching(group.measures, present, beam)) for group in self.columns)
        out = tuple((head, measures) for head, measures in found if measures)
        if not out:
            wanted = ", ".join(text for group in self.columns for text in group.measures)
            raise DataMissing(
                f"no result has a measurement that the layout {self.name!r} shows ({wanted})",
                hint="run with a suite that measures it (bench run --suite), or take another --layout",
            )
        return out

    def untested(self, present: Sequence[Measure], *, beam: int) -> frozenset[Measure]:
        """Measures that are in no family."""
        texts = [text for group in self.columns if not group.tested for text in group.measures]
        return frozenset(_matching(texts, present, beam))

    def primary_measures(self, present: Sequence[Measure], *, beam: int) -> tuple[Measure, ...]:
        """The measures of its own confirmatory family, if it names one."""
        return _matching(self.primary, present, beam)


@cache
def layouts(protocol: int = PROTOCOL_VERSION) -> dict[str, Layout]:
    """The layouts of a protocol's results, by name. Raises ConfigError for a broken one."""
    where, text = protocol_file("layouts", protocol)
    content = yaml.safe_load(text)
    return {name: parse(Layout, {"name": name, **fields}, where=f"{where}: {name}") for name, fields in content.items()}


def find_layout(name: str, protocol: int = PROTOCOL_VERSION) -> Layout:
    """The layout of that name. Raises UnknownName."""
    return layouts(protocol)[one_of("layout", name, layouts(protocol))]


def _matching(texts: Sequence[str], present: Sequence[Measure], beam: int) -> tuple[Measure, ...]:
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
