"""A recommender whose weights lie on the 4-bit grid, and models that were moved off it by a little or a lot."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.data.holdout import Holdout
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.evaluation.quantised import linear_layers, quantised, round_to_nearest
from genrec_unlearn_bench.progress import Progress
from tests import planted
from tests.evaluation.planted import manifest


def trained() -> T5Recommender:
    """Planted sequences, learned well enough for the forget targets to be found."""
    torch.set_num_threads(1)
    shape = T5Shape(d_model=32, d_kv=8, d_ff=64, layers=1, heads=4, dropout=0.0, history_limit=planted.HISTORY)
    model = T5Recommender.fresh(shape, planted.sids(), seed=0)
    train, valid = (planted.examples(planted.sequences(users, 9, users)) for users in (120, 12))
    config = TrainingConfig(lr=1e-2, batch_size=128, epochs=6, warmup_steps=10, evaluations=1, valid_rows=50)
    train_recommender(model, config, train=train, valid=valid, seed=0, device="cpu", progress=Progress())
    return model


def on_the_grid() -> Recommender:
    """The trained model, its linear layers on 4 bits already: what it is served with is what it was trained to."""
    return quantised(trained(), partial(round_to_nearest, bits=4))


def moved(model: Recommender, steps: float, forget: Examples) -> Recommender:
    """Every weight of the linear layers moved by ``steps`` quantisation steps (4 bits) against the forget examples.

    A row's largest weights, which decide the width of its steps, stay.
    """
    copy = model.clone()
    copy.module.zero_grad()
    output = copy.forward(forget.histories(copy.history_limit), forget.targets)
    output.token_log_probs().sum().backward()
    with torch.no_grad():
        for weight in {id(layer.weight): layer.weight for layer in linear_layers(copy.module)}.values():
            largest = weight.abs().amax(1, keepdim=True)
            movable = weight.abs() < largest * (1 - 1e-4)
            weight.sub_(torch.where(movable, steps * largest / 7 * _sign(weight.grad), 0.0))
    copy.module.zero_grad()
    return copy


def subject(model: Recommender) -> Subject:
    """The model on the planted test: the forget test is what has a concept target."""
    marked = planted.concept()
    test = planted.groups(planted.examples(planted.sequences(60, 9, 3)), marked)
    empty = test.forget.subset(np.zeros(len(test.forget), dtype=bool))
    split = ForgetSplit(
        ConceptKind.BRAND, marked, np.zeros((0, 2), dtype=np.int64), test, test, test, manifest(ConceptKind.BRAND)
    )
    return Subject(
        recommender=model,
        original_sids=planted.sids(),
        split=split,
        features=planted.features(planted.sids()),
        holdout=Holdout(np.zeros((0, 2), dtype=np.int64), empty, empty, ""),
        scale="smoke",
        seed=0,
    )


def without_test(given: Subject, *, forget: bool = False, retain: bool = False) -> Subject:
    """The same without the test examples of one group or both."""
    test = given.split.test
    parts = (
        part.subset(np.zeros(len(part), dtype=bool)) if gone else part
        for part, gone in ((test.forget, forget), (test.retain, retain))
    )
    return replace(given, split=replace(given.split, test=Groups(*parts)))


def _sign(gradient: Tensor | None) -> Tensor:
    if gradient is None:
        raise ValueError("a linear layer took no part in the forget examples")
    return gradient.sign()
