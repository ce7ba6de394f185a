"""What lies beside a stage's files: ``stage.json``, which seals them, and ``key.json``, which explains the key.

``stage.json`` holds the digest of every file, ``key.json`` among them, and a digest of itself, so that no byte of a
stored stage can change unnoticed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import file_digest, folder_digest
from genrec_unlearn_bench.store.keys import CODE, KeyContent, canonical, envelope

__all__ = [
    "KEY_FILE",
    "MANIFEST",
    "StageManifest",
    "StoredStage",
    "explains",
    "read_manifest",
    "stage_content",
    "verified",
    "write_manifest",
]

MANIFEST = "stage.json"
KEY_FILE = "key.json"
LISTING = "modules"
"""Where ``key.json`` lists the code, outside what is hashed."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


class StageManifest(StrictModel):
    """What lies in a stage's folder."""

    stage: str
    key: str
    digest: str
    """blake2b-256 over the files' names and digests, without key.json and this file."""
    seconds: float
    """Wall-clock of the computation."""
    files: dict[str, str]
    """Relative path -> blake2b-256."""
    account: dict[str, Any] = Field(default_factory=dict)
    size: int = 0
    """Bytes of all files together."""
    backbone: str = ""
    """Name of the backbone, where the stage's content names one."""
    inputs: tuple[str, ...] = ()
    """Digests of stages and data that its content names."""
    was: str = ""
    """Key it was stored under before ``bench cache migrate``."""
    explained: str = ""
    """blake2b-256 of ``key.json``. Stages of key version 1 have none, and no seal."""
    seal: str = ""
    """blake2b-256 of this file with an empty seal."""

    def text(self) -> str:
        """The file, as it is written."""
        return json.dumps(self.model_dump(mode="json"), indent=2, allow_nan=False, ensure_ascii=False) + "\n"

    def sealed(self) -> StageManifest:
        """The manifest with its seal."""
        plain = self.model_copy(update={"seal": ""})
        seal = hashlib.blake2b(plain.text().encode("utf-8"), digest_size=32).hexdigest()
        return plain.model_copy(update={"seal": seal})


@dataclass(frozen=True)
class StoredStage:
    """A complete stage, verified.

    Attributes:
        seconds: Wall-clock when it was computed, in whichever process that was.
        cached: Whether it was found in the store.
        was: Its key before ``bench cache migrate`` gave it another.
    """

    name: str
    path: Path
    key: str
    digest: str
    seconds: float
    cached: bool
    account: Mapping[str, Any]
    was: str = ""

    @property
    def identity(self) -> str:
        """The key by which results know it: migrated stages keep their first, and so do results that stand on them."""
        return self.was or self.key


def write_manifest(
    folder: Path, name: str, key: str, content: KeyContent, *, seconds: float, account: Mapping[str, Any], was: str = ""
) -> StageManifest:
    """Digest the files of a computed stage, and write ``key.json`` and ``stage.json`` beside them."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): file_digest(path) for path in paths}
    (folder / KEY_FILE).write_text(_explanation(name, content), encoding="utf-8")
    backbone = content.get("backbone")
    manifest = StageManifest(
        stage=name,
        key=key,
        digest=folder_digest(files),
        seconds=seconds,
        files=files,
        account=dict(account),
        size=sum(path.stat().st_size for path in paths),
        backbone=backbone if isinstance(backbone, str) else "",
        inputs=tuple(dict.fromkeys(_digests({field: part for field, part in content.items() if field != CODE}))),
        was=was,
        explained=file_digest(folder / KEY_FILE),
    ).sealed()
    (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
    return manifest


def read_manifest(folder: Path) -> StageManifest:
    """The manifest of a stage's folder, its seal checked; the files are not read. Raises CorruptArtefact."""
    try:
        content = (folder / MANIFEST).read_bytes()
        manifest = StageManifest.model_validate_json(content)
    except OSError as fault:
        raise CorruptArtefact(f"the manifest cannot be read: {fault.strerror}", where=str(folder)) from None
    except ValidationError as fault:
        raise CorruptArtefact(
            f"the manifest does not fit its schema: {fault.errors()[0]['msg']}", where=str(folder)
        ) from None
    if manifest.explained and (manifest.text().encode("utf-8") != content or manifest.sealed() != manifest):
        raise CorruptArtefact("the manifest does not match its seal", where=str(folder))
    return manifest


def verified(folder: Path, name: str, key: str) -> StoredStage:
    """A stage whose every byte was read and matches. Raises CorruptArtefact with what does not."""
    manifest = read_manifest(folder)
    if manifest.key != key or manifest.stage != name:
        raise CorruptArtefact("the manifest belongs to another stage", where=str(folder))
    explained = {KEY_FILE: manifest.explained} if manifest.explained else {}
    for relative, digest in {**manifest.files, **explained}.items():
        try:
            actual = file_digest(folder / relative)
        except OSError as fault:
            raise CorruptArtefact(f"{relative} cannot be read: {fault.strerror}", where=str(folder)) from None
        if actual != digest:
            raise CorruptArtefact(f"{relative} does not match its digest", where=str(folder))
    if folder_digest(manifest.files) != manifest.digest:
        raise CorruptArtefact("the manifest does not match its digest", where=str(folder))
    return StoredStage(name, folder, key, manifest.digest, manifest.seconds, True, manifest.account, manifest.was)


def stage_content(folder: Path) -> dict[str, Any]:
    """What a stored stage's key was made of, with its code as the listing of modules, for ``keys.differences``.

    Reads stages of every key version. Raises CorruptArtefact where ``key.json`` cannot be read.
    """
    try:
        told = json.loads((folder / KEY_FILE).read_bytes())
        content = dict(told["content"])
    except (OSError, ValueError, KeyError, TypeError) as fault:
        raise CorruptArtefact(f"the explanation of the key cannot be read: {fault}", where=str(folder)) from None
    return {**content, CODE: told[LISTING]} if LISTING in told else content


def explains(folder: Path, key: str) -> bool:
    """Whether ``key.json`` is what the key was made of: a stage from elsewhere cannot pass for another one."""
    try:
        told = json.loads((folder / KEY_FILE).read_bytes())
        text = canonical({name: told[name] for name in ("key_version", "stage", "content")})
    except (OSError, ValueError, KeyError, TypeError):
        return False
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).hexdigest() == key


def _explanation(name: str, content: KeyContent) -> str:
    """``key.json``: what is hashed, and the listing of the code beside it."""
    told = json.loads(envelope(name, content))
    listing = content.get(CODE)
    if isinstance(listing, Mapping):
        told[LISTING] = json.loads(canonical({CODE: listing}))[CODE]
    return json.dumps(told, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _digests(value: object) -> Iterator[str]:
    """Everything in a content that looks like a digest of 256 bits."""
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _digests(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _digests(part)
    elif isinstance(value, str):
        yield from _DIGEST.findall(value)
