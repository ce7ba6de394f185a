"""Text and BibTeX from outside made harmless and printable for pdflatex with T1 fonts and UTF-8 input.

Names come from files that strangers wrote. Nothing of them may run as TeX or stop it, and what pdflatex has no letter
for has to stay readable: it becomes its code, ``[U+1F600]``. A .bib file ends up as TeX in somebody's paper, so what a
submission brings is parsed, checked against a list of allowed commands and written anew, never passed on as it came.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise

from genrec_unlearn_bench.errors import ConfigError

_NAMES = "backslash asciicircum asciitilde less greater bar quotedbl asciigrave"
_SPECIAL = {character: rf"\text{name}{{}}" for character, name in zip('\\^~<>|"`', _NAMES.split(), strict=True)}
_SPECIAL |= {character: f"\\{character}" for character in "{}$&#%_"}
# After the \\ of the line before, these would be read as its arguments.
_SPECIAL |= {character: f"{{{character}}}" for character in "[]*"}
_LIGATURES = "-,'"
"""Two of a kind in a row would be printed as another character."""

_SYMBOLS = "↓↑→±×≤≥≈†αβγδεηθλμπρστφχωΓΔΘΛΣΦΩ"
_COMMANDS = (
    "downarrow uparrow rightarrow pm times leq geq approx dagger "
    "alpha beta gamma delta varepsilon eta theta lambda mu pi rho sigma tau varphi chi omega "
    "Gamma Delta Theta Lambda Sigma Phi Omega"
)
_MATHS = {letter: f"\\{name}" for letter, name in zip(_SYMBOLS, _COMMANDS.split(), strict=True)}
_MATHS |= {"−": "-", "⁺": "^{+}", "⁻": "^{-}"}

_LETTERS = frozenset(
    # Latin-1 without its controls, the no-break space and the soft hyphen.
    [chr(code) for code in range(0xA1, 0x100) if code != 0xAD]
    # Latin Extended-A and what else T1 and TS1 declare; found by setting every character (tests/reporting/latex).
    + [chr(c) for c in range(0x100, 0x180) if c not in (0x126, 0x127, 0x138, 0x13F, 0x140, 0x149, 0x166, 0x167, 0x17F)]
    + list("–—‘’‚“”„‡•…‰‹›€™ȘșȚțẞƒ")
)

SHOWN = 12
"""Codes shown of a run of characters without a letter."""


def escape(text: str) -> str:
    """TeX that prints ``text`` and does nothing else, on one line."""
    out: list[str] = []
    for known, run in groupby(unicodedata.normalize("NFC", " ".join(text.split())), lambda c: _one(c) is not None):
        if known:
            pairs = pairwise(["", *run])
            out += [("{}" if one == before and one in _LIGATURES else "") + (_one(one) or "") for before, one in pairs]
        else:
            codes = [f"{ord(character):04X}" for character in run]
            more = f" … {len(codes) - SHOWN} more" if len(codes) > SHOWN else ""
            out.append(f"{{[}}U+{' '.join(codes[:SHOWN])}{more}{{]}}")
    return "".join(out)


def printable(text: str) -> str:
    """The text with what pdflatex cannot print as codes, its commands untouched: for BibTeX that was checked."""
    out = []
    for character in unicodedata.normalize("NFC", text):
        plain = character in "\n\t" or " " <= character <= "~" or character in _LETTERS
        out.append(character if plain else _maths(character) or f"[U+{ord(character):04X}]")
    return "".join(out)


def shorten(text: str, width: int = 40) -> str:
    """The text in at most ``width`` characters, cut in its middle: the ends are what tells names apart."""
    text = " ".join(text.split())
    if len(text) <= width:
        return text
    head = (width - 1) * 2 // 3
    return f"{text[:head]}…{text[head + 1 - width :]}"


def label(text: str) -> str:
    """A name for ``\\label`` and ``\\ref``: letters, digits, hyphens and colons."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return "-".join(part for part in kept.split("-") if part) or "unnamed"


def _one(character: str) -> str | None:
    """TeX for one character; None where pdflatex has no letter for it."""
    if character in _SPECIAL:
        return _SPECIAL[character]
    if " " <= character <= "~" or (character in _LETTERS and character not in _MATHS):
        return character
    return _maths(character)


def _maths(character: str) -> str | None:
    return rf"\ensuremath{{{_MATHS[character]}}}" if character in _MATHS else None


LONGEST = 20_000
"""Characters of BibTeX that are read from one submission."""
COMMANDS = frozenset(
    {
        # Accents, letters of other alphabets, then what titles are set with.
        *"\"'`^~=.-&%$#_{}/,; uvHtcdbrkoOlLij",
        *["ss", "ae", "AE", "oe", "OE", "aa", "AA"],
        *["emph", "textit", "textbf", "textsc", "texttt", "textrm", "textsuperscript", "textendash", "url"],
    }
)
_AS_MISC = frozenset(("online", "software", "dataset"))
"""Types that BibTeX's own styles do not know."""
TYPES = _AS_MISC.union(
    ["article", "book", "booklet", "conference", "inbook", "incollection", "inproceedings", "manual"],
    ["mastersthesis", "misc", "phdthesis", "proceedings", "techreport", "unpublished"],
)
_PLAIN_FIELDS = frozenset(("url", "doi", "eprint", "issn", "isbn"))
_COMMAND = re.compile(r"\\([A-Za-z]+|.|$)", re.DOTALL)
_URL = re.compile(r"\\url\s*\{([^{}]*)\}")
_BARE = re.compile(r"(?<!\\)([%&#_])")

_GROUP = r"\{[^{}]*+\}"
for _ in range(5):
    # As BibTeX counts: a backslash does not hide a brace. Possessive, so that nothing is tried twice.
    _GROUP = rf"\{{(?:[^{{}}]|{_GROUP})*+\}}"
_BETWEEN = re.compile(r"(?:\s+|%[^\n]*)*+")
_HEAD = re.compile(r"@\s*(?P<kind>[A-Za-z]+)\s*\{\s*(?P<key>[A-Za-z0-9][A-Za-z0-9:._+/-]{0,99})(?=[\s,}])")
_FIELD = re.compile(
    rf'\s*,\s*(?P<name>[A-Za-z][A-Za-z-]*)\s*=\s*(?P<value>{_GROUP}|"(?:[^"{{}}]|{_GROUP})*+"|[0-9]+(?=[\s,}}]))'
)
_END = re.compile(r"\s*,?\s*\}")


@dataclass(frozen=True)
class BibEntry:
    """One entry; values without their outer braces."""

    kind: str
    key: str
    fields: Mapping[str, str]

    @property
    def keywords(self) -> tuple[str, ...]:
        """Things that the entry is cited for."""
        return tuple(part.strip() for part in self.fields.get("keywords", "").split(",") if part.strip())

    def text(self) -> str:
        """The entry as it is printed, without its keywords."""
        shown = {name: value for name, value in self.fields.items() if name != "keywords"}
        width = max((len(name) for name in shown), default=0)
        lines = [f"  {name:<{width}} = {{{value}}}" for name, value in shown.items()]
        return f"@{self.kind}{{{self.key},\n" + ",\n".join(lines) + "\n}"


def parse_bibtex(text: str, *, where: str, longest: int | None = LONGEST) -> tuple[BibEntry, ...]:
    """The entries of a text of at most ``longest`` characters. Raises ConfigError with all faults."""
    entries, faults = _read(text, longest)
    if faults:
        raise ConfigError(faults, where=where, hint="write plain BibTeX entries: @article{key, title = {…}, …}")
    return entries


def bibtex_faults(text: str) -> tuple[str, ...]:
    """Faults of a text of BibTeX; empty for a good one."""
    return tuple(_read(text, LONGEST)[1])


def _read(text: str, longest: int | None) -> tuple[tuple[BibEntry, ...], list[str]]:
    """The entries, and faults; reading ends at the first fault of the grammar."""
    out: dict[str, BibEntry] = {}
    faults: list[str] = []
    more, text = longest is not None and len(text) > longest, text[:longest]
    at = _after(_BETWEEN, text, 0)
    while at < len(text):
        head = _HEAD.match(text, at)
        if head is None:
            faults.append(f"no entry begins at {text[at : at + 40]!r}")
            break
        kind, key = head["kind"].lower(), head["key"]
        if kind not in TYPES:
            faults.append(f"@{kind} is no type of entry")
            break
        if key in out:
            faults.append(f"the key {key!r} is there twice")
        at = head.end()
        fields: dict[str, str] = {}
        while field := _FIELD.match(text, at):
            at = field.end()
            name, value = field["name"].lower(), field["value"]
            if name in fields:
                faults.append(f"{key}: two fields {name!r}")
            fields[name] = _checked(key, name, value if value.isdigit() else value[1:-1], faults)
        end = _after(_END, text, at)
        if end == at:
            faults.append(f"{key}: no field can be read at {text[at : at + 40]!r}")
            break
        faults += [f"{key}: the field {name!r} is missing" for name in ("title", "year") if not fields.get(name)]
        if not any(fields.get(name) for name in ("author", "editor", "organization")):
            faults.append(f"{key}: it has no author")
        out[key] = BibEntry("misc" if kind in _AS_MISC else kind, key, fields)
        at = _after(_BETWEEN, text, end)
    if not out and not faults:
        faults.append("there is no entry")
    return tuple(out.values()), [*faults, *([f"more than {LONGEST:,} characters of BibTeX"] if more else [])]


def _after(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()


def _checked(key: str, name: str, value: str, faults: list[str]) -> str:
    """The value on one line, with bare special characters escaped and odd ones as codes."""
    if name in ("crossref", "xdata"):
        faults.append(f"{key}: {name!r} is not followed; write the entry out")
    faults += [
        f"{key}: \\{found} is not allowed in {name!r}" for found in _COMMAND.findall(value) if found not in COMMANDS
    ]
    if re.search(r"(?<!\\)\$", value):
        faults.append(f"{key}: no formulas in {name!r}; write them in words")
    value = printable(" ".join(value.split()))
    if name in _PLAIN_FIELDS:
        return value
    # \\url needs a package, which the paper that the entry ends up in may not have.
    value = _URL.sub(lambda found: r"\texttt{" + found[1].replace("/", r"/\allowbreak{}") + "}", value)
    return re.sub(r"(?<!\\)\^(?!\{\})", r"\\textasciicircum{}", _BARE.sub(r"\\\1", value))
