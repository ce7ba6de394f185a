"""P5-SID in training: the untrained network with its users, and next items prompted in many wordings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.p5sid.config import P5Config
from genrec_unlearn_bench.backbones.p5sid.prompts import (
    EVALUATION,
    PROMPTS,
    SubwordTokenizer,
    TextTokenizer,
    WordTokenizer,
    tokenise_prompt,
)
from genrec_unlearn_bench.backbones.p5sid.recommender import P5Recommender, P5Shape, UserTokens
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.training import ExampleTask, cross_entropy
from genrec_unlearn_bench.data.examples import Examples, IntArray
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["PromptedNextItem", "untrained_recommender"]


@dataclass(frozen=True, eq=False)
class PromptedNextItem(ExampleTask):
    """Cross-entropy of the next item's tokens, each example with a prompt drawn anew each time."""

    recommender: P5Recommender

    def loss(self, rows: IntArray) -> Tensor:
        """Mean over all target tokens. The draw is torch's, which a training seeds, and resumes where it stopped."""
        model = self.recommender
        prompts = torch.randint(len(model.shape.prompts), (len(rows),))
        histories = self.examples.histories(model.history_limit, rows)
        return cross_entropy(model.prompted(histories, self.examples.targets[rows], prompts), self.temperature)


def untrained_recommender(
    config: P5Config, train: Examples, sids: SidTable, *, seed: int, device: str
) -> P5Recommender:
    """The network with SID tokens and prompts, from scratch or from the checkpoint, and the users of ``train``."""
    text: TextTokenizer = WordTokenizer()
    content = config.shape.model_dump()
    loaded = load_pretrained(config.checkpoint, "t5") if config.checkpoint else None
    if loaded is not None:
        found = loaded.model.config
        text = SubwordTokenizer(loaded.tokenizer, loaded.model.get_input_embeddings().num_embeddings)
        content |= {
            "d_model": found.d_model,
            "d_kv": found.d_kv,
            "d_ff": found.d_ff,
            "layers": found.num_layers,
            "heads": found.num_heads,
            "dropout": found.dropout_rate,
            "gated": found.is_gated_act,
            "tied": found.tie_word_embeddings,
        }
    users = _users(train, text)
    shape = P5Shape.model_validate(
        content
        | {
            "text_tokens": text.size,
            "prompts": tuple(tokenise_prompt(prompt, text) for prompt in PROMPTS),
            "evaluation": EVALUATION,
            "separator": tuple(text.separator) if config.separator else (),
            "whole_words": 512 if config.whole_words else 0,
            "user_ids": len(users.rows),
            "users": len(users.tokens) - 1,
            "user_width": users.tokens.shape[1],
        }
    )
    if loaded is None:
        recommender = P5Recommender.fresh(shape, sids, seed=seed, device=device)
    else:
        numbers = text.number_ids() if isinstance(text, SubwordTokenizer) else []
        recommender = P5Recommender.pretrained(loaded.model, shape, sids, numbers=numbers, seed=seed, device=device)
    recommender.set_users(users)
    return recommender


def _users(train: Examples, text: TextTokenizer) -> UserTokens:
    """Train users numbered from 1 in the order of their first train row in time: nothing of what comes later, and no
    user that training does not see, moves a number."""
    order = np.lexsort((train.users, train.times))
    distinct, first = np.unique(train.users[order], return_index=True)
    numbered = distinct[np.argsort(first, kind="stable")]
    rows = np.zeros(int(distinct.max(initial=-1)) + 1 or 1, dtype=np.int64)
    rows[numbered] = np.arange(1, len(numbered) + 1)
    return UserTokens(rows, [text.user(number) for number in range(len(numbered) + 1)])
