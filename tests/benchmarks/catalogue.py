"""What the speed tests decode: MiniOneRec's Industrial SIDs and test histories, or a table of the same shape."""

from __future__ import annotations

import ast
import csv
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import Histories

IntArray = NDArray[np.int64]

SIZES = (256, 256, 256)
OFFSETS = (3, 259, 515)
VOCABULARY = 772
SEPARATOR = 771
ITEMS, FIRST_CODES, PREFIXES, ROWS = 3686, 48, 2295, 4533
LENGTHS = (267, 412, 606, 1104, 672, 406, 265, 194, 130, 477)
"""Industrial's test rows by history length 1 ... 10 (longer ones are cut to 10 in the files)."""


@dataclass(frozen=True, eq=False)
class Catalogue:
    """Where it comes from, codes [N, 3], and histories in file order."""

    source: str
    codes: IntArray
    histories: Histories

    def tokens(self, histories: Histories) -> tuple[IntArray, NDArray[np.bool_]]:
        """Token ids [B, 3 T] and mask of right-padded histories."""
        known = histories.items >= 0
        ids = np.where(known[..., None], self.codes[histories.items] + np.asarray(OFFSETS), 0)
        return ids.reshape(len(ids), -1), np.repeat(known, 3, axis=1)


def industrial() -> Catalogue:
    """The real files where ``GENREC_UNLEARN_BENCH_DATA`` has them, else the synthetic table."""
    folder = os.environ.get("GENREC_UNLEARN_BENCH_DATA")
    found = sorted(Path(folder).glob("*/index/Industrial_and_Scientific.index.json")) if folder else []
    return _real(found[0].parent.parent, found[0]) if found else _synthetic()


def _real(folder: Path, index: Path) -> Catalogue:
    table = json.loads(index.read_text())
    codes = [[int(re.sub(r"\D", "", token)) for token in table[str(item)]] for item in range(len(table))]
    rows = next((folder / "test").glob("*.csv"))
    with rows.open(newline="") as lines:
        lists = [ast.literal_eval(row["history_item_id"])[-10:] for row in csv.DictReader(lines)]
    return Catalogue("Industrial", np.asarray(codes, dtype=np.int64), Histories.of(lists))


def _synthetic() -> Catalogue:
    """48 of 256 first codes, the largest with about 7 % of the items, 2,295 two-code prefixes, 3,686 items."""
    rng = np.random.default_rng(0)
    share = 1 / (np.arange(FIRST_CODES) + 7.0)
    first = rng.choice(256, FIRST_CODES, replace=False)
    prefixes: dict[tuple[int, int], None] = {(int(code), int(rng.integers(256))): None for code in first}
    while len(prefixes) < PREFIXES:
        prefixes[int(rng.choice(first, p=share / share.sum())), int(rng.integers(256))] = None
    heads = np.asarray(list(prefixes), dtype=np.int64)
    owner = np.concatenate([np.arange(PREFIXES), rng.integers(PREFIXES, size=ITEMS - PREFIXES)])
    codes = np.concatenate([heads[owner], rng.integers(256, size=(ITEMS, 1))], axis=1)[rng.permutation(ITEMS)]
    lengths = rng.permutation(np.repeat(np.arange(1, 11), LENGTHS))
    return Catalogue("synthetic", codes, Histories.of([rng.integers(ITEMS, size=n).tolist() for n in lengths]))
