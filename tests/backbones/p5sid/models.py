"""Small P5 recommenders over three kinds of tables, and their inputs written out by hand."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.p5sid.prompts import (
    END_OF_PROMPT,
    PROMPTS,
    SEPARATOR,
    WordTokenizer,
    tokenise_prompt,
)
from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender, P5Shape
from genrec_unlearn_bench.sids.p5 import collaborative_table, digit_pieces, sequential_table
from genrec_unlearn_bench.sids.table import SidTable
from tests.planted import examples, sequences, sids

TEXT = WordTokenizer()
TABLES = ("rqvae", "sequential", "collaborative")


def table(kind: str) -> SidTable:
    """64 items; numbers from 95, so that some have one piece and others two; clusters of unequal depth."""
    train = examples(sequences(60, 9, 1))
    if kind == "sequential":
        return sequential_table(train, 64, start=95, pieces=digit_pieces)
    if kind == "collaborative":
        return collaborative_table(train, 64, clusters=3, leaf_size=23, tokens=50, slack=2, seed=0)
    return sids()


def recommender(kind: str, *, separator: bool = True, whole_words: int = 64, seed: int = 3) -> P5Recommender:
    words = [TEXT.user(number) for number in range(6)]
    shape = P5Shape(
        d_model=32,
        d_kv=8,
        d_ff=48,
        layers=2,
        heads=4,
        history_limit=5,
        text_tokens=TEXT.size,
        prompts=tuple(tokenise_prompt(prompt, TEXT) for prompt in PROMPTS),
        separator=tuple(TEXT.word(SEPARATOR)) if separator else (),
        whole_words=whole_words,
        user_ids=6,
        users=5,
        user_width=max(map(len, words)),
    )
    model = P5Recommender.fresh(shape, table(kind), seed=seed)
    model.set_users(np.array([3, 1, 0, 5, 2, 4]), words)
    model.module.eval()
    return model


def written(model: P5Recommender, prompt: int, user: int, history: list[int]) -> tuple[Tensor, Tensor]:
    """Token ids [1, S] and word numbers [1, S] of a prompt, word by word."""
    number = [3, 1, 0, 5, 2, 4][user] if 0 <= user < 6 else 0
    words: list[list[int]] = []
    for word in PROMPTS[prompt].split():
        if word == "{user}":
            words.append(TEXT.user(number))
        elif word == "{history}":
            for place, item in enumerate(history):
                if place and model.shape.separator:
                    words.append(TEXT.word(SEPARATOR))
                sid = model.sids.codes[item]
                tokens = sid + np.asarray(model.vocabulary.offsets)
                # The end of a tree's SID is decoded, not read.
                ended = -1 if model.sids.tree is None else model.sids.tree.end
                words.append(tokens[(sid >= 0) & (sid != ended)].tolist())
        else:
            words.append(TEXT.word(word))
    ids = [token for word in words for token in word] + [END_OF_PROMPT]
    places = [place for place, word in enumerate(words, start=1) for _ in word] + [0]
    return torch.tensor([ids]), torch.tensor([places])
