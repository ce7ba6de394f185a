"""P5's prompts: their wording, their words as token ids, and where their parts stand.

A template has ``{user}``, the user's word, and ``{history}``, the items, oldest first. The sentences are our own. P5
and OpenP5 train on ten or eleven wordings of a task, so that the model does not depend on one, and are evaluated on
single ones. Every word stands between spaces, punctuation too; words are kept few, because an encoder position costs as
much for a word as for a piece of an item.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from genrec_unlearn_bench.backbones.recommender import SPECIALS
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.sids.p5 import digit_pieces

PROMPTS = (
    "shopper {user} took {history} ; what comes next ?",
    "after {history} , what would {user} choose ?",
    "{user} went through {history} and then picks",
    "purchases so far : {history} . next one of {user} :",
    "given {history} , name the coming purchase of {user}",
    "what follows {history} for {user} ?",
    "{user} owns {history} . suggest one more",
    "the basket log of {user} reads {history} , continue it",
    "guess what {user} buys once {history} are bought",
    "in order , {user} bought {history} ; the following item is",
    "history : {history} ; customer : {user} ; next item :",
    "one thing that {user} may want after {history} :",
)
"""Training draws one an example and epoch."""

_BLANKS = ("{user}", "{history}")
PROMPT_WORDS = tuple(dict.fromkeys(word for prompt in PROMPTS for word in prompt.split() if word not in _BLANKS))
"""Every word of the prompts, in the order of their first appearance."""

END_OF_PROMPT = 1
"""T5's end-of-sequence token, which closes every input; the same number in our own vocabulary."""

SEPARATOR = ","
"""Between two items."""

_UNKNOWN = "someone"
_USER = "user_"
_ITEM = "item_"
_WIDTH = 2


class WordTokenizer:
    """One token a word of the prompts, one for the front of a user's word, one for every one or two digits.

    SIDs start at ``size``. Users are written like sequential item numbers, two digits a piece from the left.
    """

    def __init__(self) -> None:
        digits = [str(n) for n in range(10)] + [f"{n:02d}" for n in range(100)]
        names = dict.fromkeys([*PROMPT_WORDS, SEPARATOR, _UNKNOWN, _USER, *digits])
        self._ids = {name: SPECIALS + place for place, name in enumerate(names)}
        self.size = SPECIALS + len(self._ids)

    def word(self, text: str) -> list[int]:
        """The ids of one word, at least one."""
        return [self._ids[text]]

    def user(self, number: int) -> list[int]:
        """The word of user ``number`` (from 1); 0 is the one word of all users that training has not seen."""
        if not number:
            return self.word(_UNKNOWN)
        return [self._ids[_USER], *(self._ids[piece] for piece in digit_pieces(number, _WIDTH))]


class SubwordTokenizer:
    """Sub-words of Hugging Face's T5 ``tokenizer`` for an embedding of so many ``rows``.

    SentencePiece never joins pieces across a space, so word by word is the same as the whole sentence.
    """

    def __init__(self, tokenizer: Any, rows: int) -> None:
        if tokenizer.eos_token_id != END_OF_PROMPT or tokenizer.pad_token_id != 0:
            raise UsageError(
                "this is no T5 tokenizer: T5 pads with token 0 and ends a sequence with token 1",
                where=str(tokenizer.name_or_path),
                hint="choose t5-small or another T5 checkpoint",
            )
        self.tokenizer, self.size = tokenizer, rows

    def word(self, text: str) -> list[int]:
        return [int(one) for one in self.tokenizer.encode(text, add_special_tokens=False)]

    def user(self, number: int) -> list[int]:
        return self.word(f"{_USER}{number}" if number else _UNKNOWN)

    def number_ids(self) -> list[int]:
        """Ids of all pieces that are digits and nothing else."""
        names = self.tokenizer.get_vocab()
        return sorted(place for name, place in names.items() if name.lstrip("▁").isdecimal())

    def number_pieces(self, number: int) -> list[str]:
        """The pieces of a number inside ``item_…``, as P5 writes items, without those of ``item_``."""
        pieces: list[str] = self.tokenizer.tokenize(f"{_ITEM}{number}")
        front, seen = 0, ""
        while front < len(pieces) and _ITEM.startswith((seen + pieces[front]).lstrip("▁")):
            seen += pieces[front]
            front += 1
        return pieces[front:]


TextTokenizer = WordTokenizer | SubwordTokenizer


class TokenRun(StrictModel):
    """Some words in a row."""

    ids: tuple[int, ...] = ()
    """Token ids."""
    firsts: tuple[bool, ...] = ()
    """Whether a token begins a word."""


class PromptTokens(StrictModel):
    """One prompt: words, a blank, words, the other blank, words and the end."""

    before: TokenRun
    between: TokenRun
    after: TokenRun
    user_first: bool
    """Which of the two blanks comes first."""


def tokenise_prompt(template: str, text: TextTokenizer) -> PromptTokens:
    """Tokenise a template, which has ``{user}`` and ``{history}`` once each."""
    words = template.split()
    user, history = map(words.index, _BLANKS)
    first, second = sorted((user, history))
    after = _run(words[second + 1 :], text)
    return PromptTokens(
        before=_run(words[:first], text),
        between=_run(words[first + 1 : second], text),
        # The end of the sequence belongs to no word.
        after=TokenRun(ids=(*after.ids, END_OF_PROMPT), firsts=(*after.firsts, False)),
        user_first=user < history,
    )


def _run(words: list[str], text: TextTokenizer) -> TokenRun:
    written = [text.word(word) for word in words]
    return TokenRun(
        ids=tuple(token for word in written for token in word),
        firsts=tuple(place == 0 for word in written for place in range(len(word))),
    )


def stacked(runs: Sequence[TokenRun]) -> Tensor:
    """[P, W, 2] token ids and whether each begins a word; -1 behind the end of a shorter run."""
    pairs = [torch.tensor([run.ids, run.firsts], dtype=torch.long).T for run in runs]
    return pad_sequence(pairs, batch_first=True, padding_value=-1)


def close_gaps(filled: Tensor) -> tuple[Tensor, Tensor]:
    """Order [B, S] of the filled slots of [B, W], moved to the left, and its mask; S is the longest row."""
    width = int(filled.sum(1).max())
    order = torch.argsort((~filled).long(), dim=1, stable=True)[:, :width]
    return order, filled.gather(1, order)
