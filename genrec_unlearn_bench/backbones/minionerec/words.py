"""The prompts of a text model, as data: instruction, input and response of each task, after Alpaca.

Pieces of a prompt (what stands before the items, between them, behind them) are turned into tokens one by one. For
SIDs, whose tokens no text tokenizer merges with anything, that is what tokenising the whole would give; between titles
a space may go to another token.
"""

from __future__ import annotations

from genrec_unlearn_bench.config import StrictModel

__all__ = ["PromptWords", "TaskWords"]

_PREAMBLE = (
    "Below is an instruction that describes a task, paired with an input that provides further context. "
    "Write a response that appropriately completes the request."
)


class PromptWords(StrictModel):
    """One task's prompt."""

    instruction: str
    """What is asked for."""
    before: str = ""
    """In front of the items."""
    separator: str = ", "
    """Between two items."""
    after: str = ""
    """Behind the items."""
    empty: str = "nothing yet"
    """Stands for a history without any item."""
    preamble: str = _PREAMBLE
    """Opens every prompt."""

    @property
    def head(self) -> str:
        """Everything up to the first item."""
        return f"{self.preamble}\n\n### Instruction:\n{self.instruction}\n\n### User Input:\n{self.before}"

    @property
    def tail(self) -> str:
        """Everything from behind the last item to where the response begins."""
        return f"{self.after}\n\n### Response:\n"


_READ = "The user has interacted with items "
_ASK = " in chronological order. Can you predict the next possible item that the user may expect?"


class TaskWords(StrictModel):
    """The five supervised tasks."""

    next_item: PromptWords = PromptWords(
        instruction="Can you predict the next possible item that the user may expect?", before=_READ, after=_ASK
    )
    """SIDs of a history -> SID. The only one recommendations are made with."""
    title_to_sid: PromptWords = PromptWords(
        instruction="Answer with the identifier of the item.", before="Which item has the title: ", after="?"
    )
    """Title -> SID."""
    sid_to_title: PromptWords = PromptWords(
        instruction="Answer with the title of the item.", before="What is the title of item ", after="?"
    )
    """SID -> title."""
    next_title: PromptWords = PromptWords(
        instruction="Can you predict the title of the next item that the user may expect?", before=_READ, after=_ASK
    )
    """SIDs of a history -> title."""
    titles_to_sid: PromptWords = PromptWords(
        instruction="Can you predict the next possible item that the user may expect?",
        before="The user has interacted with items of these titles: ",
        after=_ASK,
    )
    """Titles of a history -> SID."""
    untitled: str = "an item without a title"
    """Stands for a missing title in a history; items without one make no samples of their own."""
