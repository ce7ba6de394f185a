"""Sentences from the templates in ``leaderboard/templates/text``, and with them the notes below a table.

A number without its notes says more than was measured, so every format prints them. LaTeX prints fewer, in a paper's
signs and names; the paragraph on the statistics says the rest there. In a template an empty line ends a sentence, and
other line breaks are spaces.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from numpy import format_float_positional

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Mark
from genrec_unlearn_bench.reporting.board import CORE
from genrec_unlearn_bench.reporting.facts import Short, facts
from genrec_unlearn_bench.reporting.latex_text import escape, shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS, Measure
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import DIVERGED, EQUIVALENCE, SIGNS, Entry, Table
from genrec_unlearn_bench.reporting.wording import (
    backbone_title,
    counted,
    listed,
    p_text,
    row_title,
    spanned,
    task_title,
    verb,
)

if TYPE_CHECKING:
    from jinja2 import Environment

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
_TITLES = {"row": row_title, "task": task_title, "backbone": backbone_title}

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the keys of a citation in a sentence; private characters, taken out of all names."""
_CITATION = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_SYMBOL = re.compile(r"(?<=paired )t\b|\bt(?=-test| interval)|(?<=attainable )p\b")


def notes(table: Table, *, best: str = "Bold", second: str = "italic") -> tuple[str, ...]:
    """Every sentence below a table, in reading order; names in them are not escaped.

    Args:
        best, second: How the format shows the two sets.
    """
    return sentences("notes.txt", **_notes_context(table, {**_TEXT_SIGNS, "best": best, "second": second}))


def legend(table: Table, *, best: str, second: str) -> tuple[str, ...]:
    """Those of the notes that say what the signs in the table mean."""
    return sentences("legend.txt", **_notes_context(table, {**_TEXT_SIGNS, "best": best, "second": second}))


def latex_notes(table: Table) -> tuple[str, ...]:
    """Notes below a LaTeX table, as TeX: the marks that occur in it, seeds, gaps, and the protocol."""
    return tuple(map(in_latex, sentences("notes.txt", **_notes_context(table, _LATEX_SIGNS, brief=True))))


def _notes_context(table: Table, signs: dict[str, str], *, brief: bool = False) -> dict[str, Any]:
    found = facts([table])

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
        "baselines": listed(name("row", label) for label in found.baselines or (found.protocol.baseline,)),
        "oracle": name("row", found.protocol.oracle),
        "suite": suite if suite != CORE else "",
        "core": CORE,
        "several": len(found.blocks) > 1,
        "unmarked": [(reasons, [place(block) for block in blocks]) for reasons, blocks in found.unmarked.items()],
        "detectable": [f"{number:.2g} on {measure.title}" for measure, number in detectable if number is not None],
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
        """Text in which nothing is taken for a citation."""
        return re.sub(f"[{_OPEN}{_CLOSE}]", "", str(value))


def amount(measure: Measure, low: float, high: float) -> str:
    """0.012 to 0.03 for forget HR@10: two significant digits, without an exponent."""
    first, last = (format_float_positional(value, precision=2, fractional=False, trim="-") for value in (low, high))
    unit = f" {measure.spec.unit}" if measure.spec.unit in ("seconds", "MiB", "nats", "bits") else ""
    return f"{first if first == last else f'{first} to {last}'}{unit} for {measure.title}"


def sentences(template: str, **context: Any) -> tuple[str, ...]:
    """The sentences of a template. In the context, ``name(kind, text)`` is how a task, backbone or row is shown."""
    found, name = context["f"], context["name"]

    def named(labels: Sequence[str], kind: str = "row") -> str:
        return listed(name(kind, label) for label in labels)

    def place(short: Short) -> str:
        each = " each" if len(short.labels) > 1 else ""
        where = f"{name('task', short.task)} with {name('backbone', short.backbone)}"
        return f"{named(short.labels)} on {where} ({short.n} of {short.of}{each})"

    given = {
        "named": named,
        "protocol": found.protocol,
        "fewer": list(map(place, found.fewer)),
        "fewer_rows": {label for short in found.fewer for label in short.labels},
        "diverged": list(map(place, found.diverged)),
    }
    text = _environment().get_template(template).render(given | context)
    parts = (" ".join(part.split()) for part in re.split(r"\n\s*\n", text))
    return tuple(re.sub(r" (?=[.;,](?: |$))", "", part) for part in parts if part)


def without_citations(sentence: str) -> str:
    return _CITATION.sub("", sentence)


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
    import jinja2

    folder = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "text"
    environment = jinja2.Environment(  # noqa: S701 - plain text, escaped where it becomes TeX, markdown or HTML
        loader=jinja2.FunctionLoader(lambda name: (folder / name).read_text(encoding="utf-8")),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Names come from outside; only ``Cited`` may hold citations.
        finalize=lambda value: value if isinstance(value, Cited) else Cited.plain(value),
    )
    environment.globals |= {
        "counted": counted,
        "listed": listed,
        "most_named": NAMED,
        "p_equals": lambda p: f"p {p_text(p)}" if p_text(p).startswith("<") else f"p = {p_text(p)}",
        "p_text": p_text,
        "percent": lambda share: f"{100 * share:g}%",
        "spanned": spanned,
        "verb": verb,
    }
    environment.filters["effect"] = lambda value: f"{value:.{0 if value >= 10 else 1 if value >= 1 else 2}f}"
    return environment
