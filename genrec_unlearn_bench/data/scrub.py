"""Remove a task's concept from item texts, for the oracle's own tokenizer and for scrubbed similarity (protocol §2).

Dropping the brand field is not enough: in MiniOneRec's Industrial files 2,708 of 3,686 titles carry their brand's name.

- **brand**: names and tokens of the concept's brands leave title, description and text of every item, whole words only
  and whatever their case; the brand field of concept items is emptied, that of retained ones stays. Ordinary words must
  survive: what is removed where follows from how common it is among the other items (``removed_words``).
- **attribute**: the chosen values leave the field of concept items (with ``path``, all below them too; retained items
  keep theirs), and the names that leave the field leave the texts by the same rules. A name that retained items have as
  well, as one below a chosen path can be, leaves its own items' texts alone; one without a letter, the field alone.
- **price**: amounts of money leave the texts of every item. Bands of another field leave this field of concept items.
- **item**, **interaction**: nothing is removed, as these share no words; the oracle keeps concept items out of its
  tokenizer's training instead.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from genrec_unlearn_bench.data.attributes import BETWEEN, Entry, item_entries, value_key, without_values
from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.data.fields import clean_brand
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.tasks import AttributeRule

Phrase = tuple[str, ...]
"""A name as its words, case folded."""

COMMON_NAME = 0.05
"""A brand name that more of the other items' texts than this contain is an ordinary word ("generic", "tape")."""
COMMON_TOKEN = 0.005
"""A part of a name that more of the other items' texts than this contain is an ordinary word ("supply", "tools")."""
SHORTEST_TOKEN = 3
"""Parts of a name shorter than this ("3", "co") are never removed by themselves."""

_WORD = re.compile(r"[^\W_]+")
_OWNER = re.compile(r"(?:['’]s\b)?\s*[®™©]*", re.IGNORECASE)
_TRIM = re.compile(r"^[\s,;:.|/–—-]+|[\s,;:|/–—-]+$")
_SPACES = re.compile(r"\s{2,}")
_EMPTY_BRACKETS = re.compile(r"\(\s*\)|\[\s*\]")

_AMOUNT = r"\d{1,3}(?:[,.]\d{3})+(?:[.,]\d{1,2})?|\d+(?:[.,]\d{1,2})?"
_PRICE = re.compile(
    rf"(?:(?:us|ca|au|c|a)?[$€£¥]|\b(?:usd|eur|gbp|cad|aud)\s?)\s?(?:{_AMOUNT})\b"
    rf"|(?<![\w.,])(?:{_AMOUNT})\s?(?:[€£¥]|(?:usd|eur|gbp|dollars?|euros?|bucks|cents?)\b)",
    re.IGNORECASE,
)


class RemovedWords(NamedTuple):
    """Words to remove for a set of names."""

    everywhere: frozenset[Phrase]
    """Phrases taken out of every item's text."""
    own: Mapping[str, frozenset[Phrase]]
    """By name, taken out of its own items' texts alone: ordinary words and parts of a retained name."""


def scrubbed_items(items: ItemTable, split: ForgetSplit) -> ItemTable:
    """The item table with the concept taken out of its texts. Prices, ids and categories that are no concept stay."""
    if split.kind is ConceptKind.BRAND:
        return _without_names(items, split, brand_names(items, split), _emptied(items, split, "brand"))
    rule = split.manifest.attribute
    if rule is not None and split.kind is ConceptKind.PRICE:
        return _emptied(items, split, rule.field)
    if rule is not None:
        names, fields = _without_values(items, split, rule)
        return _without_names(items, split, names, fields)
    if split.kind is ConceptKind.PRICE:
        columns = (items.titles, items.descriptions, items.texts)
        titles, descriptions, texts = (tuple(map(without_prices, column)) for column in columns)
        return replace(items, titles=titles, descriptions=descriptions, texts=texts)
    return items


class Names(NamedTuple):
    """What the concept items are called, and what the retained ones are."""

    own: Mapping[int, tuple[str, ...]]
    """By concept item, the names that leave its texts."""
    spellings: Mapping[str, set[Phrase]]
    """By name."""
    kept: frozenset[Phrase]
    """Names that retained items have as well."""
    retained: frozenset[str]
    """Words in names of retained items."""


def brand_names(items: ItemTable, split: ForgetSplit) -> Names:
    """The names of the concept's brands, in every spelling that the catalogue has."""
    marked, others = np.flatnonzero(split.items), np.flatnonzero(~split.items)
    spellings: dict[str, set[Phrase]] = {}
    for brand, raw in {(items.brands[row], items.brands_raw[row]): None for row in marked}:
        spellings.setdefault(brand, set()).update({_words(brand), _words(clean_brand(raw))} - {()})
    retained = frozenset(word for brand in {items.brands[row] for row in others} for word in _words(brand))
    return Names({row: (items.brands[row],) for row in marked.tolist()}, spellings, frozenset(), retained)


def _without_values(items: ItemTable, split: ForgetSplit, rule: AttributeRule) -> tuple[Names, ItemTable]:
    """The names that leave the field of concept items, and the items with the field that is left."""
    chosen = frozenset(value_key(name, rule) for name in split.manifest.concepts)
    listed = item_entries(items, rule)
    own: dict[int, tuple[str, ...]] = {}
    left: dict[int, tuple[Entry, ...]] = {}
    for row in np.flatnonzero(split.items).tolist():
        parted = [without_values(entry, chosen) for entry in listed[row]]
        left[row] = tuple(stay for stay, _ in parted if stay)
        own[row] = tuple(dict.fromkeys(name for _, gone in parted for name in gone if _has_letter(name)))
    others = {name for row in np.flatnonzero(~split.items) for entry in listed[row] for name in entry}
    kept = frozenset(map(_words, others))
    spellings = {name: {_words(name)} - {()} for names in own.values() for name in names}
    called = Names(own, spellings, kept, frozenset(word for name in kept for word in name))
    return called, _with_field(items, rule, left)


def _emptied(items: ItemTable, split: ForgetSplit, field: str) -> ItemTable:
    return _with_field(items, AttributeRule(field=field), dict.fromkeys(np.flatnonzero(split.items).tolist(), ()))


def _with_field(items: ItemTable, rule: AttributeRule, left: Mapping[int, tuple[Entry, ...]]) -> ItemTable:
    """The items with these entries in the field of some rows."""
    joined = {row: tuple(BETWEEN.join(entry) for entry in entries) for row, entries in left.items()}
    if rule.path and rule.field == "categories":
        joined = {row: entries[0] if entries else () for row, entries in left.items()}

    def texts(column: Sequence[str]) -> tuple[str, ...]:
        between = rule.split or ""
        return tuple(between.join(joined[row]) if row in joined else text for row, text in enumerate(column))

    if rule.field in ("brand", "title", "description", "text"):
        columns = ("brands", "brands_raw") if rule.field == "brand" else (f"{rule.field}s",)
        changed: dict[str, Any] = {name: texts(getattr(items, name)) for name in columns}
        return replace(items, **changed)
    between = rule.split
    lists = joined if between is None else {row: (between.join(own),) if own else () for row, own in joined.items()}
    values = tuple(lists.get(row, own) for row, own in enumerate(items.values(rule.field)))
    if rule.field == "categories":
        return replace(items, categories=values)
    return replace(items, attributes={**items.attributes, rule.field: values})


def without_prices(text: str) -> str:
    """The text without amounts of money ("$12.99", "EUR 5", "20 dollars"); bare numbers stay."""
    return _tidied(_PRICE.sub(" ", text)) if _PRICE.search(text) else text


def removed_words(items: ItemTable, split: ForgetSplit, called: Names) -> tuple[RemovedWords, tuple[BoolArray, ...]]:
    """Choose the words to remove for the concept's names; for titles, descriptions and texts, [N] whether they may
    contain one.

    A whole name, in every spelling that the catalogue has, joined together as well ("Fisher-Price", "FisherPrice"), is
    removed everywhere if it has a letter and is not common among the other items. A part of a longer name is removed
    everywhere if it has three characters or more with a letter among them, is rare among the other items, and is no
    part of a retained item's name. The rest leaves the name's own items only; parts too short or without a letter stay.
    """
    names = {name: found | {("".join(phrase),) for phrase in found} for name, found in called.spellings.items()}
    whole = frozenset[Phrase]().union(*names.values())
    parts = {
        name: {(word,) for phrase in found for word in phrase if len(word) >= SHORTEST_TOKEN and _has_letter(word)}
        for name, found in names.items()
    }
    phrases = whole.union(*parts.values())
    firsts = frozenset(phrase[0] for phrase in phrases)
    # One pass over the catalogue: all that follows looks at the few texts that hold one of these words.
    columns = (items.titles, items.descriptions, items.texts)
    possible = tuple(np.array([not firsts.isdisjoint(_words(text)) for text in column], np.bool_) for column in columns)
    shares = _document_shares(items, ~split.items, possible, phrases)
    everywhere = {name for name in whole - called.kept if shares[name] <= COMMON_NAME and _has_letter("".join(name))}
    rare = (part for part in phrases - whole if shares[part] <= COMMON_TOKEN)
    everywhere.update(part for part in rare if part[0] not in called.retained)
    own = {name: frozenset((names[name] | parts[name]) - everywhere) for name in names}
    return RemovedWords(frozenset(everywhere), own), possible


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def _without_names(items: ItemTable, split: ForgetSplit, called: Names, fields: ItemTable) -> ItemTable:
    """``fields``, from which the concept has left the field itself, with the names out of all its texts."""
    words, possible = removed_words(items, split, called)
    shared = _by_first(words.everywhere)

    @cache
    def wanted(names: tuple[str, ...]) -> Mapping[str, tuple[Phrase, ...]]:
        own = _by_first({phrase for name in names for phrase in words.own[name]})
        # Without a copy of what is shared: thousands of brands would have thousands of it.
        both = {first: _by_first((*shared.get(first, ()), *found))[first] for first, found in own.items()}
        return ChainMap(both, shared)

    def column(texts: Sequence[str], rows: BoolArray) -> tuple[str, ...]:
        out = list(texts)
        for row in np.flatnonzero(rows).tolist():
            out[row] = _removed(out[row], wanted(called.own[row]) if row in called.own else shared)
        return tuple(out)

    titles, descriptions, texts = map(column, (fields.titles, fields.descriptions, fields.texts), possible)
    return replace(fields, titles=titles, descriptions=descriptions, texts=texts)


def _words(text: str) -> Phrase:
    if text.isascii():
        # Folding changes no character's kind here, so the whole text is folded at once.
        return tuple(_WORD.findall(text.lower()))
    return tuple(word.casefold() for word in _WORD.findall(text))


def _by_first(phrases: Iterable[Phrase]) -> dict[str, tuple[Phrase, ...]]:
    """Phrases by their first word, the longest first."""
    out: dict[str, list[Phrase]] = {}
    for phrase in sorted(phrases, key=lambda phrase: (-len(phrase), phrase)):
        out.setdefault(phrase[0], []).append(phrase)
    return {first: tuple(found) for first, found in out.items()}


def _document_shares(
    items: ItemTable, rows: BoolArray, possible: Sequence[BoolArray], phrases: Iterable[Phrase]
) -> dict[Phrase, float]:
    """Share of the marked items whose title, description or text contains each phrase."""
    wanted, counts = _by_first(phrases), Counter[Phrase]()
    columns = tuple(zip((items.titles, items.descriptions, items.texts), possible, strict=True))
    for row in np.flatnonzero(rows & np.logical_or.reduce(possible)):
        found: set[Phrase] = set()
        for words in (_words(texts[row]) for texts, holding in columns if holding[row]):
            for at, word in enumerate(words):
                found.update(phrase for phrase in wanted.get(word, ()) if words[at : at + len(phrase)] == phrase)
        counts.update(found)
    total = max(int(rows.sum()), 1)
    return {phrase: counts[phrase] / total for own in wanted.values() for phrase in own}


def _removed(text: str, wanted: Mapping[str, tuple[Phrase, ...]]) -> str:
    """The text without the phrases, words being compared case folded, whatever stands between them."""
    matches = list(_WORD.finditer(text))
    words = tuple(match.group().casefold() for match in matches)
    pieces: list[str] = []
    end = at = 0
    while at < len(words):
        phrase = next((phrase for phrase in wanted.get(words[at], ()) if words[at : at + len(phrase)] == phrase), None)
        if phrase is None:
            at += 1
            continue
        pieces.append(text[end : matches[at].start()])
        last = matches[at + len(phrase) - 1].end()
        owner = _OWNER.match(text, last)
        end = owner.end() if owner else last
        at += len(phrase)
        while at < len(words) and matches[at].start() < end:
            at += 1
    if not end:
        return text
    pieces.append(text[end:])
    return _tidied(" ".join(pieces))


def _tidied(text: str) -> str:
    return _TRIM.sub("", _SPACES.sub(" ", _EMPTY_BRACKETS.sub(" ", text)))
