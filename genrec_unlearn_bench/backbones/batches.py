"""The order in which a training sees its samples: a function of the seed and the step alone, so it can be resumed."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["batches_per_epoch", "bucketed_batches", "in_parts", "training_batches"]


def batches_per_epoch(samples: int, batch_size: int) -> int:
    """How many batches one pass has."""
    return math.ceil(samples / batch_size)


def bucketed_batches(
    lengths: IntArray, batch_size: int, generator: np.random.Generator, *, window: int = 50
) -> Iterator[IntArray]:
    """One shuffled pass in batches of similar length.

    Rows are shuffled, sorted by length within windows of ``window`` batches, cut, and the batches shuffled again:
    almost no padding, and still every batch differs from epoch to epoch.
    """
    order = generator.permutation(len(lengths))
    batches = []
    for first in range(0, len(order), batch_size * window):
        part = order[first : first + batch_size * window]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + batch_size] for i in range(0, len(part), batch_size)]
    for index in generator.permutation(len(batches)):
        yield np.asarray(batches[index], dtype=np.int64)


def training_batches(
    lengths: IntArray, batch_size: int, *, seed: int, total: int, first: int = 0
) -> Iterator[IntArray]:
    """The batches of steps ``first`` to ``total`` - 1, over as many passes as these take."""
    per_epoch = batches_per_epoch(len(lengths), batch_size)
    for step in range(first, total):
        epoch, place = divmod(step, per_epoch)
        if step == first or place == 0:
            batches = list(bucketed_batches(lengths, batch_size, numpy_generator(seed, "epoch", epoch)))
        yield batches[place]


def in_parts(rows: IntArray, size: int) -> list[IntArray]:
    """Rows in consecutive parts of at most ``size``, as equal as possible."""
    return [np.asarray(part, dtype=np.int64) for part in np.array_split(rows, max(1, math.ceil(len(rows) / size)))]
