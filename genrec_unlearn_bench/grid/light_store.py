"""Looks into a store without reading more than manifests, and without changing anything: no digest is taken, nothing is
moved aside, nothing is waited for.

What a plan says about a damaged file is therefore found out only by the run, which makes the stage anew.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel

from genrec_unlearn_bench.grid.differences import CODE
from genrec_unlearn_bench.store.keys import canonical, envelope, hashed
from genrec_unlearn_bench.store.store import StoredStage

if TYPE_CHECKING:
    from genrec_unlearn_bench.store.keys import KeyContent, KeyValue
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["Keys", "LightStore"]

MANIFEST = "stage.json"


class LightStore:
    """A store's stages by their manifests, each read once."""

    def __init__(self, store: StageStore) -> None:
        self._store = store
        self._found: dict[tuple[str, str], StoredStage | None] = {}

    def stage(self, name: str, key: str) -> StoredStage | None:
        """The stage; None where there is none, or where its manifest does not fit."""
        place = (name, key)
        if place not in self._found:
            self._found[place] = self._read(name, key)
        return self._found[place]

    def _read(self, name: str, key: str) -> StoredStage | None:
        folder = self._store.folder(name, key)
        found = _read(folder, name, key)
        below = getattr(self._store, "shared", None)
        if found is None and below is not None and below != self._store.root:
            found = _read(below / folder.relative_to(self._store.root), name, key)
        return found


def _read(folder: Path, name: str, key: str) -> StoredStage | None:
    try:
        with open(os.path.join(folder, MANIFEST), "rb") as handle:
            told = json.loads(handle.read())
        fits = told["stage"] == name and told["key"] == key and isinstance(told["files"], dict)
        account = told["account"]
        if not (fits and isinstance(told["digest"], str) and isinstance(account, dict)):
            return None
        if "size" in told:
            account = {**account, "size": told["size"]}
        stage = StoredStage(name, folder, key, told["digest"], float(told["seconds"]), True, account)
        was = told.get("was", "")
        return StoredStage(**{**vars(stage), "was": was}) if was else stage
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Keys:
    """``content_key`` for many contents that share their parts: how a configuration or a listing of code is written is
    worked out once."""

    def __init__(self) -> None:
        self._models: dict[tuple[str, int], tuple[BaseModel, str]] = {}
        self._codes: dict[tuple[tuple[str, object], ...], tuple[KeyValue, str]] = {}
        self._forms: dict[tuple[str, bool], tuple[str, str]] = {}

    def key(self, name: str, content: KeyContent) -> str:
        """The same as ``content_key``, to the bit."""
        before, behind = self._form(name, CODE in content)
        body = ",".join([self._written(field, content[field]) for field in sorted(content)])
        return hashlib.blake2b(f"{before}{body}{behind}".encode("ascii"), digest_size=32).hexdigest()

    def shared(self, content: KeyContent) -> KeyContent:
        """The same content, with one listing of code in memory for all contents that have it."""
        code = content.get(CODE)
        return {**content, CODE: self._code(code)[0]} if isinstance(code, Mapping) else content

    def _form(self, name: str, code: bool) -> tuple[str, str]:
        """What stands before and behind the fields of a stage's content."""
        if (name, code) not in self._forms:
            # The fields are cut out of a real envelope, so that its rules are written in one place.
            known = canonical({CODE: "0"} if code else {"0": "0"})[1:-1]
            before, behind = envelope(name, {CODE: "0"} if code else {"0": "0"}).split(known)
            self._forms[name, code] = before, behind
        return self._forms[name, code]

    def _written(self, field: str, value: KeyValue) -> str:
        if isinstance(value, str):
            return f"{json.dumps(field)}:{json.dumps(value)}"
        if isinstance(value, BaseModel):
            known = self._models.get((field, id(value)))
            # The model is kept beside its text, so that its place in memory is not given to another.
            if known is None:
                known = self._models[field, id(value)] = (value, canonical({field: value})[1:-1])
            return known[1]
        if field == CODE and isinstance(value, Mapping):
            return self._code(value)[1]
        return canonical({field: value})[1:-1]

    def _code(self, value: Mapping[str, KeyValue]) -> tuple[KeyValue, str]:
        """A listing of code, the same object for equal ones, and how keys write it."""
        listing = tuple(value.items())
        if listing not in self._codes:
            self._codes[listing] = (value, canonical({CODE: hashed({CODE: value})[CODE]})[1:-1])
        return self._codes[listing]
