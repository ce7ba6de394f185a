"""Batches of a training and their split into micro-batches and over processes.

The order of the samples is a function of the seed and the step alone, so that a training can be resumed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.seeding import numpy_generator


def bucketed_batches(
    lengths: IntArray, batch_size: int, generator: np.random.Generator, *, window: int = 50
) -> Iterator[IntArray]:
    """One shuffled pass in batches of similar length.

    Rows are shuffled, sorted by length within windows of ``window`` batches, cut, and the batches shuffled again:
    almost no padding, and batches differ from epoch to epoch.
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
    per_epoch = math.ceil(len(lengths) / batch_size)
    for step in range(first, total):
        epoch, place = divmod(step, per_epoch)
        if step == first or place == 0:
            batches = list(bucketed_batches(lengths, batch_size, numpy_generator(seed, "epoch", epoch)))
        yield batches[place]


def in_parts(rows: IntArray, size: int) -> list[IntArray]:
    """Rows in consecutive parts of at most ``size``, as equal as possible."""
    return [np.asarray(part, dtype=np.int64) for part in np.array_split(rows, max(1, math.ceil(len(rows) / size)))]


def micro_batches(
    rows: IntArray, *, terms: NDArray[np.float64], kinds: IntArray, size: int, index: int = 0, processes: int = 1
) -> list[tuple[IntArray, float]]:
    """Split a step's samples: the micro-batches of process ``index``, of 1 to ``size`` samples each.

    With each comes the factor of its mean loss in the step's loss: the mean over processes of their weighted losses is
    the mean over all terms of ``rows``, however they are split. Processes get equally many parts of each kind, since a
    sharded block waits in every pass for the others; a process with no sample left computes one with weight 0.

    Args:
        terms: [M] terms that each sample has in the loss's mean.
        kinds: [M] which samples take one pass over the network together.
    """
    whole = float(terms[rows].sum())
    if processes == 1:
        return [(part, float(terms[part].sum()) / whole) for part in in_parts(rows, size)]
    parts: list[tuple[IntArray, float]] = []
    for kind in np.unique(kinds[rows]):
        of_kind = rows[kinds[rows] == kind]
        largest = -(-len(of_kind) // processes)
        for part in np.array_split(of_kind[index::processes], -(-largest // size)):
            weight = processes * float(terms[part].sum()) / whole if len(part) else 0.0
            parts.append((part if len(part) else of_kind[:1], weight))
    return parts
