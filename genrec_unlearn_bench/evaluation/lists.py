"""Ranked lists of test examples: in memory, as a file and as TREC lines; distance of two, similarity to the target.

The file holds arrays and not rows: a list is read back as it was decoded, and groups without examples keep their shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.data.examples import Examples, Histories, IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import BEAMS, LIST_LENGTH, TEST_GROUPS, FloatArray, UserBlock, user_mean
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

LISTS = "lists.safetensors"
"""Name of the file. Its arrays: ``<group>.beam<beam>.items`` int32 [M, k] and ``….log_probs`` float32 [M, k]."""

Lists = Mapping[tuple[Group, int], Ranking]
"""By group and beam; row m is the test example that the per-user table calls ``example`` m."""

CHUNK = 512
"""Rows compared at a time: [rows, k, k] comparisons are held in memory."""
SIMILARITY_CHUNK = 2048
"""Lists whose items are compared with the target at a time: ten rows of features each are held in memory."""

_SIMILARITIES = {
    "similarity.first": "first_similarity",
    "similarity.mean@10": "mean_similarity",
    "similarity.first.scrubbed": "first_similarity_scrubbed",
    "similarity.mean@10.scrubbed": "mean_similarity_scrubbed",
}
"""Metric -> column of the per-user table."""


@dataclass(frozen=True, eq=False)
class GroupLists:
    """M test examples of one group, from its row ``first`` on, with their histories and ranked lists.

    ``histories`` are as the model was given them; ``rankings``, by beam, have ``max(10, beam)`` places.
    """

    group: Group
    examples: Examples
    histories: Histories
    rankings: Mapping[int, Ranking]
    first: int = 0

    def top(self, beam: int) -> IntArray:
        """[M, 10] the first ten items at a beam, -1 at empty places."""
        return self.rankings[beam].items[:, :LIST_LENGTH]


def add_lists(blocks: dict[str, list[NDArray[Any]]], lists: GroupLists) -> None:
    """Append the lists of a group, or of its next block, to what ``write_lists`` writes; -1 where a list has ended."""
    for beam, ranking in lists.rankings.items():
        name = _array_name(lists.group, beam)
        blocks.setdefault(f"{name}.items", []).append(ranking.items.astype(np.int32))
        blocks.setdefault(f"{name}.log_probs", []).append(ranking.log_probs.astype(np.float32))


def write_lists(path: Path, blocks: Mapping[str, Sequence[NDArray[Any]]]) -> None:
    write_tensors({name: np.concatenate(parts) for name, parts in blocks.items()}, path)


def read_lists(path: Path) -> Lists:
    """Read a file of ranked lists. Raises CorruptArtefact for anything else than such a file."""
    try:
        arrays = read_tensors(path)
        pairs = {(group, beam): _array_name(group, beam) for group in TEST_GROUPS for beam in BEAMS}
        return {pair: _ranking(arrays[f"{name}.items"], arrays[f"{name}.log_probs"]) for pair, name in pairs.items()}
    except (OSError, KeyError, ValueError) as fault:
        raise CorruptArtefact(
            f"the ranked lists cannot be read: {type(fault).__name__}: {fault}",
            where=str(path),
            hint="remove the folder that the file lies in, and run the run's command again",
        ) from None


def _array_name(group: Group, beam: int) -> str:
    return f"{group.value}.beam{beam}"


def _ranking(items: NDArray[np.generic], log_probs: NDArray[np.generic]) -> Ranking:
    if items.ndim != 2 or items.shape != log_probs.shape or items.dtype != np.int32 or log_probs.dtype != np.float32:
        raise ValueError(f"items {items.dtype}{list(items.shape)}, log-probabilities {list(log_probs.shape)}")
    return Ranking(items.astype(np.int64), np.asarray(log_probs, dtype=np.float32))


def jensen_shannon(first: Ranking, second: Ranking) -> FloatArray:
    """[B] Jensen-Shannon divergence in bits, in [0, 1], of the distributions that two decoded lists stand for.

    The distribution of a list: its items with the probabilities they were decoded with, and one bucket ``rest`` with
    what is left of 1 (items and invalid codes beyond the list). An item in one list alone has probability 0 in the
    other. Where items that share a SID repeat its probability to a sum above 1, the list is scaled to 1.
    """
    out = np.zeros(len(first))
    for start in range(0, len(first), CHUNK):
        rows = slice(start, start + CHUNK)
        left, right = first.items[rows], second.items[rows]
        p, q = _probabilities(first.log_probs[rows], left), _probabilities(second.log_probs[rows], right)
        same = (left[:, :, None] == right[:, None, :]) & (left >= 0)[:, :, None]
        q_of_left = (same * q[:, None, :]).sum(axis=2)
        # Half of q * log2(q / (q / 2)).
        only_right = 0.5 * np.where(same.any(axis=1), 0.0, q).sum(axis=1)
        rest = _divergence_terms(*(np.maximum(1.0 - each.sum(axis=1), 0.0) for each in (p, q)))
        out[rows] = _divergence_terms(p, q_of_left).sum(axis=1) + only_right + rest
    return np.clip(out, 0.0, 1.0)


def list_change(first: Ranking, second: Ranking, k: int = 10) -> FloatArray:
    """[B] 1 - overlap@k: share of the first k places that the other list does not have, in [0, 1].

    The longer of the two lists is the denominator; two empty lists have not changed.
    """
    left, right = first.items[:, :k], second.items[:, :k]
    common = ((left[:, :, None] == right[:, None, :]) & (left >= 0)[:, :, None]).any(axis=2).sum(axis=1)
    longer = np.maximum((left >= 0).sum(axis=1), (right >= 0).sum(axis=1))
    return np.where(longer > 0, 1.0 - common / np.maximum(longer, 1), 0.0)


def _probabilities(log_probs: NDArray[np.float32], items: NDArray[np.int64]) -> FloatArray:
    chances = np.where(items >= 0, np.exp(log_probs.astype(np.float64)), 0.0)
    return np.asarray(chances / np.maximum(chances.sum(axis=1, keepdims=True), 1.0))


def _divergence_terms(p: FloatArray, q: FloatArray) -> FloatArray:
    """Contribution of cells with probabilities p and q, 0 log 0 being 0."""
    middle = np.where(p + q > 0, (p + q) / 2, 1.0)
    left = p * np.log2(np.where(p > 0, p, middle) / middle)
    right = q * np.log2(np.where(q > 0, q, middle) / middle)
    return np.asarray(0.5 * (left + right))


def list_similarity(lists: IntArray, targets: IntArray, features: NDArray[np.float32]) -> tuple[FloatArray, FloatArray]:
    """Cosine of the first of each list's items [M, k], and the mean over them, with the target [M]: two [M] float64.

    Empty places (-1) and items whose row of ``features`` [N, D] is zero (no text) are left out of the mean. NaN where
    nothing is left, or where the target has no text.
    """
    first, mean = np.full(len(lists), np.nan), np.full(len(lists), np.nan)
    if lists.shape[1] == 0:
        return first, mean
    norms = _norms(features, lists, targets)
    for start in range(0, len(lists), SIMILARITY_CHUNK):
        rows = slice(start, start + SIMILARITY_CHUNK)
        items, wanted = lists[rows], targets[rows]
        known = np.where(items >= 0, items, 0)
        products = np.einsum("mkd,md->mk", features[known].astype(np.float64), features[wanted].astype(np.float64))
        scale = norms[known] * norms[wanted][:, None]
        valid = (items >= 0) & (scale > 0)
        cosines = np.clip(products / np.where(valid, scale, 1.0), -1.0, 1.0)
        first[rows] = np.where(valid[:, 0], cosines[:, 0], np.nan)
        count = valid.sum(axis=1)
        total = np.where(valid, cosines, 0.0).sum(axis=1)
        mean[rows] = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return first, mean


def _norms(features: NDArray[np.float32], lists: IntArray, targets: IntArray) -> FloatArray:
    """[N] lengths of the rows that are looked at, 0 elsewhere: the lists of a large catalogue name few of its items."""
    rows = np.union1d(lists[lists >= 0], targets)
    out = np.zeros(len(features))
    for start in range(0, len(rows), SIMILARITY_CHUNK):
        part = rows[start : start + SIMILARITY_CHUNK]
        out[part] = np.linalg.norm(features[part].astype(np.float64), axis=1)
    return out


def similarity_values(blocks: Iterable[UserBlock]) -> list[MetricValue]:
    empty = "no list with an item and a target that both have a text"
    return [
        user_mean(name, block.group, block.numbers(column), beam=block.beam, empty=empty)
        for block in blocks
        for name, column in _SIMILARITIES.items()
    ]


def trec_run(ranking: Ranking, *, tag: str) -> Iterator[str]:
    """``qid Q0 docno rank score tag``, one line a filled place; the qid is the row's number, the docno the item's.

    The score is k + 1 - rank instead of the log-probability: readers of runs sort by score and break ties by the
    document's name, which would undo our order (ties by item id).
    """
    width = ranking.items.shape[1]
    for row, items in enumerate(ranking.items.tolist()):
        for place, item in enumerate(items, start=1):
            if item >= 0:
                yield f"{row} Q0 {item} {place} {width + 1 - place} {tag}"


def trec_qrels(targets: IntArray) -> Iterator[str]:
    """``qid 0 docno 1``, one line a test example."""
    for row, item in enumerate(targets.tolist()):
        yield f"{row} 0 {item} 1"
