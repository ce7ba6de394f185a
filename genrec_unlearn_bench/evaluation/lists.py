"""The ranked lists of an evaluation as one file: what its list metrics were computed from, for whoever looks later.

Arrays and not rows: a list is read back as it was decoded, and groups without examples keep their shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.user_block import BEAMS
from genrec_unlearn_bench.tensors import TensorFile, read_tensors

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.group_lists import GroupLists

__all__ = ["LISTS", "Lists", "list_file", "put_lists", "read_lists", "write_lists"]

LISTS = "lists.safetensors"
"""Name of the file. Its arrays: ``<group>.beam<beam>.items`` int32 [M, k] and ``….log_probs`` float32 [M, k]."""

Lists = Mapping[tuple[Group, int], Ranking]
"""By group and beam; row m is the test example that the per-user table calls ``example`` m."""

_GROUPS = (Group.FORGET, Group.RETAIN)


def write_lists(groups: Iterable[GroupLists], path: Path) -> None:
    """Write the lists of every group at every beam. Item ids are row numbers of the dataset's items, -1 where a list
    has ended."""
    whole = tuple(groups)
    widths = {
        lists.group: {beam: ranking.items.shape[1] for beam, ranking in lists.rankings.items()} for lists in whole
    }
    with list_file(path, {lists.group: len(lists.examples) for lists in whole}, widths) as file:
        for lists in whole:
            put_lists(file, lists)


def list_file(path: Path, rows: Mapping[Group, int], widths: Mapping[Group, Mapping[int, int]]) -> TensorFile:
    """A file for the lists of groups of so many test examples, of so many places at each beam."""
    shapes: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
    for group, places in widths.items():
        for beam, width in places.items():
            shapes[f"{_name(group, beam)}.items"] = np.dtype(np.int32), (rows[group], width)
            shapes[f"{_name(group, beam)}.log_probs"] = np.dtype(np.float32), (rows[group], width)
    return TensorFile(path, shapes)


def put_lists(file: TensorFile, lists: GroupLists) -> None:
    """Write the lists of a group, or of a block of it, where they belong."""
    for beam, ranking in lists.rankings.items():
        name = _name(lists.group, beam)
        file.put(f"{name}.items", lists.first, ranking.items.astype(np.int32))
        file.put(f"{name}.log_probs", lists.first, ranking.log_probs.astype(np.float32))


def read_lists(path: Path) -> Lists:
    """The inverse of ``write_lists``. Raises CorruptArtefact for anything else than such a file."""
    try:
        arrays = read_tensors(path)
        return {
            (group, beam): _ranking(arrays[f"{name}.items"], arrays[f"{name}.log_probs"])
            for group in _GROUPS
            for beam in BEAMS
            for name in [_name(group, beam)]
        }
    except (OSError, KeyError, ValueError) as fault:
        raise CorruptArtefact(
            f"the ranked lists cannot be read: {type(fault).__name__}: {fault}",
            where=str(path),
            hint="remove the folder that the file lies in, and run the run's command again",
        ) from None


def _name(group: Group, beam: int) -> str:
    return f"{group.value}.beam{beam}"


def _ranking(items: NDArray[np.generic], log_probs: NDArray[np.generic]) -> Ranking:
    if items.ndim != 2 or items.shape != log_probs.shape or items.dtype != np.int32 or log_probs.dtype != np.float32:
        raise ValueError(f"items {items.dtype}{list(items.shape)}, log-probabilities {list(log_probs.shape)}")
    return Ranking(items.astype(np.int64), np.asarray(log_probs, dtype=np.float32))
