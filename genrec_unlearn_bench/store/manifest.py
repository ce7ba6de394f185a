"""Keys of stages, and the two files stored with a stage's own: ``key.json``, the recipe of its key, and ``stage.json``.

A key is blake2b-256 over the canonical JSON of everything that can change the outcome of a stage, so it is the same on
every machine, operating system and Python version; two keys differ where their recipes differ. The manifest
``stage.json`` holds the digest of every file and of itself, so that no byte of a stored stage can change unnoticed.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import file_digest, folder_digest, storage_error, write_json

MANIFEST = "stage.json"
KEY_FILE = "key.json"

_DAMAGE = frozenset({errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP})
"""Failures to open a file that mean damage. Others (no permission, too many open files) say nothing about the file."""

KEY_VERSION = 3
"""Raised only when the way keys are made changes: every stored stage is then computed again."""

_SCALARS = frozenset({bool, int, str, type(None)})


def plain(value: object, place: str = "value") -> Any:
    """The JSON value of a model (by its fields), mapping, sequence or scalar; ``place`` names it in errors.

    Raises ValueError for NaN, infinities, names that are no strings, NumPy scalars and other types.
    """
    if type(value) in _SCALARS:
        return value
    if isinstance(value, BaseModel):
        return _plain_model(value, place)
    if isinstance(value, dict | Mapping):
        if set(map(type, value)) - {str} and not all(isinstance(name, str) for name in value):
            raise ValueError(f"{place}: names must be strings")
        return {
            str(name): part if type(part) in _SCALARS else plain(part, f"{place}.{name}")
            for name, part in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(part, f"{place}[{index}]") for index, part in enumerate(value)]
    if isinstance(value, str):
        return str(value)
    # The exact type: a NumPy scalar is a float by inheritance, and its repr is not a float's.
    if type(value) is float and math.isfinite(value):
        return value
    raise ValueError(f"{place}: {type(value).__name__} has no canonical form")


_MODELS: dict[int, tuple[BaseModel, Any]] = {}
"""Values of configuration models by identity, which is unique while they are kept here: a plan makes the keys of
thousands of cells from a few dozen frozen models."""


def _plain_model(model: BaseModel, place: str) -> Any:
    known = _MODELS.get(id(model))
    if known is None:
        if len(_MODELS) > 4096:
            _MODELS.clear()
        known = _MODELS[id(model)] = (model, plain(model.model_dump(mode="json"), place))
    return known[1]


def canonical(value: object) -> str:
    """Sorted, compact, ASCII JSON of ``plain(value)``; floats by ``repr``. Raises ValueError as ``plain`` does."""
    return _ENCODER.encode(plain(value))


def content_key(recipe: Mapping[str, Any]) -> str:
    """The key of a recipe, 64 hex digits. The recipe's values are plain already: keys are made by the thousand."""
    text = _ENCODER.encode({"key_version": KEY_VERSION, **recipe})
    return hashlib.blake2b(text.encode("ascii"), digest_size=32).hexdigest()


def differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Fields in which two recipes differ by dotted name, sorted: ``config.lr`` -> ``0.1 then, 0.2 now``."""
    left, right = dict(_leaves(plain(then))), dict(_leaves(plain(now)))
    missing = object()
    # By repr: 1, 1.0 and True are equal, and their keys differ.
    names = sorted(
        name for name in left.keys() | right.keys() if repr(left.get(name, missing)) != repr(right.get(name, missing))
    )
    return {name: f"{_shown(left, name)} then, {_shown(right, name)} now" for name in names}


def _shown(leaves: Mapping[str, object], name: str) -> str:
    value = leaves.get(name, "absent")
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}…"


class StageManifest(StrictModel, extra="ignore"):
    """The manifest of a stored stage."""

    stage: str
    key: str
    digest: str
    """blake2b-256 over the files' names and digests, without key.json and this file."""
    seconds: float
    """Wall-clock of the computation."""
    files: dict[str, str]
    """Relative path -> blake2b-256."""
    facts: dict[str, Any]
    """Facts about the computation (time, memory); no digest or key depends on them."""
    size: int
    """Bytes of all files together."""
    inputs: tuple[str, ...]
    """Keys of the stages it was made from."""
    recipe_digest: str
    """blake2b-256 of ``key.json``."""
    seal: str = ""
    """blake2b-256 of this file with an empty seal."""


def _sealed(content: Mapping[str, Any]) -> bytes:
    """The bytes of a manifest, its seal set."""

    def text(seal: str) -> bytes:
        return (json.dumps({**content, "seal": seal}, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()

    return text(hashlib.blake2b(text(""), digest_size=32).hexdigest())


@dataclass(frozen=True)
class StoredStage:
    """A complete stage, verified; ``cached`` where it was found in the store, not computed by this call."""

    name: str
    path: Path
    key: str
    digest: str
    seconds: float
    cached: bool
    facts: Mapping[str, Any]


def write_manifest(
    folder: Path, name: str, key: str, recipe: Mapping[str, Any], *, seconds: float, facts: Mapping[str, Any]
) -> StageManifest:
    """Digest the files of a computed stage, and write ``key.json`` and ``stage.json`` beside them."""
    paths = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = {path.relative_to(folder).as_posix(): file_digest(path) for path in paths}
    write_json(folder / KEY_FILE, {"key_version": KEY_VERSION, **recipe})
    manifest = StageManifest(
        stage=name,
        key=key,
        digest=folder_digest(files),
        seconds=seconds,
        files=files,
        facts=dict(facts),
        size=sum(path.stat().st_size for path in paths),
        inputs=tuple(dict.fromkeys(recipe.get("inputs", {}).values())),
        recipe_digest=file_digest(folder / KEY_FILE),
    )
    (folder / MANIFEST).write_bytes(_sealed(manifest.model_dump(mode="json")))
    return manifest


def read_manifest(folder: Path) -> StageManifest:
    """The manifest of a stage's folder, its seal checked; the files are not read.

    Raises CorruptArtefact for one that is damaged, StorageError for one that may not be read.
    """
    path = folder / MANIFEST
    try:
        content = path.read_bytes()
        fields = json.loads(content)
        manifest, sealed = StageManifest.model_validate(fields), _sealed(fields)
    except OSError as fault:
        raise _unreadable(fault, path, folder) from fault
    except (ValueError, RecursionError) as fault:
        raise CorruptArtefact(f"the manifest cannot be read: {fault}", where=str(folder)) from None
    if sealed != content:
        raise CorruptArtefact("the manifest does not match its seal", where=str(folder))
    return manifest


def verified(folder: Path, name: str, key: str) -> StoredStage:
    """A stage whose every byte was read and matches. Raises as ``read_manifest`` does."""
    manifest = read_manifest(folder)
    if manifest.key != key or manifest.stage != name:
        raise CorruptArtefact("the manifest belongs to another stage", where=str(folder))
    for relative, digest in {**manifest.files, KEY_FILE: manifest.recipe_digest}.items():
        try:
            actual = file_digest(folder / relative)
        except OSError as fault:
            raise _unreadable(fault, folder / relative, folder) from fault
        if actual != digest:
            raise CorruptArtefact(f"{relative} does not match its digest", where=str(folder))
    return StoredStage(name, folder, key, manifest.digest, manifest.seconds, True, manifest.facts)


def read_recipe(folder: Path) -> dict[str, Any]:
    """The recipe of a stored stage's key. Raises CorruptArtefact or StorageError where it cannot be read."""
    path = folder / KEY_FILE
    try:
        recipe = dict(json.loads(path.read_bytes()))
    except OSError as fault:
        raise _unreadable(fault, path, folder) from fault
    except (ValueError, TypeError, RecursionError) as fault:
        raise CorruptArtefact(f"the recipe of the key cannot be read: {fault}", where=str(path)) from None
    # Of another version it stays, as a field in which the two differ.
    return {name: part for name, part in recipe.items() if (name, part) != ("key_version", KEY_VERSION)}


def _unreadable(fault: OSError, path: Path, folder: Path) -> Exception:
    if fault.errno in _DAMAGE:
        relative = path.relative_to(folder).as_posix()
        return CorruptArtefact(f"{relative} cannot be read: {fault.strerror}", where=str(folder))
    return storage_error(fault, path, "--cache-dir", verb="read") or fault


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def _leaves(value: object, name: str = "") -> Iterator[tuple[str, object]]:
    if isinstance(value, dict) and value:
        for part, inner in value.items():
            yield from _leaves(inner, f"{name}.{part}" if name else part)
    else:
        yield name, value
