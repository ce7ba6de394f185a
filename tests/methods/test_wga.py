"""WGA: its loss is bounded, its gradient that of a bounded function, and its relatives are what they are called."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.methods import grad_diff, wga
from genrec_unlearn_bench.methods.grad_diff import GradDiff
from genrec_unlearn_bench.methods.wga import WGA, WGAConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.retain_loss import WeightedConfig
from tests.methods.steps import batch_of, caught, gradient_of
from tests.planted import Planted
from tests.unlearning.losses.test_suppression import setting


@pytest.mark.parametrize("beta", [0.25, 1.0, 5.0])
def test_the_gradient_is_that_of_the_mean_power_of_the_probability(
    monkeypatch: pytest.MonkeyPatch, beta: float
) -> None:
    model, request = setting()
    batch = batch_of(request)
    at = caught(monkeypatch, wga, WGA(WGAConfig(beta=beta, alpha=0.0)), model, request)

    def bounded(student: Recommender) -> torch.Tensor:
        output = student.forward(batch.forget.histories(4), batch.forget.targets)
        return (beta * output.token_log_probs()).exp().mean() / beta

    torch.testing.assert_close(at.gradient(batch), gradient_of(at.model, bounded), rtol=1e-4, atol=1e-7)
    assert -1 / (math.e * beta) <= at.terms["forget"] <= 0


def test_at_beta_nothing_it_is_gradient_difference_to_the_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    batch = batch_of(request)
    one = caught(monkeypatch, wga, WGA(WGAConfig(beta=0.0)), model, request).gradient(batch)
    two = caught(monkeypatch, grad_diff, GradDiff(WeightedConfig()), model, request).gradient(batch)
    assert torch.equal(one, two)


def test_a_token_that_is_unlikely_weighs_nothing() -> None:
    method = WGA(WGAConfig(beta=1.0))
    weights = method.token_weights(torch.tensor([[0.5, 1e-2, 1e-8]]).log(), None)
    torch.testing.assert_close(weights, torch.tensor([[0.5, 1e-2, 1e-8]]))


def test_token_wise_npo_starts_at_one_and_is_its_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    at = caught(monkeypatch, wga, WGA(WGAConfig(weighting="tnpo", beta=4.0)), model, request)
    at.gradient(batch_of(request))
    assert at.terms["weight"] == pytest.approx(1.0, abs=1e-5)
    p, p0 = torch.tensor([[0.2, 0.001]]), torch.tensor([[0.4, 0.05]])
    tnpo = WGA(WGAConfig(weighting="tnpo", beta=4.0)).token_weights(p.log(), p0.log())
    torch.testing.assert_close(tnpo, 2 * p**4 / (p**4 + p0**4))
    wtnpo = WGA(WGAConfig(weighting="wtnpo", beta=4.0)).token_weights(p.log(), p0.log())
    torch.testing.assert_close(wtnpo, tnpo * p**1.5)


def test_it_forgets_on_the_planted_set_without_ruin(planted: Planted) -> None:
    progress = Progress()
    part = planted.request.train.forget
    model = WGA(WGAConfig(lr=1e-3, batch_size=64)).unlearn(planted.original, planted.request, progress)
    nll = [-each.target_log_probs(part.histories(4), part.targets).numpy().mean() for each in (planted.original, model)]
    assert nll[1] > 1.5 * nll[0]
    assert np.isfinite(nll).all()
    assert not progress.diverged
