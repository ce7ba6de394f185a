"""Which test examples are shown: those of named users, or of the users whose lists the methods changed most.

The rule for the latter is declared and looks at nothing but lists, so that nobody picks what pleases: the change of an
example is 1 - overlap@10 between the original's list and a method's, averaged over the methods shown; ties go to the
example whose lists lost more concept items, then to the lower row. A user is shown once, with the most changed example.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genrec_unlearn_bench.data.examples import IntArray
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.concept import concept_places
from genrec_unlearn_bench.evaluation.lists import list_change
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import LIST_LENGTH
from genrec_unlearn_bench.reporting.examples.scene import Scene

__all__ = ["NAMED", "RULE", "most_changed", "of_users"]

RULE = (
    "Chosen by rule: the users whose top-10 list differs most from the original's (1 - overlap@10, averaged over the "
    "methods shown), ties by how many concept items left the list; one example a user."
)

NAMED = "Chosen by name: every test example of the users asked for."

REFERENCES = 2
"""The original and the oracle stand first; what comes after them are the methods that a change is about."""


def most_changed(scene: Scene, group: Group, beam: int, top: int) -> IntArray:
    """[<= top] rows of a group's test examples, most changed first.

    Raises UsageError where the group has no test examples.
    """
    lists = [run.rankings[group, beam] for _, run in scene.runs]
    users = scene.runs[0][1].users(group)
    if not len(users):
        raise UsageError(
            f"there are no {group.value} test examples",
            where=scene.title,
            hint="choose the other --group, or another task",
        )
    others = lists[REFERENCES:] or lists[1:]
    changes = np.mean([list_change(lists[0], other, LIST_LENGTH) for other in others], axis=0)
    concept = [_concept_items(scene, each, users) for each in (lists[0], *others)]
    left = np.mean([concept[0] - each for each in concept[1:]], axis=0)
    order = np.lexsort((np.arange(len(users)), -left, -changes))
    _, first = np.unique(users[order], return_index=True)
    return np.asarray(order[np.sort(first)][:top], dtype=np.int64)


def of_users(scene: Scene, wanted: Sequence[int], groups: Sequence[Group]) -> list[tuple[Group, int]]:
    """Every test example of the named users in some groups, user by user as they were named.

    Raises UsageError for users without any, all of them at once.
    """
    found: list[tuple[Group, int]] = []
    absent: list[int] = []
    for user in dict.fromkeys(wanted):
        rows = [(group, int(row)) for group in groups for row in np.flatnonzero(scene.examples(group).users == user)]
        found += rows
        if not rows:
            absent.append(user)
    if absent:
        known = np.unique(np.concatenate([scene.examples(group).users for group in groups]))
        where = " or ".join(group.value for group in groups)
        raise UsageError(
            f"no {where} test example is of the user {', '.join(map(str, absent))}",
            where=f"{scene.title}: {len(known)} users have one",
            hint="users go by the numbers in the column `user` of per_user.parquet; or show the most changed: --top 5",
        )
    return found


def _concept_items(scene: Scene, lists: Ranking, users: IntArray) -> IntArray:
    return np.asarray(concept_places(scene.split, lists.items[:, :LIST_LENGTH], users).sum(axis=1), dtype=np.int64)
