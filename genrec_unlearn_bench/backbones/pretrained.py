"""Load a pretrained text model and its tokenizer, from the hub or a folder.

Weights are read from safetensors alone: nothing is unpickled, and no code from a model's folder is run. A checkpoint's
``generation_config`` is dropped: decoding has settings of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE, offline
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError

if TYPE_CHECKING:
    import torch

_Architecture = Literal["qwen2", "t5"]
"""``model_type`` of a configuration."""

_CLASSES: dict[_Architecture, str] = {"qwen2": "Qwen2ForCausalLM", "t5": "T5ForConditionalGeneration"}
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "spiece.model", "tokenizer.model")
_WANTED = ["*.json", "*.safetensors", "tokenizer*", *_TOKENIZER_FILES, "merges.txt"]


@dataclass(frozen=True, eq=False)
class Pretrained:
    """A checkpoint: the model, in eval mode on the CPU, and its tokenizer, whose ids all have an embedding row."""

    model: Any
    tokenizer: Any


def load_pretrained(source: str, architecture: _Architecture, *, dtype: torch.dtype | None = None) -> Pretrained:
    """Load the model and the tokenizer of ``source``.

    Args:
        source: A local folder, or a hub id (``Qwen/Qwen2.5-0.5B``), with ``@revision`` behind it if need be.
        dtype: Type of the weights; float32 where none is given, whatever the checkpoint was saved in.

    Raises:
        DataMissing: The model is neither a folder here nor to be had from the hub, or its folder lacks a file.
        UsageError: It is a model of another architecture.
        CorruptArtefact: A file does not parse, weights are missing or of other shapes, or the tokenizer has ids beyond
            the embedding.
    """
    with _faults("the model", source):
        folder = _folder(source)
    import torch
    import transformers
    from transformers import AutoTokenizer

    place: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    with _faults("config.json", source):
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    if found != architecture:
        raise UsageError(
            f"the model is of type {found!r}, but this backbone takes {architecture!r} ({_CLASSES[architecture]})",
            where=source,
            hint="choose a checkpoint of that architecture",
        )
    transformers.logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    with _faults("weights", source):
        model, report = getattr(transformers, _CLASSES[architecture]).from_pretrained(
            str(folder), use_safetensors=True, dtype=dtype or torch.float32, output_loading_info=True, **place
        )
    with _faults("tokenizer", source):
        # Without files transformers makes a tokenizer up.
        if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
            raise FileNotFoundError(f"the folder holds none of {', '.join(_TOKENIZER_FILES)}")
        tokenizer = AutoTokenizer.from_pretrained(str(folder), **place)
    # transformers only warns of missing weights, and draws them at random.
    missing, rows = sorted(report["missing_keys"]), model.get_input_embeddings().num_embeddings
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if missing or not 0 <= highest < rows:
        weights = f"{len(missing)} weights are not in the files, {missing[:1]} first"
        ids = f"the tokenizer's ids go up to {highest}, and the embedding has {rows} rows"
        raise CorruptArtefact(
            weights if missing else ids,
            where=source,
            hint="choose a complete model of that architecture, saved together with its tokenizer",
        )
    model.generation_config = transformers.GenerationConfig()  # type: ignore[no-untyped-call]
    return Pretrained(model.eval(), tokenizer)


def _folder(source: str) -> Path:
    if Path(source).expanduser().is_dir():
        return Path(source).expanduser()
    from huggingface_hub import snapshot_download

    name, _, revision = source.partition("@")
    wanted: dict[str, Any] = {"allow_patterns": _WANTED, "ignore_patterns": "*/*", "local_files_only": offline()}
    return Path(snapshot_download(name, revision=revision or None, **wanted))


@contextmanager
def _faults(what: str, source: str) -> Iterator[None]:
    """Name the part of a model that is missing or damaged."""
    try:
        yield
    except Exception as fault:  # The hub's client and the tokenizers library raise errors that share no base class.
        said = f"{what} cannot be loaded: {(str(fault).strip().splitlines() or [type(fault).__name__])[0]}"
        hint = "give the folder of a complete model in safetensors (pickles are never opened), or a hub id within reach"
        hint += f" ({OFFLINE_VARIABLE} switches downloads off)" if offline() else ""
        kind = DataMissing if what == "the model" or isinstance(fault, OSError) else CorruptArtefact
        raise kind(said, where=source, hint=hint) from fault
