"""The text side of a recommender that reads titles: its tokenizer, its prompts in tokens, and how a response ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.prompt import Prompt
from genrec_unlearn_bench.backbones.minionerec.words import PromptWords, TaskWords
from genrec_unlearn_bench.errors import CorruptArtefact

__all__ = ["TextSide"]

_FILE = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class TextSide:
    """Words to tokens. SIDs have tokens of their own behind those of the tokenizer, so it never meets one.

    Attributes:
        prompts: Prompt of each task, by its name in ``TaskWords``.
        ending: Tokens behind a response in training: a newline and the end of the sequence. They are never scored.
    """

    tokenizer: Tokenizer
    prompts: dict[str, Prompt]
    ending: tuple[int, ...]

    @classmethod
    def of(cls, tokenizer: Any, words: TaskWords, end: int | None) -> TextSide:
        """``tokenizer``: of the tokenizers library; ``end``: its end-of-sequence id, if it has one."""
        ids = _encoder(tokenizer)
        prompts = {
            name: _prompt(value, ids)
            for name in type(words).model_fields
            if isinstance(value := getattr(words, name), PromptWords)
        }
        return cls(tokenizer, prompts, ids("\n") + (() if end is None else (end,)))

    def table(self, texts: Sequence[str], limit: int) -> Tensor:
        """[n, W] tokens of texts, cut to ``limit`` and -1 behind their ends; W is at least 1."""
        found = [one.ids[:limit] for one in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        width = max([1, *map(len, found)])
        return torch.tensor([row + [-1] * (width - len(row)) for row in found], dtype=torch.long).view(-1, width)

    def save(self, folder: Path) -> None:
        """Write the tokenizer beside the weights."""
        self.tokenizer.save(str(folder / _FILE))

    @classmethod
    def load(cls, folder: Path, words: TaskWords, end: int | None) -> TextSide:
        """The inverse of ``save``. Raises CorruptArtefact."""
        try:
            tokenizer = Tokenizer.from_file(str(folder / _FILE))
        except Exception as fault:  # The library raises plain Exception.
            raise CorruptArtefact(
                f"the tokenizer of a saved recommender cannot be read: {fault}",
                where=str(folder / _FILE),
                hint="delete the folder and run again",
            ) from fault
        return cls.of(tokenizer, words, end)


def _encoder(tokenizer: Any) -> Any:
    return lambda text: tuple(tokenizer.encode(text, add_special_tokens=False).ids)


def _prompt(words: PromptWords, ids: Any) -> Prompt:
    return Prompt(ids(words.head), ids(words.separator), ids(words.tail), ids(words.empty + words.tail))
