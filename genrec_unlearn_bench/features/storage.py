"""Item features on disk: ``features.safetensors`` and ``features.json``, tied together by a digest."""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO

import numpy as np
from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

__all__ = ["FeaturesRecord", "load_features", "save_features"]

_TENSORS = "features.safetensors"
_RECORD = "features.json"
_MEND = "delete the folder; the features are computed anew"


class FeaturesRecord(StrictModel):
    """What ``features.json`` holds."""

    format: int = 1
    encoder: str
    items: int
    dims: tuple[int, int]
    """Width of the plain and of the scrubbed rows."""
    digest: str
    """``ItemFeatures.digest``."""


def save_features(features: ItemFeatures, folder: Path) -> None:
    """Write the features into ``folder``, which is created if need be.

    Each file appears whole or not at all; a crash between the two leaves a pair that ``load_features`` refuses.

    Raises:
        StorageError: The file system refused.
    """
    record = FeaturesRecord(
        encoder=features.encoder,
        items=len(features.plain),
        dims=(features.plain.shape[1], features.scrubbed.shape[1]),
        digest=features.digest,
    )
    tensors = {"plain": features.plain, "scrubbed": features.scrubbed}
    arrays = {name: np.asarray(rows, dtype=np.float32) for name, rows in tensors.items()}
    _write(folder / _TENSORS, lambda sink: write_tensors(arrays, sink))
    _write(folder / _RECORD, lambda sink: sink.write((record.model_dump_json(indent=2) + "\n").encode()))


def load_features(folder: Path) -> ItemFeatures:
    """Read what ``save_features`` wrote. Large matrices are backed by the file (see ``tensors.read_tensors``).

    Raises:
        CorruptArtefact: A file is missing, broken, or not the one that the record belongs to.
    """
    try:
        record = FeaturesRecord.model_validate_json((folder / _RECORD).read_bytes())
        tensors = read_tensors(folder / _TENSORS)
        features = ItemFeatures(
            np.asarray(tensors["plain"], dtype=np.float32),
            np.asarray(tensors["scrubbed"], dtype=np.float32),
            record.encoder,
        )
    except (OSError, ValidationError, KeyError, ValueError) as fault:
        raise CorruptArtefact(
            f"the stored item features cannot be read ({type(fault).__name__})", where=str(folder), hint=_MEND
        ) from fault
    if features.digest != record.digest or len(features.plain) != record.items:
        raise CorruptArtefact("the stored item features do not match their digest", where=str(folder), hint=_MEND)
    return features


def _write(place: Path, content: Callable[[IO[bytes]], object]) -> None:
    draft = place.with_name(f".{place.name}.{uuid.uuid4().hex[:8]}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as sink:
            content(sink)
        os.replace(draft, place)
    except OSError as fault:
        raise StorageError(
            f"the item features cannot be written: {fault.strerror}",
            where=str(place),
            hint="free some space or mend the permissions, or choose another folder, and run it again",
        ) from fault
    finally:
        # A failure to clean up must not hide the reason for it.
        with contextlib.suppress(OSError):
            draft.unlink(missing_ok=True)
