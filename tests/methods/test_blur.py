"""BLUR on a recommender: its losses, its one direction over everything that is trained, and what it does."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.methods import blur
from genrec_unlearn_bench.methods.blur import Blur, BlurConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.sampling import PairedBatch
from tests.methods.steps import caught
from tests.planted import Planted
from tests.small import causal, changed, interaction_request, small_request, t5

SHORT = BlurConfig(epochs=1, batch_size=16)


def batch() -> PairedBatch:
    train, rows = small_request().train, np.arange(12)
    return PairedBatch(train.forget.subset(rows), train.retain.subset(rows), rows, rows)


def log_likelihoods(model: Recommender, part: Examples) -> Tensor:
    output = model.forward(part.histories(4), part.targets)
    return output.logits.log_softmax(-1).gather(-1, output.labels[..., None])[..., 0]


@pytest.mark.parametrize("make", [t5, causal])
def test_the_step_is_the_projection_of_npo_and_nll_over_all_parameters(make, monkeypatch: pytest.MonkeyPatch) -> None:
    original = make()
    run = caught(monkeypatch, blur, Blur(BlurConfig(beta=0.5, gamma=2.0)), original, small_request())
    model, part = run.model, batch()
    with torch.no_grad():
        for parameter in model.module.parameters():
            parameter.mul_(1.05)
        reference = log_likelihoods(original, part.forget).sum(1)
    found = run.gradient(part)
    parameters = list(model.module.parameters())

    def gradient(loss: Tensor) -> Tensor:
        return torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])

    ratio = log_likelihoods(model, part.forget).sum(1) - reference
    forget = (2 / 0.5) * torch.log(1 + torch.exp(0.5 * ratio)).mean()
    retain = -log_likelihoods(model, part.retain).mean()
    f, r = gradient(forget), gradient(retain)
    torch.testing.assert_close(found, r + (2 - r @ f / (f @ f)) * f, atol=2e-5, rtol=2e-3)
    assert run.terms["forget"] == pytest.approx(float(forget.detach()), rel=1e-5)
    assert run.terms["retain"] == pytest.approx(float(retain.detach()), rel=1e-5)
    assert run.terms["cosine"] == pytest.approx(float(r @ f / r.norm() / f.norm()), abs=1e-4)


def test_the_norm_is_clipped_behind_the_projection_and_the_cosine_is_logged() -> None:
    progress = Progress()
    Blur(SHORT.model_copy(update={"gamma": 1.5})).unlearn(t5(), small_request(), progress)
    for one in (step.losses for step in progress.steps):
        across = one["retain_norm"] ** 2 * (1 - one["cosine"] ** 2)
        norm = math.sqrt(across + (1.5 * one["forget_norm"]) ** 2)
        assert one["gradient_norm"] == pytest.approx(norm, rel=1e-3)
        assert -1 <= one["cosine"] <= 1
    mean = np.mean([step.losses["cosine"] for step in progress.steps])
    assert progress.notes["cosine_mean"] == pytest.approx(mean)


def test_sid_embeddings_are_trained_and_the_original_is_not() -> None:
    original = t5()
    before = {name: p.detach().clone() for name, p in original.module.named_parameters()}
    model = Blur(SHORT).unlearn(original, small_request(), Progress())
    assert changed(model.module, original.module) == set(before)
    assert all(torch.equal(p, before[name]) for name, p in original.module.named_parameters())


def test_with_rmu_losses_it_trains_rmus_matrices() -> None:
    original, progress = t5(), Progress()
    config = BlurConfig(**{**Blur.variants["blur-rmu"], "epochs": 4, "lr": 1e-2, "batch_size": 16})
    model = Blur(config).unlearn(original, small_request(), progress)
    assert changed(model.module, original.module) == {
        f"decoder.block.{i}.layer.2.DenseReluDense.wo.weight" for i in (0, 1, 2)
    }
    # The student starts at the original, but for the last bits: with gradients a layer is computed as one step.
    assert progress.steps[0].losses["retain_norm"] < 1e-4 * progress.steps[0].losses["forget_norm"]
    assert progress.steps[-1].losses["forget"] < progress.steps[0].losses["forget"]


@pytest.mark.parametrize("variant", [{}, *Blur.variants.values()], ids=["blur", *Blur.variants])
@pytest.mark.parametrize("make", [t5, causal])
def test_every_variant_serves_interaction_requests(make, variant: dict[str, object]) -> None:
    progress = Progress()
    Blur(SHORT.model_copy(update={**variant, "epochs": 1})).unlearn(make(), interaction_request(), progress)
    assert not progress.diverged
    assert len(progress.steps) > 1


def test_on_the_planted_set_the_concept_becomes_less_likely(planted: Planted) -> None:
    part = planted.test.forget
    model = Blur(BlurConfig(epochs=2, lr=1e-3)).unlearn(planted.original, planted.request, Progress())
    before, after = (
        -float(one.target_log_probs(part.histories(4), part.targets).sum(1).mean()) for one in (planted.original, model)
    )
    assert after > before + 1
