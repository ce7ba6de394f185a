from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.data.forget import (
    ConceptKind,
    Entanglement,
    TaskManifest,
    check_manifest,
    manifest_digest,
    sealed,
)
from genrec_unlearn_bench.data.tasks import AttributeRule
from genrec_unlearn_bench.errors import ProtocolMismatch


def manifest(**changes: Any) -> TaskManifest:
    fields: dict[str, Any] = {
        "task": "planted-brand",
        "version": 1,
        "dataset": "planted",
        "dataset_digest": "d" * 64,
        "kind": ConceptKind.BRAND,
        "concepts": ("Häagen", "3M"),
        "forget_items": ("i1", "i2"),
        "forget_interactions": (),
        "train_share": 0.1,
        "draws": 3,
        "within_tolerance": True,
        "retain_history_share": 0.25,
        "counts": {"train_forget": 10, "train_retain": 90},
    }
    return sealed(**{**fields, **changes})


def test_the_digest_is_pinned() -> None:
    # Another digest for the same content would orphan every published result: raise the protocol version instead.
    assert manifest().digest == "239b8704d28782cea836f0f83b0499462f7618d5d09ea34a73b3b579f08b1463"


def test_every_field_counts() -> None:
    changes: dict[str, Any] = {
        "task": "other", "version": 2, "dataset": "other", "dataset_digest": "e" * 64, "kind": ConceptKind.ITEM,
        "concepts": ("3M", "Häagen"), "forget_items": ("i1",), "forget_interactions": ((1, "i1"),),
        "train_share": 0.1000000001, "draws": 4, "within_tolerance": False, "retain_history_share": 0.2,
        "counts": {"train_forget": 11, "train_retain": 90},
        "entanglement": Entanglement(concept=0.3, values=(0.4, 0.5), catalogue=0.1, retain_near={"test": 7}),
        "attribute": AttributeRule(field="genres", match="all"),
    }  # fmt: skip
    assert set(changes) == set(TaskManifest.model_fields) - {"digest"}
    digests = {manifest(**{name: value}).digest for name, value in changes.items()}
    assert len(digests | {manifest().digest}) == len(changes) + 1


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "leaderboard").rglob("manifests/*.json")), ids=str)
def test_published_manifests_are_written_as_they_were(path: Path) -> None:
    content = path.read_text(encoding="utf-8")
    stored = TaskManifest.model_validate_json(content)
    assert stored.model_dump_json(indent=2) + "\n" == content
    assert manifest_digest(stored) == stored.digest


def test_the_digest_survives_a_round_trip_through_a_file() -> None:
    stored = TaskManifest.model_validate_json(manifest().model_dump_json())
    assert manifest_digest(stored) == stored.digest
    check_manifest(stored, manifest())


def test_a_change_under_the_same_version_is_refused_and_named() -> None:
    with pytest.raises(ProtocolMismatch, match="concepts, forget_items") as caught:
        check_manifest(manifest(), manifest(concepts=("Other",), forget_items=("i9",)))
    assert caught.value.exit_code == 3
    assert "raise the task's version" in str(caught.value)


def test_another_dataset_is_refused_by_its_digest() -> None:
    with pytest.raises(ProtocolMismatch, match="dataset_digest, concepts"):
        check_manifest(manifest(), manifest(dataset_digest="e" * 64, concepts=("Other",)))


def test_a_new_version_may_differ() -> None:
    check_manifest(manifest(), manifest(version=2, concepts=("Other",)))


def test_a_file_that_was_edited_is_refused() -> None:
    edited = manifest().model_copy(update={"concepts": ("Other",)})
    with pytest.raises(ProtocolMismatch, match="own digest"):
        check_manifest(edited, manifest())
