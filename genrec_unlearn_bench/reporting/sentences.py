"""Sentences from the templates in ``leaderboard/templates/text``, filled with facts; as plain text and as LaTeX.

In a template an empty line ends a sentence, and other line breaks are spaces.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from numpy import format_float_positional

from genrec_unlearn_bench.reporting.facts import Short
from genrec_unlearn_bench.reporting.latex_text import escape
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.wording import counted, listed, p_text, spanned, verb

if TYPE_CHECKING:
    from jinja2 import Environment

NAMED = 6
"""Places that are named when runs are missing or diverged; more are counted."""
_OPEN, _CLOSE = "\ue000", "\ue001"
"""Around the keys of a citation in a sentence; private characters, taken out of all names."""
_CITATION = re.compile(f"{_OPEN}([^{_CLOSE}]*){_CLOSE}")
_SYMBOL = re.compile(r"(?<=paired )t\b|\bt(?=-test| interval)|(?<=attainable )p\b")


class Cited(str):
    """Text with citations in it."""

    @classmethod
    def keys(cls, keys: tuple[str, ...]) -> Cited:
        """The citation of some keys of the bibliography."""
        return cls(f"{_OPEN}{','.join(keys)}{_CLOSE}" if keys else "")

    @staticmethod
    def plain(value: object) -> str:
        """Text in which nothing is taken for a citation."""
        return re.sub(f"[{_OPEN}{_CLOSE}]", "", str(value))


def sentences(template: str, **context: Any) -> tuple[str, ...]:
    """The sentences of a template.

    Args:
        context: Values, and under ``name`` a function that makes the shown form of a task, backbone or row
            (``name("task", "sports-brand")``).
    """
    name: Callable[[str, str], str] = context["name"]

    def named(labels: tuple[str, ...], kind: str = "row") -> str:
        return listed(name(kind, label) for label in labels)

    text = _environment().get_template(template).render({"named": named, **context})
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


def _place(context: Mapping[str, Any], short: Short) -> str:
    name, each = context["name"], " each" if len(short.labels) > 1 else ""
    labels = listed(name("row", label) for label in short.labels)
    where = f"{name('task', short.task)} with {name('backbone', short.backbone)}"
    return f"{labels} on {where} ({short.n} of {short.of}{each})"


def amount(measure: Measure, low: float, high: float) -> str:
    """0.012 to 0.03 for forget HR@10: two significant digits, without an exponent."""
    first, last = (format_float_positional(value, precision=2, fractional=False, trim="-") for value in (low, high))
    unit = f" {measure.spec.unit}" if measure.spec.unit in ("seconds", "MiB", "nats", "bits") else ""
    return f"{first if first == last else f'{first} to {last}'}{unit} for {measure.title}"


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
    environment.filters |= {
        "place": jinja2.pass_context(_place),
        "effect": lambda value: f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 1 else f"{value:.2f}",
    }
    return environment
