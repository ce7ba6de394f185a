"""Layouts: which measures and rows a table shows, declared in ``leaderboard/layouts.yaml``."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import cache
from importlib import resources
from typing import Literal

import yaml
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, one_of, parse
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.reporting.measure import GAP, Measure


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
        out = []
        for group in self.columns:
            found = [measure for text in group.measures for measure in _matching(text, present, beam)]
            if found:
                out.append((group.head, tuple(dict.fromkeys(found))))
        if not out:
            wanted = ", ".join(text for group in self.columns for text in group.measures)
            raise DataMissing(
                f"no result has a measurement that the layout {self.name!r} shows ({wanted})",
                hint="run with a suite that measures it (bench run --suite), or take another --layout",
            )
        return tuple(out)

    def untested(self, present: Sequence[Measure], *, beam: int) -> frozenset[Measure]:
        """Measures that are in no family."""
        texts = [text for group in self.columns if not group.tested for text in group.measures]
        return frozenset(measure for text in texts for measure in _matching(text, present, beam))

    def primary_measures(self, present: Sequence[Measure], *, beam: int) -> tuple[Measure, ...]:
        """The measures of its own confirmatory family, if it names one."""
        return tuple(measure for text in self.primary for measure in _matching(text, present, beam))


@cache
def layouts() -> dict[str, Layout]:
    """The layouts that ship with the package, by name. Raises ConfigError for a broken one."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "layouts.yaml"
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {
        name: parse(Layout, {"name": name, **fields}, where=f"leaderboard/layouts.yaml: {name}")
        for name, fields in content.items()
    }


def find_layout(name: str) -> Layout:
    """The layout of that name. Raises UnknownName."""
    return layouts()[one_of("layout", name, layouts())]


def _matching(text: str, present: Sequence[Measure], beam: int) -> list[Measure]:
    # Compared as text, as a family of another suite may not be declared in this version.
    pattern, slash, width = text.partition("/")
    wanted = int(width) if slash else beam
    # No record has gaps of its own that count; a board takes them from the measure and the oracle's row.
    gaps = [measure._replace(metric=f"{GAP}{measure.metric}") for measure in present] if GAP in pattern else []
    return [
        measure
        for measure in [*present, *(gap for gap in gaps if gap.metric in metric_specs())]
        if fnmatchcase(measure.text.partition("/")[0], pattern) and measure.beam in (None, wanted)
    ]
