"""Small datasets for tests of tasks: columns as one pleases, seeded interactions, split by time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest
from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.splits import SplitParts, global_time


def item_table(
    count: int,
    *,
    titles: Sequence[str] | None = None,
    descriptions: Sequence[str] | None = None,
    texts: Sequence[str] | None = None,
    brands: Sequence[str] | None = None,
    brands_raw: Sequence[str] | None = None,
    prices: Sequence[float] | None = None,
    categories: Sequence[tuple[str, ...]] | None = None,
) -> ItemTable:
    empty = ("",) * count
    named = tuple(brands or empty)
    return ItemTable(
        ids=tuple(f"i{row}" for row in range(count)),
        titles=tuple(titles or (f"Thing {row}" for row in range(count))),
        descriptions=tuple(descriptions or empty),
        brands=named,
        brands_raw=tuple(brands_raw or named),
        prices=np.full(count, np.nan) if prices is None else np.asarray(prices, dtype=np.float64),
        categories=((),) * count if categories is None else tuple(categories),
        texts=tuple(texts or empty),
    )


def dataset(items: ItemTable, *, users: int = 60, length: int = 10, seed: int = 0, skew: float = 0.0) -> Dataset:
    """Users with ``length`` random distinct items each (``skew`` > 0 prefers early rows), at random times."""
    generator = np.random.default_rng(seed)
    weights = (1.0 + np.arange(len(items))) ** -skew
    rows = [
        generator.choice(len(items), size=min(length, len(items)), replace=False, p=weights / weights.sum())
        for _ in range(users)
    ]
    bought = np.concatenate(rows).astype(np.int64)
    owners = np.repeat(np.arange(users, dtype=np.int64), [len(row) for row in rows])
    return assembled(items, global_time(owners, bought, generator.permutation(len(bought)).astype(np.int64)))


def assembled(items: ItemTable, parts: SplitParts, name: str = "planted") -> Dataset:
    manifest = DatasetManifest(
        name=name,
        format="demo",
        split="global-time",
        k_core=0,
        items=len(items),
        users=0,
        interactions=0,
        train=len(parts.train),
        valid=len(parts.valid),
        test=len(parts.test),
        with_brand=sum(map(bool, items.brands)),
        with_price=int(np.isfinite(items.prices).sum()),
        dropped={},
        sources=(),
        digest="d" * 64,
    )
    return Dataset(name, items, parts.train, parts.valid, parts.test, manifest)


def outcome_digest(manifest: TaskManifest) -> str:
    """What was drawn, whatever the dataset's own digest is."""
    drawn = manifest.model_dump_json(include={"concepts", "forget_items", "forget_interactions", "counts"})
    return hashlib.blake2b(drawn.encode(), digest_size=8).hexdigest()
