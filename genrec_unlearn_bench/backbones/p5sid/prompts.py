"""The prompts of the sequential task, as data. ``{user}`` is the user's word, ``{history}`` the items, oldest first.

The sentences are our own. P5 and OpenP5 train on ten or eleven wordings of a task, so that the model does not hang on
one, and are evaluated on single ones. Every word stands between spaces, punctuation too; words are kept few, because an
encoder position costs as much for a word as for a piece of an item.
"""

from __future__ import annotations

__all__ = ["EVALUATION", "PROMPTS", "WORDS_OF_ALL"]

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

EVALUATION = 0
"""The prompt that recommends, unlearns and is measured."""

WORDS_OF_ALL = tuple(
    dict.fromkeys(word for prompt in PROMPTS for word in prompt.split() if word not in ("{user}", "{history}"))
)
"""Every word of the prompts, in the order of their first appearance."""
