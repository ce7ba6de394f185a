"""What a P5 network is made of, as it is saved with it."""

from __future__ import annotations

from genrec_unlearn_bench.backbones.p5sid.layout import PromptTokens
from genrec_unlearn_bench.backbones.t5 import T5Shape

__all__ = ["P5Shape"]


class P5Shape(T5Shape):
    """A T5 with a text vocabulary in front of its SID tokens, and prompts. Nothing else is needed to load it again,
    the text tokenizer included."""

    text_tokens: int
    """Token ids of text; SIDs start behind them."""
    prompts: tuple[PromptTokens, ...]
    """Training draws from all of them."""
    evaluation: int = 0
    """The prompt that everything else is done with."""
    separator: tuple[int, ...] = ()
    """Token ids of the word between two items; empty for none."""
    whole_words: int = 512
    """Words that a prompt may have for the whole-word embedding (P5's own number); 0 does without it."""
    user_ids: int = 0
    """User ids that are looked up; all others are unknown."""
    users: int = 0
    """Users that training has seen."""
    user_width: int = 1
    """Tokens of the longest user word."""
    gated: bool = False
    """Feed-forward of T5 v1.1 and Flan-T5 (gated GELU) instead of T5's."""
    tied: bool = True
    """Whether the output head is the input embedding."""
