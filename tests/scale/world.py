"""A shop of any size in the format ``folder``: ``items.jsonl`` and ``interactions.tsv``, seeded and written in pieces.

    python -m tests.scale.world /tmp/shop --items 1000000 --users 1000000

Popularity of items and of brands follows Zipf's law, so that a few brands hold much of the log as in real shops. Words
are drawn from a vocabulary by Zipf's law as well; every item's title holds its brand. What is written depends on the
seed and on the size of the pieces alone, and no more than one piece is in memory.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

__all__ = ["World", "write_world"]

_ITEMS_AT_A_TIME = 50_000
_USERS_AT_A_TIME = 100_000
_VOCABULARY = 20_000
_SYLLABLES = ("ba", "ce", "di", "fo", "gu", "ka", "le", "mi", "no", "pu", "ra", "se", "ti", "vo", "zu", "xe")
_START, _DAY = 1_300_000_000, 86_400


@dataclass(frozen=True)
class World:
    """How large a shop is to be.

    Attributes:
        per_user: Mean number of interactions of a user, who has three at least.
        brands: Number of brands; None for one to every thirty items.
        popularity: Exponent of Zipf's law for items.
    """

    items: int
    users: int
    per_user: float = 15.0
    brands: int | None = None
    popularity: float = 0.9
    seed: int = 0

    @property
    def brand_count(self) -> int:
        """How many brands there are."""
        return max(self.items // 30, 5) if self.brands is None else self.brands


def write_world(world: World, folder: Path) -> None:
    """Write the two files into ``folder``, which is created if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "items.jsonl").open("w", encoding="utf-8") as stream:
        for lines in _item_lines(world):
            stream.writelines(lines)
    # Arrow puts names of columns in quotes whatever the style.
    options = csv.WriteOptions(delimiter="\t", quoting_style="none", include_header=False)
    with (folder / "interactions.tsv").open("wb") as log:
        log.write(b"user\titem\ttimestamp\n")
        with csv.CSVWriter(log, _LOG, write_options=options) as sink:
            for piece in _interactions(world):
                sink.write_table(piece)


_LOG = pa.schema([("user", pa.string()), ("item", pa.string()), ("timestamp", pa.int64())])


def _item_lines(world: World) -> Iterator[list[str]]:
    generator = np.random.default_rng([world.seed, 0])
    words = _names(_VOCABULARY, 3)
    brands = [name.title() for name in _names(world.brand_count, 4)]
    of_words, of_brands = _zipf(_VOCABULARY, 1.0), _zipf(world.brand_count, 1.0)
    for first in range(0, world.items, _ITEMS_AT_A_TIME):
        count = min(_ITEMS_AT_A_TIME, world.items - first)
        brand = _drawn(of_brands, count, generator)
        text = _drawn(of_words, count * 26, generator).reshape(count, 26)
        price = np.round(np.exp(generator.normal(3.0, 1.0, count)), 2)
        category = generator.integers(0, 200, count)
        yield [
            json.dumps(
                {
                    "item_id": f"i{first + row}",
                    "title": f"{brands[brand[row]]} {' '.join(words[w] for w in text[row, :6])} {first + row}",
                    "brand": brands[brand[row]],
                    "price": float(price[row]),
                    "categories": [f"C{category[row] // 20}", f"S{category[row]}"],
                    "description": " ".join(words[w] for w in text[row, 6:]),
                }
            )
            + "\n"
            for row in range(count)
        ]


def _interactions(world: World) -> Iterator[pa.Table]:
    generator = np.random.default_rng([world.seed, 1])
    popularity = _zipf(world.items, world.popularity)
    # Popularity has nothing to do with the order of the catalogue.
    places = np.random.default_rng([world.seed, 2]).permutation(world.items)
    for first in range(0, world.users, _USERS_AT_A_TIME):
        count = min(_USERS_AT_A_TIME, world.users - first)
        lengths = 3 + generator.geometric(1.0 / max(world.per_user - 2.0, 1.0), count) - 1
        users = np.repeat(np.arange(first, first + count), lengths)
        items = places[_drawn(popularity, len(users), generator)]
        begin = np.repeat(generator.integers(0, 1500, count), lengths)
        times = _START + _DAY * begin + generator.integers(0, 500 * _DAY, len(users))
        order = generator.permutation(len(users))
        yield pa.table(
            {
                "user": _prefixed("u", users[order]),
                "item": _prefixed("i", items[order]),
                "timestamp": pa.array(times[order]),
            }
        )


def _prefixed(letter: str, numbers: NDArray[np.int64]) -> pa.Array:
    return pc.binary_join_element_wise(letter, pc.cast(pa.array(numbers), pa.string()), "")


def _zipf(count: int, exponent: float) -> NDArray[np.float64]:
    """[count] distribution function."""
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    return np.asarray(np.cumsum(weights) / weights.sum())


def _drawn(distribution: NDArray[np.float64], size: int, generator: np.random.Generator) -> NDArray[np.int64]:
    places = np.searchsorted(distribution, generator.random(size), side="right")
    return np.minimum(places, len(distribution) - 1).astype(np.int64)


def _names(count: int, syllables: int) -> list[str]:
    """Different words: numbers written in syllables."""
    base = len(_SYLLABLES)
    out = []
    for number in range(count):
        # A factor without a common divisor spreads neighbours over the alphabet.
        rest = number * 40_503 % base**syllables if count <= base**syllables else number
        digits = []
        for _ in range(syllables):
            rest, digit = divmod(rest, base)
            digits.append(_SYLLABLES[digit])
        out.append("".join(digits) + (_SYLLABLES[rest % base] * (rest // base + 1) if rest else ""))
    if len(set(out)) < count:
        out = [f"{name}{number}" for number, name in enumerate(out)]
    return out


def main() -> None:
    """Write a world from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--users", type=int, default=10_000)
    parser.add_argument("--per-user", type=float, default=15.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    write_world(World(given.items, given.users, given.per_user, seed=given.seed), given.folder)


if __name__ == "__main__":
    main()
