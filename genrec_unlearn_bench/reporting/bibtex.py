"""Reads BibTeX of ours and of strangers: well-formed entries without commands that could do more than print.

A .bib file ends up as TeX in somebody's paper, so what a submission brings is parsed, checked against a list of
allowed commands and written anew, never passed on as it came.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.reporting.latex.escape import printable

__all__ = ["BibEntry", "bibtex_faults", "parse_bibtex"]

LONGEST = 20_000
"""Characters of BibTeX that are read from one submission."""
COMMANDS = frozenset(
    {
        # Accents, letters of other alphabets, then what titles are set with.
        *"\"'`^~=.-&%$#_{}/,; uvHtcdbrkoOlLij",
        *("ss", "ae", "AE", "oe", "OE", "aa", "AA"),
        *("emph", "textit", "textbf", "textsc", "texttt", "textrm", "textsuperscript", "textendash", "url"),
    }
)
TYPES = frozenset(
    (
        *("article", "book", "booklet", "conference", "inbook", "incollection", "inproceedings", "manual"),
        *("mastersthesis", "misc", "phdthesis", "proceedings", "techreport", "unpublished"),
        *("online", "software", "dataset"),
    )
)
_AS_MISC = frozenset(("online", "software", "dataset"))
"""Types that BibTeX's own styles do not know."""
_PLAIN_FIELDS = frozenset(("url", "doi", "eprint", "issn", "isbn"))
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9:._+/-]{0,99}")
_COMMAND = re.compile(r"\\([A-Za-z]+|.|$)", re.DOTALL)
_URL = re.compile(r"\\url\s*\{([^{}]*)\}")
_BARE = re.compile(r"(?<!\\)([%&#_])")


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

    def text(self, key: str = "") -> str:
        """The entry as it is printed, under another key where one is given; without its keywords."""
        shown = {name: value for name, value in self.fields.items() if name != "keywords"}
        width = max((len(name) for name in shown), default=0)
        lines = [f"  {name:<{width}} = {{{value}}}" for name, value in shown.items()]
        return f"@{self.kind}{{{key or self.key},\n" + ",\n".join(lines) + "\n}"


def parse_bibtex(text: str, *, where: str, longest: int | None = LONGEST) -> tuple[BibEntry, ...]:
    """The entries of a text of at most ``longest`` characters. Raises ConfigError with all faults."""
    reader = _Reader(text, longest)
    entries = reader.entries()
    if reader.faults:
        raise ConfigError(reader.faults, where=where, hint="write plain BibTeX entries: @article{key, title = {…}, …}")
    return entries


def bibtex_faults(text: str) -> tuple[str, ...]:
    """Faults of a text of BibTeX; empty for a good one."""
    reader = _Reader(text)
    reader.entries()
    return tuple(reader.faults)


class _Reader:
    """Recursive descent over one text; faults are collected and the entry they stand in is left out."""

    def __init__(self, text: str, longest: int | None = LONGEST) -> None:
        self.text = text[:longest]
        self.at = 0
        self.faults: list[str] = []
        if len(text) > len(self.text):
            self.faults.append(f"more than {longest:,} characters of BibTeX")

    def entries(self) -> tuple[BibEntry, ...]:
        out: dict[str, BibEntry] = {}
        while (start := self.text.find("@", self.at)) >= 0:
            self._between(self.text[self.at : start])
            self.at = start + 1
            try:
                entry = self._entry()
            except _Broken as fault:
                self.faults.append(str(fault))
                return tuple(out.values())
            if entry.key in out:
                self.faults.append(f"the key {entry.key!r} stands there twice")
            out[entry.key] = entry
        self._between(self.text[self.at :])
        if not out and not self.faults:
            self.faults.append("there is no entry")
        return tuple(out.values())

    def _between(self, text: str) -> None:
        """Between entries only comments may stand, a line each."""
        rest = [line.strip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("%")]
        if rest:
            self.faults.append(f"text outside of an entry: {rest[0][:40]!r}")

    def _entry(self) -> BibEntry:
        kind = self._matching(r"[A-Za-z]+", "a type after @").lower()
        self._skip("{")
        if kind not in TYPES:
            raise _Broken(f"@{kind} is no type of entry")
        key = self._matching(_KEY.pattern, f"a key of letters, digits and : . _ + / - in @{kind}")
        fields: dict[str, str] = {}
        while not self._took("}"):
            self._skip(",")
            if self._took("}"):
                break
            name = self._matching(r"[A-Za-z][A-Za-z-]*", f"the name of a field in {key}").lower()
            self._skip("=")
            value = self._value(key, name)
            if name in fields:
                self.faults.append(f"{key}: two fields {name!r}")
            if name in ("crossref", "xdata"):
                self.faults.append(f"{key}: {name!r} is not followed; write the entry out")
            fields[name] = self._checked(key, name, value)
        self.faults += [f"{key}: the field {name!r} is missing" for name in ("title", "year") if not fields.get(name)]
        if not any(fields.get(name) for name in ("author", "editor", "organization")):
            self.faults.append(f"{key}: it has no author")
        return BibEntry("misc" if kind in _AS_MISC else kind, key, fields)

    def _value(self, key: str, name: str) -> str:
        if self._took("{"):
            return self._until("}", key, name)
        if self._took('"'):
            return self._until('"', key, name)
        return self._matching(r"[0-9]+", f"{{…}}, quotes or a number for {name} in {key}")

    def _until(self, end: str, key: str, name: str) -> str:
        depth = 0
        start = self.at
        while self.at < len(self.text):
            character = self.text[self.at]
            self.at += 1
            # As BibTeX counts: a backslash does not hide a brace.
            if character == end and depth == 0:
                return self.text[start : self.at - 1]
            if character in "{}":
                depth += 1 if character == "{" else -1
            if depth < 0:
                break
        raise _Broken(f"{key}: the braces of {name!r} do not match")

    def _checked(self, key: str, name: str, value: str) -> str:
        """The value on one line, with bare special characters escaped and odd ones as codes."""
        for found in _COMMAND.findall(value):
            if found not in COMMANDS:
                self.faults.append(f"{key}: \\{found} is not allowed in {name!r}")
        if re.search(r"(?<!\\)\$", value):
            self.faults.append(f"{key}: no formulas in {name!r}; write them in words")
        value = printable(" ".join(value.split()))
        if name in _PLAIN_FIELDS:
            return value
        # \\url needs a package, which the paper that the entry ends up in may not have.
        value = _URL.sub(lambda found: r"\texttt{" + found[1].replace("/", r"/\allowbreak{}") + "}", value)
        return re.sub(r"(?<!\\)\^(?!\{\})", r"\\textasciicircum{}", _BARE.sub(r"\\\1", value))

    def _took(self, wanted: str) -> bool:
        self._blank()
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def _skip(self, wanted: str) -> None:
        if not self._took(wanted):
            raise _Broken(f"{wanted!r} is missing before {self.text[self.at : self.at + 20]!r}")

    def _matching(self, pattern: str, what: str) -> str:
        self._blank()
        found = re.compile(pattern).match(self.text, self.at)
        if found is None:
            raise _Broken(f"{what} is missing before {self.text[self.at : self.at + 20]!r}")
        self.at = found.end()
        return found.group()

    def _blank(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1


class _Broken(Exception):
    """Reading cannot go on behind this fault."""
