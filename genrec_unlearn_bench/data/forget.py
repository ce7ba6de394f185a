"""What a task resolves to: the forget and retain sides of every part of a dataset."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pydantic import BaseModel, ConfigDict

from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray
from genrec_unlearn_bench.data.pairs import among
from genrec_unlearn_bench.data.task_spec import ConceptKind

__all__ = ["ConceptKind", "ForgetSplit", "Groups", "TaskManifest"]


class TaskManifest(BaseModel):
    """The frozen outcome of resolving a task on a dataset. Same version, same digest, for ever."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: str
    version: int
    dataset: str
    dataset_digest: str
    kind: ConceptKind
    concepts: tuple[str, ...]
    """Brands, the price band as text, or item ids; empty for interactions."""
    forget_items: tuple[str, ...]
    """The dataset's own item ids."""
    forget_interactions: tuple[tuple[int, str], ...]
    """(user, item id) pairs, for the kind ``interaction`` alone."""
    train_share: float
    """Share of the train examples that belong to the forget set."""
    draws: int
    """How many draws it took."""
    within_tolerance: bool
    """False where no draw met the target share and the nearest one was taken."""
    retain_history_share: float
    """Share of retain train examples that have a concept item in their history."""
    counts: dict[str, int]
    """train_forget, train_retain, valid_forget … number of examples."""
    digest: str
    """blake2b-256 over all of the above, in hex."""


@dataclass(frozen=True, eq=False)
class Groups:
    """One part of a dataset, divided."""

    forget: Examples
    retain: Examples


@dataclass(frozen=True, eq=False)
class ForgetSplit:
    """A resolved task.

    Attributes:
        items: [N] concept items (none marked for the kind ``interaction``).
        pairs: [P, 2] forgotten (user, item) pairs; empty for the other kinds.
        train, valid, test: The parts, divided. For ``interaction`` the valid and test forget groups are the drawn
            train interactions themselves (10 % and 90 % of them), as deleted data has no future of its own.
    """

    kind: ConceptKind
    items: BoolArray
    pairs: IntArray
    train: Groups
    valid: Groups
    test: Groups
    manifest: TaskManifest

    def cleaned(self, examples: Examples) -> Examples:
        """The examples with everything that is to be forgotten taken out of their histories.

        Rows whose history becomes empty are left out: there is nothing to predict from.
        """
        if self.kind is ConceptKind.INTERACTION:
            width = int(max(len(self.items), 1))
            codes = examples.event_users * width + examples.events
            gone = among(codes, np.sort(self.pairs[:, 0] * width + self.pairs[:, 1]))
        else:
            gone = self.items[examples.events]
        kept = examples.drop_events(gone)
        return kept.subset(kept.ends > kept.starts)
