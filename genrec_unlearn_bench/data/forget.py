"""A resolved task: the forget and retain sides of every part of a dataset, and its manifest.

The manifest's digest must never change under one version of a task.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.examples import BoolArray, Examples, IntArray, among
from genrec_unlearn_bench.data.tasks import AttributeRule, ConceptKind
from genrec_unlearn_bench.errors import ProtocolMismatch

__all__ = ["ConceptKind", "ForgetSplit", "Groups", "TaskManifest"]


class Entanglement(StrictModel):
    """How far an entangled concept's neighbours would be retained (``data.neighbours``), all in [0, 1)."""

    concept: float
    """Of all drawn values together: neighbours that another drawn value takes with it are not retained."""
    values: tuple[float, ...]
    """Of each drawn value by itself, in the order of ``concepts``."""
    catalogue: float
    """Mean over all values of the catalogue, weighted by their train targets: what a draw at random would have."""
    retain_near: dict[str, int]
    """train, valid, test: number of retain examples whose target is a neighbour of the concept."""


class TaskManifest(StrictModel):
    """The frozen outcome of resolving a task on a dataset. Same version, same digest, for ever."""

    task: str
    version: int
    dataset: str
    dataset_digest: str
    kind: ConceptKind
    concepts: tuple[str, ...]
    """Brands, values of the attribute, the band as text, or item ids; empty for interactions."""
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
    """blake2b-256 over all other fields, in hex."""
    entanglement: Entanglement | None = Field(default=None, exclude_if=lambda value: value is None)
    """For an entangled draw alone; elsewhere the field is not written at all, so that older manifests keep their
    digests."""
    attribute: AttributeRule | None = Field(default=None, exclude_if=lambda value: value is None)
    """For the kind ``attribute``, and for bands of another field than the price; written there alone."""


@dataclass(frozen=True, eq=False)
class Groups:
    """One part of a dataset, divided."""

    forget: Examples
    retain: Examples


@dataclass(frozen=True, eq=False)
class ForgetSet:
    """What is to be forgotten.

    Attributes:
        items: [N] concept items; none marked where single interactions are to be forgotten.
        pairs: [P, 2] forgotten (user, item) pairs; empty for the other kinds.
    """

    kind: ConceptKind
    items: BoolArray
    pairs: IntArray

    def forgotten_events(self, examples: Examples) -> BoolArray:
        """[E] history events that are to be forgotten."""
        return self._marked(examples.events, examples.event_users)

    def concept_places(self, items: IntArray, users: IntArray) -> BoolArray:
        """[B, T] where ``items`` [B, T] of ``users`` [B] are to be forgotten; negative items (padding) are not."""
        return self._marked(items, users[:, None])

    def cleaned(self, examples: Examples) -> Examples:
        """The examples with everything that is to be forgotten taken out of their histories, as retraining reads them.

        Rows whose history becomes empty are left out: there is nothing to predict from.
        """
        kept = examples.drop_events(self.forgotten_events(examples))
        return kept.subset(kept.ends > kept.starts)

    def _marked(self, items: IntArray, users: IntArray) -> BoolArray:
        real = items >= 0
        if self.kind is not ConceptKind.INTERACTION:
            return np.asarray(real & self.items[np.where(real, items, 0)], dtype=np.bool_)
        width = int(max(len(self.items), 1))
        keys = np.sort(self.pairs[:, 0] * width + self.pairs[:, 1])
        return np.asarray(real & among(users * width + items, keys), dtype=np.bool_)


@dataclass(frozen=True, eq=False)
class ForgetSplit(ForgetSet):
    """A resolved task.

    For ``interaction`` the valid and test forget groups are the drawn train interactions themselves (10 % and 90 % of
    them), as deleted data has no future of its own.
    """

    train: Groups
    valid: Groups
    test: Groups
    manifest: TaskManifest
    near: BoolArray | None = None
    """[N] retain items that are text or co-purchase neighbours of the concept (``data.neighbours``); None where they
    were not looked for, and for the kind ``interaction``, which names no items."""

    def retain_near(self, examples: Examples) -> BoolArray:
        """[M] whether the target is a neighbour of the concept: the retain-near rows of the retain side of a part.

        All False where the neighbours are not known (``near`` is None).
        """
        return np.zeros(len(examples), dtype=np.bool_) if self.near is None else self.near[examples.targets]


def manifest_digest(manifest: TaskManifest) -> str:
    """blake2b-256 over the canonical JSON (sorted keys, no spaces, UTF-8) of every field but the digest itself."""
    content = manifest.model_dump(mode="json", exclude={"digest"})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def sealed(**fields: Any) -> TaskManifest:
    """Make a manifest of these fields and fill in its digest."""
    draft = TaskManifest(digest="", **fields)
    return draft.model_copy(update={"digest": manifest_digest(draft)})


def check_manifest(stored: TaskManifest, fresh: TaskManifest) -> None:
    """Check that a task resolved to the same thing as before under the same version; two versions are not compared.

    Raises ProtocolMismatch where the stored one does not match its digest, or where they differ.
    """
    where = f"task {fresh.task}, version {stored.version}"
    if manifest_digest(stored) != stored.digest:
        raise ProtocolMismatch(
            "a task manifest does not match its own digest: it was changed after it was written",
            where=where,
            hint="restore the file, or delete it to resolve the task anew",
        )
    if stored.version != fresh.version or stored.digest == fresh.digest:
        return
    fields = [name for name in TaskManifest.model_fields if name != "digest"]
    differing = [name for name in fields if getattr(stored, name) != getattr(fresh, name)]
    raise ProtocolMismatch(
        "the task resolves to something else than before under the same version",
        where=f"{where}: {', '.join(differing[:4])}",
        hint="use the same files and preparation (dataset_digest); raise the task's version if the change is meant",
    )
