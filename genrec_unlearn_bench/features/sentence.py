"""Sentence-transformers models: from a package, a folder or the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import BenchError, DataMissing, MissingExtra
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, minilm_folder
from genrec_unlearn_bench.features.item_features import unit_rows
from genrec_unlearn_bench.progress import Progress

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_UNUSED = ["onnx/*", "openvino/*"]


@dataclass(frozen=True)
class SentenceEncoder:
    """A model loaded on first use. Weights are read from safetensors alone, and no code out of a model is run."""

    spec: EncoderSpec
    device: str = "cpu"
    batch: int = 32

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """[N, D] float32, unit rows. Texts longer than the model takes are cut by it."""
        order = sorted(range(len(texts)), key=lambda row: -len(texts[row]))
        batches = [order[start : start + self.batch] for start in range(0, len(order), self.batch)]
        out: NDArray[np.float32] | None = None
        for rows in progress.track("encoding item texts", batches, total=len(batches)):
            found = self._model.encode(
                [texts[row] for row in rows], batch_size=self.batch, convert_to_numpy=True, show_progress_bar=False
            )
            if out is None:
                out = np.zeros((len(texts), found.shape[1]), dtype=np.float32)
            out[rows] = unit_rows(found)
        return np.zeros((0, 0), dtype=np.float32) if out is None else out

    @cached_property
    def _model(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
            from transformers.utils import logging
        except ImportError as fault:
            raise MissingExtra("sentence-transformers", "text", f"the encoder {self.spec.key!r}") from fault
        folder = self._folder()
        try:
            # transformers would draw a bar of its own across ours.
            logging.disable_progress_bar()  # type: ignore[no-untyped-call]
            return SentenceTransformer(
                str(folder), device=self.device, local_files_only=True, model_kwargs={"use_safetensors": True}
            )
        except (OSError, ValueError, RuntimeError, KeyError, ImportError) as fault:
            raise BenchError(
                f"the text encoder cannot be loaded: {_first_line(fault)}",
                where=self.spec.model if self.spec.source == "hub" else str(folder),
                hint="it must be a sentence-transformers model with safetensors weights; minilm and tfidf always work",
            ) from fault

    def _folder(self) -> Path:
        if self.spec.source == "minilm":
            return minilm_folder()
        if self.spec.source == "folder":
            return Path(self.spec.model or "")
        from huggingface_hub import snapshot_download

        try:
            # One look-up, no retries: without a network this fails at once, or finds what an earlier run has fetched.
            model, revision = self.spec.model or "", self.spec.revision
            return Path(snapshot_download(model, revision=revision, allow_patterns=_FILES, ignore_patterns=_UNUSED))
        except (OSError, ValueError) as fault:
            raise DataMissing(
                f"the text encoder {self.spec.model!r} is not on this machine and could not be fetched: "
                f"{_first_line(fault)}",
                where=self.spec.key,
                hint="check its name and the network; or give the folder of a downloaded model "
                "(--encoder path/to/model); or take an encoder that needs no network: minilm (a package) or tfidf",
            ) from fault


def _first_line(fault: BaseException) -> str:
    return (str(fault).strip().splitlines() or [type(fault).__name__])[0]
