"""Prompts as token ids: templates tokenised once, histories written as left-padded rows, for SIDs and titles alike.

They follow Alpaca (instruction, input, response). Their pieces are tokenised one by one. For SIDs, whose tokens no text
tokenizer merges with anything, that is what tokenising the whole would give; between titles a space may go to another
token.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence


@dataclass(frozen=True)
class Template:
    """One task's prompt, with the items between ``before`` and ``after``."""

    instruction: str
    before: str
    after: str

    @property
    def head(self) -> str:
        return f"{_PREAMBLE}\n\n### Instruction:\n{self.instruction}\n\n### User Input:\n{self.before}"

    @property
    def tail(self) -> str:
        return f"{self.after}\n\n### Response:\n"


_PREAMBLE = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request."
)
_NEXT = "Can you predict the next possible item that the user may expect?"
_TITLE = "Can you predict the title of the next item that the user may expect?"
_READ_TITLES = "The user has interacted with items of these titles: "
_READ, _ASK = "The user has interacted with items ", f" in chronological order. {_NEXT}"
TEMPLATES = {
    "next_item": Template(_NEXT, _READ, _ASK),
    "title_to_sid": Template("Answer with the identifier of the item.", "Which item has the title: ", "?"),
    "sid_to_title": Template("Answer with the title of the item.", "What is the title of item ", "?"),
    "next_title": Template(_TITLE, _READ, _ASK),
    "titles_to_sid": Template(_NEXT, _READ_TITLES, _ASK),
    "titles_to_title": Template(_TITLE, _READ_TITLES, _ASK),
    "unseen": Template(
        _NEXT,
        "Can you predict the next possible item the user may expect, given the following chronological interaction "
        "history: ",
        "",
    ),
}
"""The six supervised tasks, and the official evaluation's words (``unseen``); ``CausalRecommender.prompts`` chooses."""
BETWEEN, NO_ITEMS = ", ", "nothing yet"
"""Between two items, and in place of a history without any."""
UNTITLED = "an item without a title"
"""Stands for a missing title in a history; items without one make no samples of their own."""


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

    def before(self, end: int) -> PromptBatch:
        """The positions before ``end``."""
        return PromptBatch(*(getattr(self, field.name)[:, :end] for field in fields(self)))


def batch_prompts(prompt: Prompt, table: Tensor, items: Tensor) -> PromptBatch:
    """Write histories of items [B, T] (-1 behind the last) as one batch; ``table`` [N, W] holds the tokens of every
    item, -1 behind the end of a shorter one."""
    device = items.device
    filled = items >= 0
    body = table[items.clamp_min(0)].masked_fill(~filled[..., None], -1)  # [B, T, W]
    follows = torch.cat([filled[:, 1:], torch.zeros_like(filled[:, :1])], 1)[:, : items.shape[1]]
    gaps = torch.tensor(prompt.separator, dtype=torch.long, device=device).expand(*items.shape, -1)
    cells = torch.cat([body, gaps.masked_fill(~follows[..., None], -1)], 2)  # [B, T, W + s]
    level = torch.arange(cells.shape[2], device=device)
    level = level.masked_fill(level >= table.shape[1], -1).expand_as(cells)
    place = torch.arange(items.shape[1], device=device)[:, None].expand_as(cells).masked_fill(level < 0, -1)
    owner = items[..., None].expand_as(cells).masked_fill(level < 0, -1)
    head = torch.tensor(prompt.head, dtype=torch.long, device=device).expand(len(items), -1)
    tail = padded([prompt.tail, prompt.empty]).to(device)[(~filled.any(1)).long()]
    inside = torch.stack([cells, owner, place, level], -1).flatten(1, 2)
    rows = torch.cat([_outside(head), inside, _outside(tail)], 1)  # [B, S', 4]
    mask = rows[..., 0] >= 0
    order = mask.long().argsort(dim=1, stable=True)[:, rows.shape[1] - int(mask.sum(1).max()) :]
    mask = mask.gather(1, order)
    rows = rows.gather(1, order[..., None].expand(-1, -1, 4)).masked_fill(~mask[..., None], -1)
    tokens, owner, place, level = rows.unbind(-1)
    return PromptBatch(tokens.clamp_min(0), mask, owner, place, level)


def _outside(tokens: Tensor) -> Tensor:
    """[B, m, 4] tokens that belong to no item."""
    return F.pad(tokens[..., None], (0, 3), value=-1)


def padded(rows: Sequence[Sequence[int]]) -> Tensor:
    """[n, W] token ids, -1 behind the end of a shorter row."""
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=-1)


_FILE = "tokenizer.json"


@dataclass(frozen=True, eq=False)
class PromptTokenizer:
    """Tokenises prompts and titles. SIDs have tokens of their own behind the text vocabulary."""

    tokenizer: Tokenizer
    prompts: dict[str, Prompt]
    """By the name in ``TEMPLATES``."""
    ending: tuple[int, ...]
    """Tokens behind a response in training: a newline and the end of the sequence. They are never scored."""

    @classmethod
    def of(cls, tokenizer: Any, end: int | None) -> PromptTokenizer:
        """``tokenizer``: of the tokenizers library; ``end``: its end-of-sequence id, if it has one."""

        def ids(text: str) -> tuple[int, ...]:
            return tuple(tokenizer.encode(text, add_special_tokens=False).ids)

        prompts = {
            name: Prompt(ids(one.head), ids(BETWEEN), ids(one.tail), ids(NO_ITEMS + one.tail))
            for name, one in TEMPLATES.items()
        }
        return cls(tokenizer, prompts, ids("\n") + (() if end is None else (end,)))

    def table(self, texts: Sequence[str], limit: int) -> Tensor:
        """[n, W] tokens of texts, cut to ``limit`` and -1 behind their ends; W is at least 1."""
        found = [one.ids[:limit] for one in self.tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        return padded([*found, [-1]])[:-1]

    def save(self, folder: Path) -> None:
        self.tokenizer.save(str(folder / _FILE))

    @classmethod
    def load(cls, folder: Path, end: int | None) -> PromptTokenizer:
        return cls.of(Tokenizer.from_file(str(folder / _FILE)), end)
