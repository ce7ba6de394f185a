"""Prompts as token ids: templates tokenised once, histories written as left-padded rows, for SIDs and titles alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor

from genrec_unlearn_bench.backbones.minionerec.backbone import PromptTemplate, TaskTemplates


@dataclass(frozen=True)
class Prompt:
    """Token ids before, between and behind the items of a history."""

    head: tuple[int, ...]
    """Never empty."""
    separator: tuple[int, ...]
    tail: tuple[int, ...]
    empty: tuple[int, ...]
    """Behind ``head``, in place of items and tail, where a history has no item."""


@dataclass(frozen=True, eq=False)
class PromptBatch:
    """B prompts of S positions, padded on the left; all fields are [B, S]."""

    tokens: Tensor
    """Vocabulary ids; 0 where ``mask`` is False."""
    mask: Tensor
    """True at real positions."""
    items: Tensor
    """The item whose token stands there, -1 elsewhere."""
    places: Tensor
    """That item's place in the history from 0, -1 elsewhere."""
    levels: Tensor
    """The token's place in the item from 0, -1 elsewhere."""


def batch_prompts(prompt: Prompt, table: Tensor, items: Tensor) -> PromptBatch:
    """Write histories as one batch of prompts.

    Args:
        table: [N, W] tokens of every item, -1 behind the end of a shorter one.
        items: [B, T] item ids, -1 behind the last one.
    """
    count, width = items.shape[0], table.shape[1]
    device = items.device
    filled = items >= 0
    body = table[items.clamp_min(0)].masked_fill(~filled[..., None], -1)  # [B, T, W]
    follows = torch.cat([filled[:, 1:], torch.zeros_like(filled[:, :1])], 1)[:, : items.shape[1]]
    gaps = _row(prompt.separator, device).expand(*items.shape, -1).masked_fill(~follows[..., None], -1)
    cells = torch.cat([body, gaps], 2)  # [B, T, W + s]
    step = cells.shape[2]
    level = torch.full((step,), -1, dtype=torch.long, device=device)
    level[:width] = torch.arange(width, device=device)
    at_item = level >= 0
    place = torch.arange(items.shape[1], device=device)[:, None].expand(-1, step).masked_fill(~at_item, -1)
    owner = items[..., None].expand(-1, -1, step).masked_fill(~at_item, -1)
    head = _row(prompt.head, device).expand(count, -1)
    tail = _ends(prompt, device)[(~filled.any(1)).long()]
    tokens = torch.cat([head, cells.flatten(1), tail], 1)
    places, levels = place.flatten().expand(count, -1), level.repeat(items.shape[1]).expand(count, -1)
    outside = torch.full_like(head, -1), torch.full_like(tail, -1)
    rest = [torch.cat([outside[0], values, outside[1]], 1) for values in (owner.flatten(1), places, levels)]
    mask = tokens >= 0
    order = mask.long().argsort(dim=1, stable=True)[:, tokens.shape[1] - int(mask.sum(1).max()) :]
    tokens, mask, owner, places, levels = (values.gather(1, order) for values in (tokens, mask, *rest))
    hidden = ~mask
    return PromptBatch(
        tokens.masked_fill(hidden, 0), mask, *(values.masked_fill(hidden, -1) for values in (owner, places, levels))
    )


def _row(tokens: Sequence[int], device: torch.device) -> Tensor:
    return torch.tensor(tokens, dtype=torch.long, device=device)


def _ends(prompt: Prompt, device: torch.device) -> Tensor:
    """[2, m] the tail, and what stands for an empty history, -1 behind their ends."""
    width = max(len(prompt.tail), len(prompt.empty))
    return torch.stack([_row((*end, *[-1] * (width - len(end))), device) for end in (prompt.tail, prompt.empty)])


_FILE = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    """Tokenises prompts and titles. SIDs have tokens of their own behind the text vocabulary."""

    tokenizer: Tokenizer
    prompts: dict[str, Prompt]
    """By the task's name in ``TaskTemplates``."""
    ending: tuple[int, ...]
    """Tokens behind a response in training: a newline and the end of the sequence. They are never scored."""

    @classmethod
    def of(cls, tokenizer: Any, words: TaskTemplates, end: int | None) -> PromptTokenizer:
        """``tokenizer``: of the tokenizers library; ``end``: its end-of-sequence id, if it has one."""

        def ids(text: str) -> tuple[int, ...]:
            return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

        prompts = {
            name: Prompt(ids(one.head), ids(one.separator), ids(one.tail), ids(one.empty + one.tail))
            for name in type(words).model_fields
            if isinstance(one := getattr(words, name), PromptTemplate)
        }
        return cls(tokenizer, prompts, ids("\n") + (() if end is None else (end,)))

    def table(self, texts: Sequence[str], limit: int) -> Tensor:
        """[n, W] tokens of texts, cut to ``limit`` and -1 behind their ends; W is at least 1."""
        found = [one.ids[:limit] for one in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        width = max([1, *map(len, found)])
        return torch.tensor([row + [-1] * (width - len(row)) for row in found], dtype=torch.long).view(-1, width)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / _FILE))

    @classmethod
    def load(cls, folder: Path, words: TaskTemplates, end: int | None) -> PromptTokenizer:
        return cls.of(Tokenizer.from_file(str(folder / _FILE)), words, end)
