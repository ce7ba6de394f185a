"""Remove a task's concept from item texts, for the oracle's own tokenizer and for scrubbed similarity (protocol §2).

Dropping the brand field is not enough: in MiniOneRec's Industrial files 2,708 of 3,686 titles carry their brand's name.

- **brand**: names and tokens of the concept's brands leave title, description and text of every item, whole words only
  and whatever their case; the brand field of concept items is emptied. Ordinary words must survive, so what is removed
  where follows from how common it is among the other items (``brand_words``). Brand fields of retained items stay, even
  where such a name contains a forgotten one.
- **category**: the concept's categories leave the category paths, and their names the texts, of concept items; other
  items' texts stay, as names of categories are ordinary words.
- **price**: amounts of money leave the texts of every item.
- **item**, **interaction**: nothing is removed. Single items and single interactions share no words; the oracle keeps
  concept items out of its tokenizer's training instead.
"""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray
from genrec_unlearn_bench.data.fields import clean_brand
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.data.items import ItemTable

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


@dataclass(frozen=True)
class BrandWords:
    """Words to remove for a set of brands."""

    everywhere: frozenset[Phrase]
    """Phrases taken out of every item's text."""
    own: Mapping[str, frozenset[Phrase]]
    """By brand, taken out of its own items' texts alone: ordinary words and parts of a retained brand's name."""


def scrubbed_items(items: ItemTable, split: ForgetSplit) -> ItemTable:
    """The item table with the concept taken out of its texts. Prices, ids and categories that are no concept stay."""
    if split.kind is ConceptKind.BRAND:
        return _without_brands(items, split)
    if split.kind is ConceptKind.CATEGORY:
        return _without_categories(items, split)
    if split.kind is ConceptKind.PRICE:
        columns = (items.titles, items.descriptions, items.texts)
        titles, descriptions, texts = (tuple(map(without_prices, column)) for column in columns)
        return replace(items, titles=titles, descriptions=descriptions, texts=texts)
    return items


def _without_categories(items: ItemTable, split: ForgetSplit) -> ItemTable:
    gone = frozenset(split.manifest.concepts)
    phrases = _by_first({_words(name) for name in gone} - {()})

    def column(texts: Sequence[str]) -> tuple[str, ...]:
        pairs = zip(texts, split.items, strict=True)
        return tuple(_removed(text, phrases) if own else text for text, own in pairs)

    titles, descriptions, texts = map(column, (items.titles, items.descriptions, items.texts))
    paths = tuple(tuple(name for name in path if name not in gone) for path in items.categories)
    return replace(items, titles=titles, descriptions=descriptions, texts=texts, categories=paths)


def without_prices(text: str) -> str:
    """The text without amounts of money ("$12.99", "EUR 5", "20 dollars"); bare numbers stay."""
    return _tidied(_PRICE.sub(" ", text)) if _PRICE.search(text) else text


def brand_words(items: ItemTable, split: ForgetSplit) -> tuple[BrandWords, tuple[BoolArray, ...]]:
    """Choose the words to remove for the concept's brands; for titles, descriptions and texts, [N] whether they may
    contain one.

    A brand's whole name, in every spelling that the catalogue has, joined together as well ("Fisher-Price",
    "FisherPrice"), is removed everywhere if it has a letter and is not common among the other items. A part of a longer
    name is removed everywhere if it has three characters or more with a letter among them, is rare among the other
    items, and is no part of a retained brand's name. The rest leaves the brand's own items only, except for parts that
    are too short or without a letter: these stay.
    """
    names: dict[str, set[Phrase]] = {}
    for brand, raw in {(items.brands[row], items.brands_raw[row]): None for row in np.flatnonzero(split.items)}:
        names.setdefault(brand, set()).update({_words(brand), _words(clean_brand(raw))} - {()})
    for found in names.values():
        found |= {("".join(name),) for name in found}
    whole = frozenset().union(*names.values())
    parts = {brand: {(word,) for name in found for word in name if _telling(word)} for brand, found in names.items()}
    phrases = whole.union(*parts.values())
    firsts = frozenset(phrase[0] for phrase in phrases)
    # One pass over the catalogue: all that follows looks at the few texts that hold one of these words.
    possible = tuple(_holding(column, firsts) for column in (items.titles, items.descriptions, items.texts))
    others = ~split.items
    shares = _document_shares(items, others, possible, phrases)
    retained = {word for brand in {items.brands[row] for row in np.flatnonzero(others)} for word in _words(brand)}
    everywhere = {name for name in whole if shares[name] <= COMMON_NAME and _has_letter("".join(name))}
    for part in frozenset().union(*parts.values()) - whole:
        if shares[part] <= COMMON_TOKEN and part[0] not in retained:
            everywhere.add(part)
    own = {brand: frozenset((names[brand] | parts[brand]) - everywhere) for brand in names}
    return BrandWords(frozenset(everywhere), own), possible


def _holding(texts: Sequence[str], words: frozenset[str]) -> BoolArray:
    return np.fromiter((not words.isdisjoint(_words(text)) for text in texts), dtype=np.bool_, count=len(texts))


def _telling(word: str) -> bool:
    return len(word) >= SHORTEST_TOKEN and _has_letter(word)


def _has_letter(word: str) -> bool:
    return any(character.isalpha() for character in word)


def _without_brands(items: ItemTable, split: ForgetSplit) -> ItemTable:
    words, possible = brand_words(items, split)
    shared = _by_first(words.everywhere)
    own = {brand: _joined(shared, phrases) for brand, phrases in words.own.items()}

    def column(texts: Sequence[str], rows: BoolArray) -> tuple[str, ...]:
        out = list(texts)
        for row in np.flatnonzero(rows):
            out[row] = _removed(out[row], own[items.brands[row]] if split.items[row] else shared)
        return tuple(out)

    def brands(column: Sequence[str]) -> tuple[str, ...]:
        return tuple("" if split.items[row] else name for row, name in enumerate(column))

    titles, descriptions, texts = map(column, (items.titles, items.descriptions, items.texts), possible)
    names, raw = brands(items.brands), brands(items.brands_raw)
    return replace(items, titles=titles, descriptions=descriptions, texts=texts, brands=names, brands_raw=raw)


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


def _joined(shared: dict[str, tuple[Phrase, ...]], phrases: Iterable[Phrase]) -> Mapping[str, tuple[Phrase, ...]]:
    """``shared`` and the phrases, without a copy of what is shared: thousands of brands would have thousands of it."""
    own = _by_first(phrases)
    return ChainMap({first: _by_first((*shared.get(first, ()), *found))[first] for first, found in own.items()}, shared)


def _document_shares(
    items: ItemTable, rows: BoolArray, possible: Sequence[BoolArray], phrases: Iterable[Phrase]
) -> dict[Phrase, float]:
    """Share of the marked items whose title, description or text contains each phrase."""
    wanted = _by_first(phrases)
    counts = {phrase: 0 for found in wanted.values() for phrase in found}
    columns = (items.titles, items.descriptions, items.texts)
    for row in np.flatnonzero(rows & np.logical_or.reduce(possible)):
        found: set[Phrase] = set()
        for texts, holding in zip(columns, possible, strict=True):
            if not holding[row]:
                continue
            words = _words(texts[row])
            for at, word in enumerate(words):
                found.update(phrase for phrase in wanted.get(word, ()) if words[at : at + len(phrase)] == phrase)
        for phrase in found:
            counts[phrase] += 1
    total = max(int(rows.sum()), 1)
    return {phrase: count / total for phrase, count in counts.items()}


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
