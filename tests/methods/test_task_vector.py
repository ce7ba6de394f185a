"""Task vectors: linear in their factor, and one step of them is one step of ascent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, LoraShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.methods.grad_ascent import GradAscent, GradAscentConfig
from genrec_unlearn_bench.methods.task_vector import TaskVector, TaskVectorConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.planted import Planted, sids
from tests.unlearning.losses.test_suppression import setting


def weights(recommender: Recommender) -> torch.Tensor:
    return torch.cat([parameter.detach().double().flatten() for parameter in recommender.module.parameters()])


def moved(alpha: float, model: Recommender, request: ForgetRequest, **fields: Any) -> torch.Tensor:
    config = TaskVectorConfig(**{"alpha": alpha, "lr": 1e-3, "epochs": 1, "batch_size": 16, **fields})
    return weights(TaskVector(config).unlearn(model, request, Progress()))


def test_it_is_linear_in_its_factor() -> None:
    model, request = setting()
    assert torch.equal(moved(0.0, model, request), weights(model))
    one, two, three = (moved(alpha, model, request) - weights(model) for alpha in (1.0, 2.0, -1.0))
    assert float(one.norm()) > 0.01
    torch.testing.assert_close(two, 2 * one, rtol=1e-4, atol=2e-7)
    torch.testing.assert_close(three, -one, rtol=1e-4, atol=2e-7)


def test_minus_one_is_the_fine_tuned_model() -> None:
    model, request = setting()
    forget = request.train.forget
    tuned = TaskVector(TaskVectorConfig(alpha=-1.0, lr=1e-3, epochs=3)).unlearn(model, request, Progress())
    nll = [-float(m.target_log_probs(forget.histories(4), forget.targets).mean()) for m in (model, tuned)]
    assert nll[1] < nll[0] - 0.3


def test_one_step_is_one_step_of_ascent() -> None:
    model, request = setting()
    ascent = GradAscentConfig(lr=1e-3, max_steps=1, retain_ceiling=None, batch_size=16)
    expected = weights(GradAscent(ascent).unlearn(model, request, Progress()))
    found = moved(1.0, model, request, max_steps=1)
    torch.testing.assert_close(found, expected, rtol=0, atol=2e-7)


def test_the_contrast_of_equal_sides_is_nothing() -> None:
    model, request = setting()
    one = request.train.forget.subset(np.arange(1))
    same = replace(request, train=Groups(one, one))
    torch.testing.assert_close(moved(3.0, model, same, contrast=True), weights(model), rtol=0, atol=1e-6)
    other = moved(3.0, model, replace(request, train=Groups(one, request.train.retain)), contrast=True)
    assert float((other - weights(model)).norm()) > 1e-3


def test_adapters_are_subtracted_as_a_product() -> None:
    network = NetworkShape(hidden=32, ffn=48, layers=1, heads=4, groups=2)
    shape = CausalShape(network=network, history_limit=4, lora=LoraShape(rank=4, alpha=8))
    model = CausalRecommender.fresh(shape, sids(), seed=0)
    _, request = setting()
    names = [name for name, _ in model.module.named_parameters()]
    forget = request.train.forget
    nll = {}
    for alpha in (-1.0, 0.0, 1.0):
        config = TaskVectorConfig(alpha=alpha, lr=1e-3, epochs=2, batch_size=16, rank=4)
        result = TaskVector(config).unlearn(model, request, Progress())
        assert [name for name, _ in result.module.named_parameters()] == names
        nll[alpha] = -float(result.target_log_probs(forget.histories(4), forget.targets).mean())
    assert nll[-1.0] < nll[0.0] < nll[1.0]


def test_it_forgets_on_the_planted_set(planted: Planted) -> None:
    forget = planted.request.train.forget
    progress = Progress()
    config = TaskVectorConfig(lr=3e-4, batch_size=64, epochs=1)
    model = TaskVector(config).unlearn(planted.original, planted.request, progress)
    nll = [-float(m.target_log_probs(forget.histories(4), forget.targets).mean()) for m in (planted.original, model)]
    assert nll[1] > 1.1 * nll[0]
    assert progress.notes["retain_nll_ratio"] > 0
    with pytest.raises(ValueError, match="contrast"):
        TaskVectorConfig.model_validate({"contrast": "maybe"})
