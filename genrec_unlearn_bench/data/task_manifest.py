"""The frozen outcome of a task: how its digest is made, and the check that it never changes under one version."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import ProtocolMismatch

__all__ = ["check_manifest", "manifest_digest", "sealed"]


def manifest_digest(manifest: TaskManifest) -> str:
    """blake2b-256 over the canonical JSON (sorted keys, no spaces, UTF-8) of every field but the digest itself."""
    content = manifest.model_dump(mode="json", exclude={"digest"})
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()


def sealed(**fields: Any) -> TaskManifest:
    """A manifest of these fields with its digest filled in."""
    draft = TaskManifest(digest="", **fields)
    return draft.model_copy(update={"digest": manifest_digest(draft)})


def check_manifest(stored: TaskManifest, fresh: TaskManifest) -> None:
    """A task resolved once must resolve to the same thing again, as long as its version is the same.

    Manifests of two versions are two different tasks and are not compared.

    Raises:
        ProtocolMismatch: One of them is not what its digest says, or they differ; the first differing fields are named.
    """
    for manifest in (stored, fresh):
        if manifest_digest(manifest) != manifest.digest:
            raise ProtocolMismatch(
                "a task manifest does not match its own digest: it was changed after it was written",
                where=f"task {manifest.task}, version {manifest.version}",
                hint="restore the file, or delete it to resolve the task anew",
            )
    if stored.task != fresh.task:
        raise ProtocolMismatch(f"manifests of two tasks: {stored.task} and {fresh.task}")
    if stored.version != fresh.version or stored.digest == fresh.digest:
        return
    where = f"task {fresh.task}, version {fresh.version}"
    if stored.dataset_digest != fresh.dataset_digest:
        raise ProtocolMismatch(
            f"the dataset {fresh.dataset!r} is not the one this task was resolved on",
            where=f"{where}: dataset digest {stored.dataset_digest[:16]} then, {fresh.dataset_digest[:16]} now",
            hint="use the same files and preparation; results on other files belong in another table",
        )
    names = [name for name in TaskManifest.model_fields if name != "digest"]
    differing = [name for name in names if getattr(stored, name) != getattr(fresh, name)]
    raise ProtocolMismatch(
        "the task resolves to something else than before under the same version",
        where=f"{where}: {', '.join(differing[:4])}",
        hint="raise the task's version if the change is meant; otherwise undo it",
    )
