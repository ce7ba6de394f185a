"""From words to token ids: a small vocabulary of our own, or a pretrained tokenizer's sub-words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from genrec_unlearn_bench.backbones.p5sid.prompts import WORDS_OF_ALL
from genrec_unlearn_bench.backbones.vocabulary import SPECIALS
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.sids.p5 import digit_pieces

__all__ = ["END_OF_PROMPT", "OwnWords", "PretrainedWords", "TextTokens"]

END_OF_PROMPT = 1
"""T5's end-of-sequence token, which closes every input; the same number in our own vocabulary."""

_SEPARATOR = ","
_UNKNOWN = "someone"
_USER = "user_"
_ITEM = "item_"
_WIDTH = 2


class TextTokens(Protocol):
    """Writes the words of a prompt."""

    @property
    def size(self) -> int:
        """Token ids that text takes; those of SIDs start here."""

    def word(self, text: str) -> list[int]:
        """The ids of one word, at least one."""

    def user(self, number: int) -> list[int]:
        """The word of user ``number`` (from 1); 0 is the one word of all users that training has not seen."""

    @property
    def separator(self) -> list[int]:
        """The word between two items."""


@dataclass(frozen=True)
class OwnWords:
    """One token a word of the prompts, one for the front of a user's word, one for every one or two digits.

    Users are written like sequential item numbers, two digits a piece from the left.
    """

    @cached_property
    def _ids(self) -> dict[str, int]:
        digits = [str(n) for n in range(10)] + [f"{n:02d}" for n in range(100)]
        names = dict.fromkeys([*WORDS_OF_ALL, _SEPARATOR, _UNKNOWN, _USER, *digits])
        return {name: SPECIALS + place for place, name in enumerate(names)}

    @property
    def size(self) -> int:
        """Specials and words."""
        return SPECIALS + len(self._ids)

    def word(self, text: str) -> list[int]:
        """One id. Raises KeyError for a word that no prompt has."""
        return [self._ids[text]]

    def user(self, number: int) -> list[int]:
        """``user_`` and the digits."""
        if not number:
            return self.word(_UNKNOWN)
        return [self._ids[_USER], *(self._ids[piece] for piece in digit_pieces(number, _WIDTH))]

    @property
    def separator(self) -> list[int]:
        """A comma."""
        return self.word(_SEPARATOR)


@dataclass(frozen=True, eq=False)
class PretrainedWords:
    """Sub-words of a T5 tokenizer. SentencePiece never joins pieces across a space, so word by word is the same as
    the whole sentence.

    Attributes:
        tokenizer: Hugging Face's.
        rows: Rows of the model's embedding; SIDs stand behind them.
    """

    tokenizer: Any
    rows: int

    def __post_init__(self) -> None:
        if self.tokenizer.eos_token_id != END_OF_PROMPT or self.tokenizer.pad_token_id != 0:
            raise UsageError(
                "this is no T5 tokenizer: T5 pads with token 0 and ends a sequence with token 1",
                where=str(self.tokenizer.name_or_path),
                hint="choose t5-small or another T5 checkpoint",
            )

    @property
    def size(self) -> int:
        """The embedding's rows."""
        return self.rows

    def word(self, text: str) -> list[int]:
        """Sub-words of one word, the first one with the mark of a word's beginning."""
        return [int(one) for one in self.tokenizer.encode(text, add_special_tokens=False)]

    def user(self, number: int) -> list[int]:
        """Sub-words of ``user_17``."""
        return self.word(f"{_USER}{number}" if number else _UNKNOWN)

    @property
    def separator(self) -> list[int]:
        """A comma that stands alone."""
        return self.word(_SEPARATOR)

    def number_ids(self) -> list[int]:
        """Ids of all pieces that are digits and nothing else."""
        names = self.tokenizer.get_vocab()
        return sorted(place for name, place in names.items() if name.lstrip("▁").isdecimal())

    def number_pieces(self, number: int) -> list[str]:
        """How the tokenizer cuts a number inside ``item_…``, as P5 writes items, without the pieces of ``item_``."""
        pieces: list[str] = self.tokenizer.tokenize(f"{_ITEM}{number}")
        front, seen = 0, ""
        while front < len(pieces) and _ITEM.startswith((seen + pieces[front]).lstrip("▁")):
            seen += pieces[front]
            front += 1
        return pieces[front:]
