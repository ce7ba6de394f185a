"""A small catalogue with dated interactions, on disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.catalogue import DatasetSpec, FileSpec, SplitName
from tests.data.formats.files import write, write_lines

ITEMS, USERS = 12, 20


def write_shop(folder: Path, *, sequences: bool = False) -> Path:
    """Items of three brands, users with six items each; item 11 is never bought."""
    rng = np.random.default_rng(3)
    records: list[dict[str, object]] = [
        {"item_id": f"i{n}", "title": f"Thing {n}", "brand": ["Acme", "ACME", "Zeta"][n % 3], "price": f"${n}.50"}
        for n in range(ITEMS)
    ]
    records[4] = {"item_id": "i4", "price": -1}
    write_lines(folder / "items.jsonl", records)
    lines = []
    for user in range(USERS):
        chosen = rng.choice(ITEMS - 1, size=6, replace=False)
        if sequences:
            lines.append(f"u{user}\t" + " ".join(f"i{item}" for item in chosen))
        else:
            lines += [f"u{user}\ti{item}\t{time}" for item, time in zip(chosen, rng.integers(0, 99, 6), strict=True)]
    if not sequences:
        lines = ["user\titem\ttimestamp", *lines, lines[0]]
    write(folder / ("sequences.tsv" if sequences else "interactions.tsv"), "\n".join(lines) + "\n")
    return folder


def shop_spec(split: SplitName = "global-time", *, log: str = "interactions", k_core: int = 0) -> DatasetSpec:
    """The specification that goes with ``write_shop``."""
    return DatasetSpec(
        name="shop",
        title="A shop",
        format="folder",
        split=split,
        k_core=k_core,
        files=(FileSpec(role="items", names=("items.jsonl",)), FileSpec(role=log, names=(f"{log}.tsv",))),
    )
