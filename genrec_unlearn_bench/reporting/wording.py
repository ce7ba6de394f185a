"""How numbers, lists and names are written in every format.

Six significant digits in files, a column's decimals in tables. Names come from other people's records: what would
format, link, compute or steer in markdown, a spreadsheet or a terminal has to arrive as plain text.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import yaml

from genrec_unlearn_bench.registry import methods

if TYPE_CHECKING:
    from jinja2 import Environment


def finite(value: float) -> float | None:
    """The number, None where it is not finite."""
    return float(value) if math.isfinite(value) else None


def six(value: float | None) -> float | None:
    """The number with six significant digits; None for what is not a finite number, which neither JSON nor CSV has."""
    if value is None or not math.isfinite(value):
        return None
    # -0.0 is no number that a reader expects.
    return float(f"{value:.6g}") or 0.0


def fields(found: object, *names: str) -> dict[str, Any]:
    """Attributes as documents have them, numbers with six significant digits."""
    values = {name: getattr(found, name) for name in names}
    return {name: six(value) if isinstance(value, float) else value for name, value in values.items()}


def fixed(value: float, decimals: int) -> str:
    """The number with a column's decimals, never ``-0.0000``."""
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


def bare(number: str) -> str:
    """Without the zero before the point where two decimals follow, for narrow columns: ``.0790``, ``-.0012``."""
    return re.sub(r"(?<![0-9])0(?=\.[0-9]{2})", "", number)


def p_text(p: float | None) -> str:
    """A p-value for reading: three decimals, ``< .001`` below, never 0."""
    if p is None:
        return "–"
    return "< .001" if p < 0.001 else f"{p:.3f}".lstrip("0") if p < 0.9995 else "1"


_SMALL = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def counted(number: int, noun: str, plural: str = "", *, words: bool = False) -> str:
    """1 seed, 5 seeds; with ``words``, small numbers are written out."""
    shown = _SMALL[number] if words and number < len(_SMALL) else f"{number:,}"
    return f"{shown} {noun if number == 1 else plural or noun + 's'}"


def spanned(span: tuple[float, float]) -> str:
    """16, or 16 to 18."""
    low, high = (f"{value:g}" for value in span)
    return low if low == high else f"{low} to {high}"


def verb(number: int, singular: str, plural: str) -> str:
    """is or are, was or were, has or have."""
    return singular if number == 1 else plural


def listed(parts: Iterable[str]) -> str:
    """a, b and c."""
    *most, last = list(parts) or [""]
    return f"{', '.join(most)} and {last}" if most else last


_MARKDOWN = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"} | {sign: f"\\{sign}" for sign in "\\`*_{}[]|#~$"})
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""What a spreadsheet takes for the begin of a formula, full-width forms included (OWASP, CSV injection)."""
_INVISIBLE = frozenset(("Cc", "Cf", "Cs", "Co", "Zl", "Zp"))


def visible(text: str) -> str:
    """Control, format and private characters (ANSI escapes, text direction, zero width) shown by their number.

    Line breaks and tabs become spaces, as a name is one line. A joiner between two visible characters stays: emoji
    and several scripts need it.
    """
    if text.isascii() and text.isprintable():
        return text
    out = []
    for place, character in enumerate(text):
        if character in "\t\n\r":
            out.append(" ")
        elif unicodedata.category(character) in _INVISIBLE and not _joins(text, place):
            out.append(f"⟨U+{ord(character):04X}⟩")
        else:
            out.append(character)
    return "".join(out)


def _joins(text: str, place: int) -> bool:
    return text[place] in "\u200c\u200d" and 0 < place < len(text) - 1 and not text[place - 1].isascii()


def markdown_text(text: str) -> str:
    """Text that markdown (GitHub's, tables included) shows as it is: no formatting, HTML, link, mention or formula."""
    # Bare addresses become links and names after a lone @ mentions, without any bracket; HR@10 is neither.
    out = re.sub(r"(?<!\w)@", "&#64;", visible(text).translate(_MARKDOWN))
    return out.replace("://", ":&#47;/").replace("www.", "www&#46;").replace("WWW.", "WWW&#46;")


def csv_text(text: str) -> str:
    """Text that no spreadsheet computes: a leading apostrophe where it begins as a formula does.

    Not for our own numbers, which may begin with a minus.
    """
    shown = visible(text)
    return f"'{shown}" if text.lstrip(" \u00a0").startswith(_FORMULA) or text.startswith(_FORMULA) else shown


@cache
def variants() -> dict[str, str]:
    """The method that each known variant belongs to."""
    return {name: entry.variant_of for name, entry in methods().items() if entry.variant_of}


def task_title(task: str) -> str:
    """``Industrial, brand`` for ``industrial-brand``; as other titles, the name where none is listed.

    Titles are what papers print in place of ids (``leaderboard/titles.yaml``). What follows a name in brackets, which
    tells it from others of that name, stays.
    """
    name, bracket, rest = task.partition(" (")
    dataset, _, kind = name.rpartition("-")
    known = _titles()["datasets"]
    shown = f"{known[dataset]}, {kind}" if dataset in known else name
    return shown + bracket + rest


def backbone_title(backbone: str) -> str:
    """``TIGER`` for ``tiger``."""
    name, bracket, rest = backbone.partition(" (")
    return _titles()["backbones"].get(name, name) + bracket + rest


def row_title(label: str) -> str:
    """``NPO, slow`` for the variant ``npo-slow``."""
    name, bracket, rest = label.partition(" (")
    known = _titles()["methods"]
    parent = variants().get(name, "")
    if parent in known and name.startswith(parent) and name not in known:
        variant = name.removeprefix(parent)
        shown = known[parent] + (f", {variant[1:].replace('-', ' ')}" if variant.startswith("-") else variant)
    else:
        shown = known.get(name, name)
    return shown + bracket + rest


def declared_controls() -> frozenset[str]:
    """Rows that count as controls although no method's source says so."""
    return frozenset(_titles()["controls"])


@cache
def _titles() -> Mapping[str, Mapping[str, str]]:
    content: Mapping[str, Mapping[str, str]] = yaml.safe_load(leaderboard_text("titles.yaml"))
    return content


def leaderboard_text(*parts: str) -> str:
    """The text of a file in ``leaderboard/``."""
    return resources.files("genrec_unlearn_bench.leaderboard").joinpath(*parts).read_text(encoding="utf-8")


def template_environment(folder: str, **options: Any) -> Environment:
    """Templates of a folder of ``leaderboard/templates``; a name that a template lacks is a fault."""
    import jinja2

    options = {"undefined": jinja2.StrictUndefined, "trim_blocks": True, "lstrip_blocks": True, **options}
    loader = jinja2.FunctionLoader(lambda name: leaderboard_text("templates", folder, name))
    return jinja2.Environment(loader=loader, **options)  # noqa: S701 - only pages are HTML; they switch escapes on
