"""Health report of a semantic-ID table: code usage, collisions, quantisation errors, purity of prefixes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.sids.table import SidTable, prefix_ids

_CHUNK = 65_536
"""Items whose distances to every codeword are in memory at once."""


class LevelHealth(StrictModel):
    """Usage of one level's codes."""

    level: int
    """From 1."""
    quantised: bool
    """False for the collision ordinal, and for the levels of a tree that hold ordinals and ends alone."""
    size: int
    used: int
    used_share: float
    perplexity: float
    """exp of the entropy of the codes' frequencies; ``size`` where all are used alike."""
    largest_share: float
    """Share of the items under the most frequent code."""
    prefixes: int
    """Distinct prefixes up to and including this level."""
    error: float | None
    """Mean squared residual after this level, as a share of the latents' variance; None without codebooks."""
    nearest_share: float | None
    """Share of items whose code is the nearest one: 1 but where collisions were resolved, items reassigned or the
    codebooks are surrogates. None without codebooks."""


class Collisions(StrictModel):
    """Items with equal codes."""

    groups: int
    items: int
    """Items in those groups."""
    excess: int
    """Items beyond the first of each group: N minus the distinct SIDs."""
    largest: int
    """Size of the largest group; 1 where nothing collides."""


class PrefixHealth(StrictModel):
    """Prefixes of one length, as far as they hold two or more items."""

    length: int
    shared: int
    """Prefixes with two or more items."""
    brand_pure: float | None
    """Share of those whose items with a brand, two or more, all have the same one. None without labels."""
    category_pure: float | None
    """The same for categories."""
    concept_shared: float | None
    """Share of concept items whose prefix of this length some retain item has too. None without a concept."""


class SidHealth(StrictModel):
    """The health report of one table."""

    items: int
    version: int
    levels: tuple[LevelHealth, ...]
    quantised_collisions: Collisions
    """On the quantised levels alone."""
    collisions: Collisions
    """On whole SIDs."""
    prefixes: tuple[PrefixHealth, ...]
    """Lengths 1 to the number of quantised levels."""
    tree: bool = False
    """Whether SIDs are a tree's: digit pieces or clusters, then an ordinal (if any) and an end."""

    def rows(self) -> list[tuple[str, str, str, str, str, str, str]]:
        """Level by level, for a table: level, codes used, perplexity, largest share, prefixes, error, nearest."""
        return [
            (
                f"{level.level}" if level.quantised else f"{level.level} ({'ends' if self.tree else 'ordinal'})",
                f"{level.used}/{level.size}",
                f"{level.perplexity:.1f}",
                f"{level.largest_share:.1%}",
                f"{level.prefixes}",
                "-" if level.error is None else f"{level.error:.3f}",
                "-" if level.nearest_share is None else f"{level.nearest_share:.1%}",
            )
            for level in self.levels
        ]


def health(
    table: SidTable,
    *,
    items_by_concept: BoolArray | None = None,
    brands: Sequence[str] | None = None,
    categories: Sequence[str] | None = None,
) -> SidHealth:
    """Make the report. Labels are one string an item, ``""`` where unknown; the concept is a mask [N]."""
    quantised = table.quantised_levels
    # A tree's ordinals and ends are no codes that two items can share in any sense.
    codes = np.concatenate([table.quantised_codes, table.codes[:, quantised:]], axis=1)
    sizes = (*table.quantised_sizes, *table.level_sizes[quantised:])
    whole, ids = prefix_ids(table.codes), prefix_ids(codes)
    errors, nearest = _quantisation(table)
    levels = []
    for level, (size, column) in enumerate(zip(sizes, codes.T, strict=True)):
        counts = np.bincount(column[column >= 0], minlength=size)
        shares = counts[counts > 0] / max(counts.sum(), 1)
        levels.append(
            LevelHealth(
                level=level + 1,
                quantised=level < quantised,
                size=size,
                used=len(shares),
                used_share=len(shares) / size,
                perplexity=float(np.exp(-(shares * np.log(shares)).sum())),
                largest_share=float(shares.max(initial=0.0)),
                prefixes=int((ids if level < quantised else whole)[:, level].max()) + 1,
                error=errors[level] if level < quantised else None,
                nearest_share=nearest[level] if level < quantised else None,
            )
        )
    return SidHealth(
        items=len(table),
        version=table.version,
        levels=tuple(levels),
        quantised_collisions=_collisions(ids[:, quantised - 1]),
        collisions=_collisions(whole[:, -1]),
        prefixes=tuple(
            PrefixHealth(
                length=length,
                shared=int((np.bincount(prefix) > 1).sum()),
                brand_pure=_purity(prefix, brands),
                category_pure=_purity(prefix, categories),
                concept_shared=_concept_shared(prefix, items_by_concept),
            )
            for length, prefix in enumerate(ids[:, :quantised].T, start=1)
        ),
        tree=table.tree is not None,
    )


def _quantisation(table: SidTable) -> tuple[list[float | None], list[float | None]]:
    """Relative error after each quantised level, and the share of nearest codes; None without codebooks."""
    if table.codebooks is None or table.latents is None or (table.quantised_codes < 0).any():
        return [None] * table.quantised_levels, [None] * table.quantised_levels
    latents = table.latents.astype(np.float64)
    variance = float(((latents - latents.mean(0)) ** 2).sum(1).mean()) or 1.0
    own = np.empty((2, table.quantised_levels, len(table)), dtype=np.float32)
    for start in range(0, len(table), _CHUNK):
        rows = np.arange(start, min(start + _CHUNK, len(table)))
        for level, distances in enumerate(table.distances(rows)):
            found = distances[np.arange(len(rows)), table.codes[rows, level]]
            own[:, level, rows] = found, found <= distances.min(axis=1)
    errors, nearest = own.mean(axis=2, dtype=np.float64).tolist()
    return [error / variance for error in errors], nearest


def _collisions(ids: IntArray) -> Collisions:
    sizes = np.bincount(ids)
    groups = sizes[sizes > 1]
    excess = int((groups - 1).sum())
    return Collisions(groups=len(groups), items=int(groups.sum()), excess=excess, largest=int(sizes.max()))


def _purity(ids: IntArray, labels: Sequence[str] | None) -> float | None:
    """Share of prefixes with two or more labelled items whose labels agree; None where there are none."""
    if labels is None:
        return None
    import pandas as pd

    found = pd.DataFrame({"prefix": ids, "label": labels})
    groups = found[found["label"] != ""].groupby("prefix")["label"].agg(["size", "nunique"])
    kinds = groups.loc[groups["size"] > 1, "nunique"]
    return float((kinds == 1).mean()) if len(kinds) else None


def _concept_shared(ids: IntArray, concept: BoolArray | None) -> float | None:
    if concept is None or not concept.any():
        return None
    return float(np.isin(ids[concept], ids[~concept]).mean())
