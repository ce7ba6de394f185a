"""Recommenders with random weights over the planted table, and a request on them: nothing is trained."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.unlearning import anatomy
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests import planted

LAYERS = 4


def small_request(users: int = 120) -> ForgetRequest:
    """Walks of seven items; the concept is one item of every group."""
    marked = planted.concept()
    train, valid = (planted.examples(planted.sequences(n, 7, s)) for n, s in ((users, 1), (6, 2)))
    return ForgetRequest(
        catalogue=planted.catalogue(),
        kind=ConceptKind.BRAND,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=planted.groups(train, marked),
        valid=planted.groups(valid, marked),
        features=planted.features(planted.sids()),
        seed=0,
    )


def interaction_request() -> ForgetRequest:
    """A tenth of the interactions, of any items."""
    train, valid = (planted.examples(planted.sequences(n, 7, s)) for n, s in ((40, 1), (6, 2)))
    chosen, valid_chosen = (np.arange(len(part)) % 10 == 0 for part in (train, valid))
    pairs = np.stack([train.users[chosen], train.targets[chosen]], axis=1)
    return ForgetRequest(
        catalogue=planted.catalogue(),
        kind=ConceptKind.INTERACTION,
        items=np.zeros(64, dtype=bool),
        pairs=pairs,
        train=Groups(train.subset(chosen), train.subset(~chosen)),
        valid=Groups(valid.subset(valid_chosen), valid.subset(~valid_chosen)),
        features=planted.features(planted.sids()),
        seed=0,
    )


def t5(layers: int = LAYERS) -> T5Recommender:
    shape = T5Shape(d_model=24, d_kv=6, d_ff=32, layers=layers, heads=4, dropout=0.1, history_limit=4)
    return _rough(T5Recommender.fresh(shape, planted.sids(), seed=0))


def causal(layers: int = LAYERS) -> CausalRecommender:
    network = NetworkShape(hidden=24, ffn=32, layers=layers, heads=4, groups=2)
    return _rough(CausalRecommender.fresh(CausalShape(network=network, history_limit=4), planted.sids(), seed=0))


def hooks(module: nn.Module) -> int:
    """Hooks on a network's modules that are ours; transformers leaves its own where hidden states were asked for."""
    found = [hook for part in module.modules() for hook in part._forward_hooks.values()]
    return sum(getattr(hook, "__module__", "") == anatomy.__name__ for hook in found)


def changed(one: nn.Module, two: nn.Module) -> set[str]:
    """Names of the parameters in which two copies differ in any bit."""
    other = dict(two.named_parameters())
    return {name for name, parameter in one.named_parameters() if not torch.equal(parameter, other[name])}


def _rough(recommender: Any) -> Any:
    """Gains and biases away from 1 and 0, so that a norm that is left out or done twice shows."""
    draw = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in recommender.module.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=draw))
    recommender.module.eval()
    return recommender
