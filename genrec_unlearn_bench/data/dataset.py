"""A dataset in memory, and its manifest: sources, counts, what was dropped, digest of the content."""

from __future__ import annotations

from dataclasses import dataclass

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.items import ItemTable
from genrec_unlearn_bench.data.source_files import SourceFile


class DatasetManifest(StrictModel):
    """Description of a prepared dataset. ``digest`` covers the canonical content, not the files."""

    name: str
    format: str
    """The reader: demo, folder, amazon-2018, amazon-2023, minionerec, letter."""
    split: str
    """global-time, as-given or leave-one-out."""
    k_core: int
    """0 where no k-core filtering was done here."""
    items: int
    users: int
    interactions: int
    train: int
    valid: int
    test: int
    with_brand: int
    with_price: int
    dropped: dict[str, int]
    """Reason -> number of lines, items or interactions that were left out."""
    sources: tuple[SourceFile, ...]
    digest: str
    """blake2b-256 over items, examples and split, in hex."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    """Items and next-item examples in three parts; item and user ids are row numbers."""

    name: str
    items: ItemTable
    train: Examples
    valid: Examples
    test: Examples
    manifest: DatasetManifest
