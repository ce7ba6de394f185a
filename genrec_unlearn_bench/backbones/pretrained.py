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

from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError

if TYPE_CHECKING:
    import torch

_Architecture = Literal["qwen2", "t5"]
"""``model_type`` of a configuration."""

_CLASSES: dict[_Architecture, str] = {"qwen2": "Qwen2ForCausalLM", "t5": "T5ForConditionalGeneration"}
_TOKENIZER_FILES = ("tokenizer.json", "vocab.json", "spiece.model", "tokenizer.model")
_WANTED = ["*.json", "*.safetensors", "tokenizer*", *_TOKENIZER_FILES, "merges.txt"]
_AGAIN = "fetch the model again"


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
    folder = _folder(source)
    with _faults("config.json", source):
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))["model_type"]
    if found != architecture:
        raise UsageError(
            f"the model is of type {found!r}, but this backbone takes {architecture!r} ({_CLASSES[architecture]})",
            where=source,
            hint="choose a checkpoint of that architecture",
        )
    with _quiet():
        model = _model(folder, source, _CLASSES[architecture], dtype)
        tokenizer = _tokenizer(folder, source)
    rows = model.get_input_embeddings().num_embeddings
    highest = max(tokenizer.get_vocab().values(), default=-1)
    if not 0 <= highest < rows:
        raise CorruptArtefact(
            f"tokenizer and weights do not belong together: ids go up to {highest}, and the embedding has {rows} rows",
            where=source,
            hint="take both from the same checkpoint; a tokenizer that was extended needs a resized embedding saved",
        )
    return Pretrained(model.eval(), tokenizer)


def _folder(source: str) -> Path:
    path = Path(source).expanduser()
    if path.is_dir():
        return path
    if path.is_file():
        raise UsageError("a pretrained model is a folder or a hub id, not a file", where=source, hint="give its folder")
    name, _, revision = source.partition("@")
    if not name or source.startswith((".", "/", "~")) or name.count("/") > 1:
        hint = "check the path; a hub id has the form Qwen/Qwen2.5-0.5B"
        raise DataMissing("there is no such folder", where=source, hint=hint)
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=_WANTED, ignore_patterns="*/*"))
    except Exception as fault:  # The hub's client lets errors of its HTTP library through, which share no base class.
        raise DataMissing(
            f"the model is not on this machine and could not be fetched: {_first_line(fault)}",
            where=source,
            hint="check its name and the network (and HF_HUB_OFFLINE), log in with `hf auth login` if the model asks "
            "for consent, or give the folder of a downloaded model",
        ) from fault


def _model(folder: Path, source: str, name: str, dtype: torch.dtype | None) -> Any:
    import torch
    import transformers

    with _faults("weights", source):
        model, report = getattr(transformers, name).from_pretrained(
            str(folder),
            local_files_only=True,
            use_safetensors=True,
            trust_remote_code=False,
            dtype=dtype or torch.float32,
            output_loading_info=True,
        )
    missing = sorted(report["missing_keys"])
    if missing:
        # Hugging Face only warns and draws missing weights at random.
        raise CorruptArtefact(
            f"{len(missing)} weights of a {name} are not in the files, {missing[0]} first",
            where=source,
            hint="the weights are those of another architecture, or of a part of the model; choose a complete one",
        )
    model.generation_config = transformers.GenerationConfig()  # type: ignore[no-untyped-call]
    return model


def _tokenizer(folder: Path, source: str) -> Any:
    from transformers import AutoTokenizer

    if not any((folder / name).is_file() for name in _TOKENIZER_FILES):
        raise DataMissing(
            f"the folder holds no tokenizer ({', '.join(_TOKENIZER_FILES)})",
            where=source,
            hint="save the tokenizer beside the weights: tokenizer.save_pretrained(folder)",
        )
    with _faults("tokenizer", source):
        return AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)


@contextmanager
def _faults(what: str, source: str) -> Iterator[None]:
    """Name the part of a model that is missing or damaged."""
    try:
        yield
    except OSError as fault:
        hint = f"{_AGAIN}; one without safetensors has to be converted, as pickles are never opened"
        raise DataMissing(f"{what} cannot be loaded: {_first_line(fault)}", where=source, hint=hint) from fault
    except Exception as fault:  # The tokenizers library raises plain Exception for a file that does not parse.
        said = f"{what} cannot be loaded: {_first_line(fault)}"
        raise CorruptArtefact(said, where=source, hint=f"a file is damaged or fits no other; {_AGAIN}") from fault


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep transformers from drawing bars and printing its loading report: what matters of it is raised."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]
