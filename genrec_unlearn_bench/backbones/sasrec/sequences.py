"""Train sequences: next-item examples put together again, so that one pass through SASRec learns many of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import PAD, Examples, IntArray

__all__ = ["TrainSequences", "train_sequences"]


@dataclass(frozen=True, eq=False)
class TrainSequences:
    """S sequences of up to T positions.

    Attributes:
        inputs: [S, T] item ids, ``PAD`` behind the last one.
        targets: [S, T] what follows position t, ``PAD`` where nothing is to be learned.
    """

    inputs: IntArray
    targets: IntArray

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def lengths(self) -> IntArray:
        """[S] number of input positions."""
        return np.asarray((self.inputs != PAD).sum(axis=1), dtype=np.int64)


def train_sequences(train: Examples, limit: int) -> TrainSequences:
    """The examples as sequences in which each of them is the target of exactly one position.

    A row continues the user's row before it where its history ends in that row's history and target; such rows form a
    run, whose targets become the inputs that follow. Nothing else is ever a target: items that stand in histories
    alone (a user's first item, or one whose own row belongs to valid or test) are inputs without one. The same rule
    fits rows that share events and rows that come with a history each.

    Differences from the examples as they stand: a source may cut its histories (MiniOneRec: ten items), and then a
    position sees the run's earlier items as well, up to ``limit``. A run longer than ``limit`` is laid out in windows
    that overlap by half, so its later targets see between half of ``limit`` and all of it. Rows with an empty history
    have no position and are left out.

    Args:
        limit: T, most positions of a sequence.
    """
    rows = np.flatnonzero(train.ends > train.starts)
    rows = rows[np.lexsort((train.ends[rows], train.users[rows]))]
    chosen = train.subset(rows)
    if not len(chosen):
        nothing = np.empty((0, limit), dtype=np.int64)
        return TrainSequences(nothing, nothing)
    return _windows(chosen, np.flatnonzero(~_continues(chosen, limit)), limit)


def _continues(rows: Examples, limit: int) -> NDArray[np.bool_]:
    """[M] whether a row's history is the end of the history and target of the row before it."""
    lengths = rows.history_lengths(limit)
    same = np.zeros(len(rows), dtype=np.bool_)
    same[1:] = rows.users[1:] == rows.users[:-1]
    for back in range(limit):  # Column by column: the histories as one matrix would be large.
        check = np.flatnonzero(same & (lengths > back))
        if not check.size:
            break
        item = rows.events[rows.ends[check] - 1 - back]
        if back == 0:
            before = rows.targets[check - 1]
        else:
            place = rows.ends[check - 1] - back
            before = np.where(place >= rows.starts[check - 1], rows.events[np.maximum(place, 0)], PAD)
        same[check] = item == before
    return same


def _windows(rows: Examples, first: IntArray, limit: int) -> TrainSequences:
    """Runs of rows, each beginning at one of ``first``, as windows of at most ``limit`` positions."""
    counts = np.diff(np.append(first, len(rows)))
    lead = rows.history_lengths(limit)[first]
    lengths = lead + counts - 1
    offsets = np.cumsum(lengths) - lengths
    inputs = np.full(int(lengths.sum()), PAD, dtype=np.int64)
    targets = inputs.copy()
    within, owner = _ranges(lead)
    inputs[offsets[owner] + within] = rows.events[rows.ends[first][owner] - lead[owner] + within]
    within, owner = _ranges(counts)
    place = offsets[owner] + lead[owner] - 1 + within
    targets[place] = rows.targets
    follows = within < counts[owner] - 1
    inputs[place[follows] + 1] = rows.targets[follows]

    stride = max(limit // 2, 1)
    number, run = _ranges(1 + np.maximum(-(-(lengths - limit) // stride), 0))
    columns = (number * stride)[:, None] + np.arange(limit)[None, :]
    real = columns < lengths[run][:, None]
    source = np.where(real, offsets[run][:, None] + columns, 0)
    # Behind the first window, the first half of each was learned in the window before it.
    fresh = real & ((number == 0)[:, None] | (np.arange(limit) >= limit - stride)[None, :])
    return TrainSequences(np.where(real, inputs[source], PAD), np.where(fresh, targets[source], PAD))


def _ranges(counts: IntArray) -> tuple[IntArray, IntArray]:
    """0 … count-1 for each count, end to end, and which count each belongs to."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts), owner
