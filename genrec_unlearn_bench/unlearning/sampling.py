"""Batches for unlearning, and the retain items nearest to an item.

Every forget example comes once per epoch, paired with as many random retain examples. open-unlearning and MUSE anchor
their loaders on the forget set in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.table import SidTable


@dataclass(frozen=True, eq=False)
class PairedBatch:
    """As many forget as retain examples, and their [n] indices in ``Groups.forget`` and ``Groups.retain``."""

    forget: Examples
    retain: Examples
    forget_rows: IntArray
    retain_rows: IntArray


def all_examples(one: Examples, two: Examples) -> Examples:
    """The examples of both, ``one`` first; events that both share are not repeated."""
    if np.array_equal(one.events, two.events) and np.array_equal(one.event_users, two.event_users):
        columns = ("users", "targets", "times", "starts", "ends")
        return replace(one, **{name: np.concatenate([getattr(one, name), getattr(two, name)]) for name in columns})
    shift = len(one.events)
    two = replace(two, starts=two.starts + shift, ends=two.ends + shift)
    return Examples(**{name: np.concatenate([array, getattr(two, name)]) for name, array in vars(one).items()})


def example_batches(examples: Examples, size: int) -> Iterator[Examples]:
    for first in range(0, len(examples), size):
        yield examples.subset(np.arange(first, min(first + size, len(examples)), dtype=np.int64))


def at_most(examples: Examples, rows: int, seed: int, *names: str) -> Examples:
    """At most ``rows`` random examples in their order, the same for the same seed and names."""
    if len(examples) <= rows:
        return examples
    chosen = numpy_generator(seed, *names).choice(len(examples), size=rows, replace=False)
    return examples.subset(np.sort(chosen).astype(np.int64))


def steps_per_epoch(groups: Groups, batch_size: int) -> int:
    """Number of batches in one pass over the forget examples."""
    return -(-len(groups.forget) // batch_size)


def paired_batches(groups: Groups, batch_size: int, generator: np.random.Generator) -> Iterator[PairedBatch]:
    """One epoch of batches. Retain examples are drawn without replacement (with, if there are too few)."""
    forget = generator.permutation(len(groups.forget))
    scarce = len(groups.retain) < len(forget)
    retain = generator.choice(len(groups.retain), size=len(forget), replace=scarce)
    for first in range(0, len(forget), batch_size):
        part = slice(first, first + batch_size)
        yield _paired(groups, forget[part].astype(np.int64), retain[part].astype(np.int64))


def without_small_end(batches: Iterable[PairedBatch], groups: Groups, least: int) -> Iterator[PairedBatch]:
    """Join a last batch of fewer than ``least`` examples to the one before it."""
    held: PairedBatch | None = None
    for batch in batches:
        if held is not None and len(batch.forget_rows) < least:
            forget = np.concatenate([held.forget_rows, batch.forget_rows])
            batch = _paired(groups, forget, np.concatenate([held.retain_rows, batch.retain_rows]))
        elif held is not None:
            yield held
        held = batch
    if held is not None:
        yield held


def _paired(groups: Groups, forget: IntArray, retain: IntArray) -> PairedBatch:
    return PairedBatch(groups.forget.subset(forget), groups.retain.subset(retain), forget, retain)


def positive_set(
    features: ItemFeatures, table: SidTable, targets: IntArray, concept: BoolArray, count: int
) -> IntArray:
    """[n, count] the positive set P(i) (TRACER, sec. 3.2): the retain items nearest to each of ``targets`` [n] by
    cosine of scrubbed text, -1 if there are fewer.

    Scrubbed text, because the plain texts nearest to a branded item are those that share the brand's name. Excluded:
    ``concept`` items [N], the target itself, and items with the target's quantised codes (a coherence target equal to
    the suppressed one would work against the forget loss).
    """
    codes = table.quantised_codes
    out = np.full((len(targets), count), -1, dtype=np.int64)
    for first in range(0, len(targets), 512):
        block = targets[first : first + 512]
        cosine = features.scrubbed[block] @ features.scrubbed.T
        same = (codes[block][:, None, :] == codes[None]).all(-1)
        cosine[same | concept[None, :]] = -np.inf
        cosine[np.arange(len(block)), block] = -np.inf
        best = np.argsort(-cosine, axis=1, kind="stable")[:, :count]
        found = np.isfinite(np.take_along_axis(cosine, best, axis=1))
        out[first : first + len(block), : best.shape[1]] = np.where(found, best, -1)
    return out
