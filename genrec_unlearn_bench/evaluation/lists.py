"""The ranked lists of an evaluation as one file: what its list metrics were computed from, for whoever looks later.

Arrays and not rows: a list is read back as it was decoded, and groups without examples keep their shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.user_block import BEAMS

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.group_lists import GroupLists

__all__ = ["LISTS", "Lists", "read_lists", "write_lists"]

LISTS = "lists.safetensors"
"""Name of the file. Its arrays: ``<group>.beam<beam>.items`` int32 [M, k] and ``….log_probs`` float32 [M, k]."""

Lists = Mapping[tuple[Group, int], Ranking]
"""By group and beam; row m is the test example that the per-user table calls ``example`` m."""

_GROUPS = (Group.FORGET, Group.RETAIN)


def write_lists(groups: Iterable[GroupLists], path: Path) -> None:
    """Write the lists of every group at every beam. Item ids are row numbers of the dataset's items, -1 where a list
    has ended."""
    from safetensors.numpy import save_file

    arrays: dict[str, NDArray[np.generic]] = {}
    for lists in groups:
        for beam, ranking in lists.rankings.items():
            name = _name(lists.group, beam)
            arrays[f"{name}.items"] = np.ascontiguousarray(ranking.items, dtype=np.int32)
            arrays[f"{name}.log_probs"] = np.ascontiguousarray(ranking.log_probs, dtype=np.float32)
    save_file(arrays, path)


def read_lists(path: Path) -> Lists:
    """The inverse of ``write_lists``. Raises CorruptArtefact for anything else than such a file."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
        return {
            (group, beam): _ranking(arrays[f"{name}.items"], arrays[f"{name}.log_probs"])
            for group in _GROUPS
            for beam in BEAMS
            for name in [_name(group, beam)]
        }
    except (OSError, SafetensorError, KeyError, ValueError) as fault:
        raise CorruptArtefact(
            f"the ranked lists cannot be read: {type(fault).__name__}: {fault}",
            where=str(path),
            mend="remove the folder that the file lies in, and run the run's command again",
        ) from None


def _name(group: Group, beam: int) -> str:
    return f"{group.value}.beam{beam}"


def _ranking(items: NDArray[np.generic], log_probs: NDArray[np.generic]) -> Ranking:
    if items.ndim != 2 or items.shape != log_probs.shape or items.dtype != np.int32 or log_probs.dtype != np.float32:
        raise ValueError(f"items {items.dtype}{list(items.shape)}, log-probabilities {list(log_probs.shape)}")
    return Ranking(items.astype(np.int64), np.asarray(log_probs, dtype=np.float32))
