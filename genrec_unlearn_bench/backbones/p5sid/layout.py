"""Prompts as token ids, and where their parts stand: words, the user, the history, more words.

A prompt is up to five runs of fixed words around two blanks, the user's word and the history. A batch lays all of them
side by side in slots of equal width, fills what each row has, and then moves the filled slots together to the left, so
that every row is what the same prompt alone would be: T5's attention goes by distance, so a hole would change it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.p5sid.words import END_OF_PROMPT, TextTokens
from genrec_unlearn_bench.config import StrictModel

__all__ = ["PromptTensors", "PromptTokens", "Run", "packed", "prompt_tokens"]


class Run(StrictModel):
    """Some words in a row."""

    ids: tuple[int, ...] = ()
    """Token ids."""
    firsts: tuple[bool, ...] = ()
    """Whether a token begins a word."""


class PromptTokens(StrictModel):
    """One prompt: words, a blank, words, the other blank, words and the end."""

    before: Run
    between: Run
    after: Run
    user_first: bool
    """Which of the two blanks comes first."""


def prompt_tokens(template: str, text: TextTokens) -> PromptTokens:
    """Read a template; raises ValueError unless it has ``{user}`` and ``{history}`` once each."""
    words = template.split()
    if sorted(word for word in words if word.startswith("{")) != ["{history}", "{user}"]:
        raise ValueError(f"a prompt names {{user}} and {{history}} once each: {template!r}")
    user, history = words.index("{user}"), words.index("{history}")
    first, second = min(user, history), max(user, history)
    after = _run(words[second + 1 :], text)
    return PromptTokens(
        before=_run(words[:first], text),
        between=_run(words[first + 1 : second], text),
        # The end of the sequence belongs to no word.
        after=Run(ids=(*after.ids, END_OF_PROMPT), firsts=(*after.firsts, False)),
        user_first=user < history,
    )


def _run(words: list[str], text: TextTokens) -> Run:
    written = [text.word(word) for word in words]
    return Run(
        ids=tuple(token for word in written for token in word),
        firsts=tuple(place == 0 for word in written for place in range(len(word))),
    )


@dataclass(frozen=True, eq=False)
class PromptTensors:
    """All P prompts, by run: token ids [P, W], -1 where a prompt's run is shorter; beginnings of words [P, W]."""

    before: tuple[Tensor, Tensor]
    between: tuple[Tensor, Tensor]
    after: tuple[Tensor, Tensor]
    user_first: Tensor

    @classmethod
    def of(cls, prompts: tuple[PromptTokens, ...], device: torch.device) -> PromptTensors:
        """Put them on a device."""
        return cls(
            _stacked([prompt.before for prompt in prompts], device),
            _stacked([prompt.between for prompt in prompts], device),
            _stacked([prompt.after for prompt in prompts], device),
            torch.tensor([prompt.user_first for prompt in prompts], device=device),
        )


def _stacked(runs: list[Run], device: torch.device) -> tuple[Tensor, Tensor]:
    width = max(len(run.ids) for run in runs)
    ids = torch.full((len(runs), width), -1)
    firsts = torch.zeros(len(runs), width, dtype=torch.bool)
    for row, run in enumerate(runs):
        ids[row, : len(run.ids)] = torch.tensor(run.ids, dtype=torch.long)
        firsts[row, : len(run.ids)] = torch.tensor(run.firsts, dtype=torch.bool)
    return ids.to(device), firsts.to(device)


def packed(filled: Tensor) -> tuple[Tensor, Tensor]:
    """Order [B, S] in which slots [B, W] stand once the holes are gone, and its mask; S is the longest row."""
    width = int(filled.sum(1).max())
    order = torch.argsort((~filled).long(), dim=1, stable=True)[:, :width]
    return order, filled.gather(1, order)
