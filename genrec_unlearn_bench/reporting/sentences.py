"""Sentences from the templates in ``leaderboard/templates/text``, such as the notes below a table, and their numbers.

A number without its notes says more than was measured, so every format prints them. LaTeX prints fewer, in a paper's
signs and names; the paragraph on the statistics says the rest there. In a template an empty line ends a sentence, and
other line breaks are spaces.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment

from genrec_unlearn_bench.reporting import wording
from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Cell, Mark, Unmarked, Verdict
from genrec_unlearn_bench.reporting.board import CORE, Block, Row
from genrec_unlearn_bench.reporting.latex_text import escape, shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS, Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference, smallest_p
from genrec_unlearn_bench.reporting.tables import DIVERGED, EQUIVALENCE, SIGNS, Entry, Table

Span = tuple[float, float]
Reasons = tuple[tuple[Unmarked, tuple[str, ...]], ...]
"""Why measures have no best set, each reason with the titles of its measures."""


class Short(NamedTuple):
    """Rows of one block of which ``n`` of ``of`` runs exist, or have diverged."""

    labels: tuple[str, ...]
    task: str
    backbone: str
    n: int
    of: int


class Underpowered(NamedTuple):
    """Rows with ``n`` seeds of the baseline for which no result could have reached alpha."""

    labels: tuple[str, ...]
    n: int
    exact: bool
    """Every seed differs by the same number, so that only the sign flip is left."""
    least_p: float
    """The smallest p there is, before correction."""


@dataclass(frozen=True, eq=False)
class ReportText:
    """Counts over blocks (task × backbone); everything about tests is of the primary measures."""

    protocol: StatisticsProtocol
    blocks: tuple[BlockAnalysis, ...]
    entries: tuple[Entry, ...]
    shown: frozenset[str]
    """Labels of the tables' lines; a layout may show fewer rows than were tested."""

    def keys(self, part: str) -> tuple[str, ...]:
        """Values of a field of ``BlockKey`` in order of appearance."""
        return tuple(dict.fromkeys(getattr(block.block.key, part) for block in self.blocks))

    @cached_property
    def primary(self) -> tuple[Measure, ...]:
        """The primary measures that were measured at all."""
        found = dict.fromkeys(measure for block in self.blocks for measure in block.primary)
        return tuple(measure for measure in found if any(cell.n for _, _, cell in self._cells(measure)))

    @property
    def baselines(self) -> tuple[str, ...]:
        """Rows that others were tested against."""
        return tuple(dict.fromkeys(block.baseline.label for block in self.blocks if block.baseline is not None))

    @property
    def all_pairs(self) -> bool:
        """Whether a baseline is itself a ranked method, so that it is tested in the family of all pairs."""
        return any(block.baseline is not None and block.baseline.kind == "method" for block in self.blocks)

    @property
    def seeds(self) -> tuple[int, int]:
        """Fewest and most seeds of a block."""
        counts = [len(block.block.seeds) for block in self.blocks]
        return min(counts), max(counts)

    @property
    def baseline_family(self) -> Span | None:
        """Smallest and largest family against the baseline; None where there was no test."""
        return _span(block.against_baseline for block in self.blocks if block.against_baseline)

    @property
    def pairs_family(self) -> Span | None:
        """Smallest and largest family of all pairs."""
        return _span(block.pairs for block in self.blocks if block.pairs)

    def rows(self, kind: str) -> tuple[str, ...]:
        """Labels of the rows of a kind: references in the protocol's order, methods by name."""
        found = dict.fromkeys(row.label for block in self.blocks for row in block.block.rows if row.kind == kind)
        return tuple(found) if kind == "reference" else tuple(sorted(found))

    @property
    def fewer(self) -> tuple[Short, ...]:
        """Rows that lack seeds which others of their block have."""
        return self._short(lambda block, row: (len(row.results), len(block.seeds)), lambda n, of: n < of)

    def marked(self, by: str) -> tuple[Short, ...]:
        """Rows with runs that ``Row.diverged`` or ``Row.ended_early`` names, their number, and that of all runs."""
        return self._short(lambda _, row: (len(getattr(row, by)), len(row.results)), lambda n, _: n > 0)

    @property
    def unpaired(self) -> tuple[Short, ...]:
        """Rows with runs on another original or retrained model than the other rows of their seed."""
        return self._short(lambda block, row: (len(block.unpaired(row)), len(row.results)), lambda n, _: n > 0)

    def _short(
        self, counts: Callable[[Block, Row], tuple[int, int]], wanted: Callable[[int, int], bool]
    ) -> tuple[Short, ...]:
        """Rows of the tables whose counts are wanted, those of one block and number together."""
        labels: dict[tuple[str, str, int, int], list[str]] = {}
        for block in (each.block for each in self.blocks):
            for row in block.rows:
                if row.label in self.shown and wanted(*counts(block, row)):
                    labels.setdefault((block.key.task, block.key.backbone, *counts(block, row)), []).append(row.label)
        return tuple(Short(tuple(names), *place) for place, names in labels.items())

    @cached_property
    def underpowered(self) -> tuple[Underpowered, ...]:
        """Rows of the tables with an underpowered test against the baseline."""
        seen: dict[tuple[int, bool], dict[str, None]] = {}
        for entry in self.entries:
            difference = entry.cell.difference if entry.cell is not None else None
            if difference is not None and entry.row is not None and difference.verdict is Verdict.UNDERPOWERED:
                seen.setdefault((difference.n, difference.exact), {})[entry.row.label] = None
        return tuple(
            Underpowered(tuple(labels), n, exact, smallest_p(n, sign_flip=exact))
            for (n, exact), labels in sorted(seen.items())
        )

    @property
    def unmarked(self) -> Mapping[Reasons, list[BlockAnalysis]]:
        """Blocks with measures of the tables on which no best set is marked, by the reasons."""
        shown = dict.fromkeys(entry.column.measure for entry in self.entries)
        out: dict[Reasons, list[BlockAnalysis]] = {}
        for block in self.blocks:
            titles: dict[Unmarked, list[str]] = {}
            for measure in shown:
                if (reason := block.unmarked.get(measure)) is not None:
                    titles.setdefault(reason, []).append(measure.title)
            ranked = sum(row.kind == "method" and not row.diverged for row in block.block.rows)
            if titles and ranked > 1:
                out.setdefault(tuple((why, tuple(each)) for why, each in titles.items()), []).append(block)
        return out

    @cached_property
    def verdicts(self) -> Mapping[Verdict, int]:
        """Verdicts of the tests against the baseline, counted."""
        return Counter(cell.difference.verdict for _, _, cell in self._primary() if cell.difference is not None)

    @property
    def likeness(self) -> Mapping[Likeness, int]:
        """Verdicts of the equivalence tests of the methods, counted; diverged rows left out."""
        return Counter(
            cell.equivalence.verdict
            for _, row, cell in self._primary()
            if cell.equivalence is not None and row.kind == "method" and not row.diverged
        )

    @property
    def effects(self) -> tuple[float, float, float] | None:
        """Smallest, median and largest magnitude of the standardised differences from the baseline."""
        differences = [cell.difference for _, _, cell in self._primary() if cell.difference is not None]
        found = [abs(each.effect) for each in differences if each.effect is not None]
        return (min(found), float(np.median(found)), max(found)) if found else None

    def margins(self, measure: Measure) -> Span | None:
        """Smallest and largest margin of equivalence to the oracle."""
        found = (block.margins.get(measure) for block in self.blocks)
        return _span(margin for margin in found if margin is not None)

    def detectable(self, measure: Measure) -> Span | None:
        """The least difference from the baseline that the first Holm step finds: the smallest and the largest of the
        blocks' medians over methods."""
        found: dict[int, list[float]] = {}
        for block, row, cell in self._cells(measure):
            if cell.difference is None or block.baseline is None or cell.difference.n < 2:
                continue
            differences = cell.minus(block.cell(block.baseline, measure))
            level = self.protocol.alpha / max(block.against_baseline, 1)
            sd = float(np.std(differences, ddof=1))
            if sd and not row.diverged:
                least = detectable_difference(sd, len(differences), level, power=self.protocol.power)
                found.setdefault(id(block), []).append(least)
        return _span(float(np.median(one)) for one in found.values())

    def _cells(self, measure: Measure) -> list[tuple[BlockAnalysis, Row, Cell]]:
        rows = [(block, row) for block in self.blocks if measure in block.measures for row in block.block.rows]
        return [(block, row, block.cell(row, measure)) for block, row in rows]

    def _primary(self) -> list[tuple[BlockAnalysis, Row, Cell]]:
        return [found for measure in self.primary for found in self._cells(measure)]


def report_text(tables: Sequence[Table]) -> ReportText:
    """The facts of tables of one protocol; a block that several of them show counts once."""
    blocks = {id(block): block for table in tables for block in table.blocks}
    lines = [line for table in tables for section in table.sections for line in section.lines]
    entries = tuple(entry for line in lines for entry in line.entries)
    return ReportText(tables[0].protocol, tuple(blocks.values()), entries, frozenset(line.label for line in lines))


def _span(values: Iterable[float]) -> Span | None:
    found = [float(value) for value in values]
    return (min(found), max(found)) if found else None


NAMED = 6
"""Places that are named when runs are missing or diverged; more are counted."""
_TEXT_SIGNS = {
    **{verdict.name.lower(): sign for verdict, sign in SIGNS.items()},
    **{verdict.name.lower(): sign for verdict, sign in EQUIVALENCE.items() if verdict is not Likeness.UNDERPOWERED},
    "unmeasured": "n/a",
    "absent": "–",
    "diverged": DIVERGED,
}
_LATEX_SIGNS = {
    "best": "Bold",
    "second": "underlined",
    "better": "⁺",
    "worse": "⁻",
    "equivalent": "†",
    "unmeasured": "n.m.",
    "absent": "–",
}
_TITLES = {"row": wording.row_title, "task": wording.task_title, "backbone": wording.backbone_title}

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the keys of a citation in a sentence; private characters, taken out of all names."""
_CITATION = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_SYMBOL = re.compile(r"(?<=paired )t\b|\bt(?=-test| interval)|(?<=attainable )p\b")


def notes(table: Table, *, best: str = "Bold", second: str = "italic", template: str = "notes.txt") -> tuple[str, ...]:
    """Every sentence below a table, in reading order; names in them are not escaped.

    Args:
        best, second: How the format shows the two sets.
        template: ``legend.txt``: only what the signs in the table mean.
    """
    return sentences(template, **_notes_context(table, {**_TEXT_SIGNS, "best": best, "second": second}))


def latex_notes(table: Table) -> tuple[str, ...]:
    """Notes below a LaTeX table, as TeX: the marks that occur in it, seeds, gaps, and the protocol."""
    return tuple(map(in_latex, sentences("notes.txt", **_notes_context(table, _LATEX_SIGNS, brief=True))))


def _notes_context(table: Table, signs: dict[str, str], *, brief: bool = False) -> dict[str, Any]:
    found = report_text([table])

    def name(kind: str, text: str) -> str:
        return shorten(_TITLES[kind](text)) if brief else text

    def place(block: BlockAnalysis) -> str:
        key = block.block.key
        variant = f" ({key.variant})" if key.variant else ""
        return f"{name('task', key.task)} on {name('backbone', key.backbone)}{variant}"

    detectable = [(measure, found.detectable(measure)) for measure in found.primary]
    beams: dict[int, dict[str, None]] = {}
    for column in table.columns:
        if column.measure.beam is not None:
            beams.setdefault(column.measure.beam, {})[column.head] = None
    suite = table.blocks[0].block.rows[0].first.suite
    return {
        "f": found,
        "signs": signs,
        "brief": brief,
        "name": name,
        "present": set(_present(found.entries, primary_alone=brief)),
        "costs": any(column.measure in RECORDED_COSTS for column in table.columns),
        "baselines": wording.listed(name("row", label) for label in found.baselines or (found.protocol.baseline,)),
        "oracle": name("row", found.protocol.oracle),
        "suite": suite if suite != CORE else "",
        "core": CORE,
        "several": len(found.blocks) > 1,
        "unmarked": [(reasons, [place(block) for block in blocks]) for reasons, blocks in found.unmarked.items()],
        "detectable": [amount(measure, *span) for measure, span in detectable if span is not None],
        "weak": [(place(block), block.block.weak) for block in found.blocks if block.block.weak],
        "beams": [(width, list(heads)) for width, heads in sorted(beams.items())],
        "left_out": () if brief else table.analysis.board.left_out,
    }


def _present(entries: Sequence[Entry], *, primary_alone: bool) -> Iterator[str]:
    """Signs that occur in a table, by their names in the templates."""
    for entry in entries:
        cell, primary = entry.cell, entry.column.primary
        if cell is None or entry.row is None:
            yield "absent"
        elif entry.row.diverged:
            continue
        elif cell.mean is None:
            yield "unrecorded" if entry.column.measure in RECORDED_COSTS else "unmeasured"
        else:
            if cell.mark is not Mark.PLAIN:
                yield "marked"
            shown = primary or not primary_alone
            if shown and cell.difference is not None:
                yield cell.difference.verdict.name.lower()
            if shown and cell.equivalence is not None and cell.equivalence.verdict is not Likeness.UNDERPOWERED:
                yield cell.equivalence.verdict.name.lower()
            if primary and cell.rank is not None:
                yield "ranked"


class Cited(str):
    """Text with citations in it."""

    @classmethod
    def keys(cls, keys: Sequence[str]) -> Cited:
        """The citation of some keys of the bibliography."""
        return cls(f"{_OPEN}{','.join(keys)}{_CLOSE}" if keys else "")

    @staticmethod
    def plain(value: object) -> str:
        """Text in which nothing is taken for a citation but what is ``Cited``."""
        return value if isinstance(value, Cited) else re.sub(f"[{_OPEN}{_CLOSE}]", "", str(value))


def amount(measure: Measure, low: float, high: float) -> str:
    """0.012 to 0.03 for forget HR@10: two significant digits, without an exponent."""
    first, last = (np.format_float_positional(value, precision=2, fractional=False, trim="-") for value in (low, high))
    unit = f" {measure.spec.unit}" if measure.spec.unit in ("seconds", "MiB", "nats", "bits") else ""
    return f"{first if first == last else f'{first} to {last}'}{unit} for {measure.title}"


def sentences(template: str, **context: Any) -> tuple[str, ...]:
    """The sentences of a template. In the context, ``name(kind, text)`` is how a task, backbone or row is shown."""
    found, name = context["f"], context["name"]

    def named(labels: Iterable[str], kind: str = "row") -> str:
        return wording.listed(name(kind, label) for label in labels)

    def place(short: Short) -> str:
        each = " each" if len(short.labels) > 1 else ""
        where = f"{name('task', short.task)} with {name('backbone', short.backbone)}"
        return f"{named(short.labels)} on {where} ({short.n} of {short.of}{each})"

    given = {
        "named": named,
        "protocol": found.protocol,
        "fewer": list(map(place, found.fewer)),
        "unpaired": list(map(place, found.unpaired)),
        "fewer_rows": {label for short in found.fewer for label in short.labels},
        **{mark: list(map(place, found.marked(mark))) for mark in ("diverged", "ended_early")},
    }
    text = _environment().get_template(template).render(given | context)
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return tuple(re.sub(r" (?=[.;,](?: |$))", "", part) for part in parts if part)


def in_latex(sentence: str) -> str:
    """The sentence as TeX: escaped, statistics' symbols in italics, citations as ``\\cite``."""
    out = []
    for number, piece in enumerate(_CITATION.split(sentence)):
        # Escaping trims, and spaces at the ends of pieces part them from citations.
        head, tail = " " * piece.startswith(" "), " " * (piece.endswith(" ") and len(piece) > 1)
        plain = head + _SYMBOL.sub(lambda symbol: f"${symbol[0]}$", escape(piece)) + tail
        out.append(rf"~\cite{{{piece}}}" if number % 2 else plain)
    return "".join(out)


@cache
def _environment() -> Environment:
    # Names come from outside. The text is escaped where it becomes TeX or HTML.
    environment = wording.template_environment("text", finalize=Cited.plain)
    environment.globals |= {
        "counted": wording.counted,
        "listed": wording.listed,
        "most_named": NAMED,
        "p_equals": lambda p: f"p {'' if (text := wording.p_text(p)).startswith('<') else '= '}{text}",
        "p_text": wording.p_text,
        "percent": lambda share: f"{100 * share:g}%",
        "spanned": wording.spanned,
        "verb": wording.verb,
    }
    environment.filters["effect"] = lambda value: f"{value:.{0 if value >= 10 else 1 if value >= 1 else 2}f}"
    return environment
