"""Influence: the linear algebra against dense solutions, the step against retraining where the theory is exact."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.cpu_layers import twice_differentiable
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.methods.influence import (
    Influence,
    InfluenceConfig,
    conjugate_gradients,
    dot,
    gauss_newton,
    largest_eigenvalue,
    summed_gradient,
)
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.likelihood import forward, target_lengths
from tests.backbones.p5sid import models as p5
from tests.planted import Planted, examples, sequences
from tests.unlearning.losses.test_suppression import setting

Vector = list[torch.Tensor]


def spd(size: int, seed: int) -> torch.Tensor:
    a = torch.randn(size, size, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return a @ a.T + 0.1 * torch.eye(size, dtype=torch.float64)


def test_conjugate_gradients_solve_what_a_dense_solver_solves() -> None:
    matrix = spd(12, 0)
    target = torch.randn(12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    progress = Progress()
    found, iterations, residual = conjugate_gradients(lambda v: [matrix @ v[0]], [target], 60, 1e-10, progress)
    torch.testing.assert_close(found[0], torch.linalg.solve(matrix, target), rtol=1e-6, atol=1e-8)
    assert [line.step for line in progress.steps] == list(range(1, iterations + 1)), "each is a step that is counted"
    assert progress.steps[-1].losses["residual"] == residual
    assert iterations < 60
    assert residual <= 1e-10


def test_the_largest_eigenvalue_is_found() -> None:
    matrix = torch.diag(torch.tensor([9.0, 2.0, 1.0, 0.5]))
    assert largest_eigenvalue(lambda v: [matrix @ v[0]], [torch.zeros(4)], 0) == pytest.approx(9.0, rel=1e-3)


def test_with_the_retain_curvature_a_newton_step_is_retraining_where_the_loss_is_quadratic() -> None:
    """Ridge-free regression: θ0 fits all rows, and θ0 + H_r^-1 g_f / n_r fits the retained rows exactly."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, 5, generator=generator, dtype=torch.float64)
    y = torch.randn(40, generator=generator, dtype=torch.float64)
    forget, retain = slice(0, 6), slice(6, 40)
    whole = torch.linalg.lstsq(x, y[:, None]).solution[:, 0]
    gradient = (x[forget] * (x[forget] @ whole - y[forget])[:, None]).sum(0)
    curvature = x[retain].T @ x[retain] / 34
    step, _, _ = conjugate_gradients(lambda v: [curvature @ v[0]], [gradient / 34], 60, 1e-12, Progress())
    retrained = torch.linalg.lstsq(x[retain], y[retain, None]).solution[:, 0]
    torch.testing.assert_close(whole + step[0], retrained, rtol=1e-9, atol=1e-9)


def product(parameters: Any, model: Any, part: Any, vector: Vector) -> Vector:
    with twice_differentiable():
        return gauss_newton(model, part, parameters, vector, 8)


def test_the_curvature_is_the_gauss_newton_matrix() -> None:
    """v^T Ḡ v against a finite difference of logits: mean over tokens of Var_p(dz), and symmetric."""
    model, request = setting()
    part = request.train.retain.subset(np.arange(10))
    parameters = list(anatomy(model).decoder[-1].module.parameters())
    generator = torch.Generator().manual_seed(0)
    one, two = ([torch.randn(p.shape, generator=generator) for p in parameters] for _ in range(2))
    image = product(parameters, model, part, one)
    histories = part.histories(4)
    size = 1e-3
    with torch.no_grad():
        before = model.forward(histories, part.targets).logits.double()
        for p, v in zip(parameters, one, strict=True):
            p.add_(size * v)
        after = model.forward(histories, part.targets).logits.double()
        for p, v in zip(parameters, one, strict=True):
            p.sub_(size * v)
    moved, p = (after - before) / size, before.softmax(-1)
    variance = (p * moved**2).sum(-1) - (p * moved).sum(-1) ** 2
    assert dot(one, image) == pytest.approx(float(variance.mean()), rel=0.03)
    assert dot(two, image) == pytest.approx(dot(one, product(parameters, model, part, two)), rel=1e-3)
    assert dot(one, image) > 0


def test_under_much_damping_the_step_is_the_gradient() -> None:
    model, request = setting()
    few = replace(
        request, train=Groups(request.train.forget.subset(np.arange(8)), request.train.retain.subset(np.arange(30)))
    )
    config = InfluenceConfig(damping=50.0, spillover=False, max_kl=1e6)
    result = Influence(config).unlearn(model, few, Progress())
    parameters = list(anatomy(model).decoder[-1].module.parameters())
    step = [
        (new - old).detach().double().flatten()
        for new, old in zip(anatomy(result).decoder[-1].module.parameters(), parameters, strict=True)
    ]
    with twice_differentiable():
        gradient = [each.double().flatten() for each in summed_gradient(model, few.train.forget, parameters, 8)]
    cosine = torch.nn.functional.cosine_similarity(torch.cat(step), torch.cat(gradient), dim=0)
    assert float(cosine) > 0.99


def test_the_step_solves_the_damped_system_of_the_summed_gradient() -> None:
    """(Ḡ + λI) Δ = s g / n_r, with the sign, the number of rows and the damping that the docstring names."""
    model, request = setting()
    train = Groups(request.train.forget.subset(np.arange(8)), request.train.retain.subset(np.arange(40)))
    few = replace(request, train=train)
    progress = Progress()
    config = InfluenceConfig(damping=0.1, spillover=False, max_kl=1e6, iterations=200, tolerance=1e-5, batch_size=16)
    result = Influence(config).unlearn(model, few, progress)
    parameters = list(anatomy(model).decoder[-1].module.parameters())
    after = anatomy(result).decoder[-1].module.parameters()
    step = [(new - old).detach() for new, old in zip(after, parameters, strict=True)]
    retain = few.cleaned(train.retain)
    assert 0 < len(retain) <= len(train.retain)
    with twice_differentiable():
        image = gauss_newton(model, retain, parameters, step, 16)
        gradient = summed_gradient(model, train.forget, parameters, 16)
    left = [one + progress.notes["influence.damping"] * own for one, own in zip(image, step, strict=True)]
    right = [each / len(retain) for each in gradient]
    difference = [one - other for one, other in zip(left, right, strict=True)]
    assert progress.notes["influence.scale"] == 1.0
    assert dot(difference, difference) < 1e-4 * dot(right, right)


@pytest.mark.slow
def test_it_goes_up_the_forget_loss_and_stays_in_its_trust_region(planted: Planted) -> None:
    forget = planted.request.train.forget
    for scope in ("last", "all"):
        progress = Progress()
        config = InfluenceConfig(scope=scope, curvature_rows=128, iterations=8, max_kl=0.02)
        model = Influence(config).unlearn(planted.original, planted.request, progress)
        nll = [
            -float(m.target_log_probs(forget.histories(4), forget.targets).mean()) for m in (planted.original, model)
        ]
        assert nll[1] > nll[0]
        assert progress.notes["influence.predicted_kl"] <= 0.02 * (1 + 1e-6)
        assert progress.notes["influence.scale"] <= 1.0
        assert math.isfinite(progress.notes["retain_nll_ratio"])


def mean_nll(model: Any, part: Any) -> torch.Tensor:
    """[R] mean NLL of each target's own tokens, written without the method's code."""
    output = model.forward(part.histories(model.history_limit), part.targets)
    nll = torch.nn.functional.cross_entropy(output.logits.transpose(1, 2), output.labels, reduction="none")
    mask = torch.ones_like(nll) if output.mask is None else output.mask.float()
    return (nll * mask).sum(1) / mask.sum(1)


def flat(vector: Any) -> torch.Tensor:
    return torch.cat([each.flatten() for each in vector]).detach()


def test_the_gradient_is_that_of_what_retraining_leaves_out() -> None:
    """g = ∇[Σ over D − Σ over the cleaned retain data]; an example whose history becomes empty is only in the first."""
    model, request = setting()
    retain = request.train.retain
    cleaned = request.cleaned(retain)
    progress = Progress()
    parameters = list(anatomy(model).decoder[-1].module.parameters())
    found = Influence(InfluenceConfig())._gradient(model, request, parameters, progress)
    whole = mean_nll(model, request.train.forget).sum() + mean_nll(model, retain).sum() - mean_nll(model, cleaned).sum()
    torch.testing.assert_close(flat(found), flat(torch.autograd.grad(whole, parameters)), rtol=1e-3, atol=1e-3)
    emptied = len(retain) - len(cleaned)
    assert 0 < emptied == progress.notes["influence.emptied_histories"] < progress.notes["influence.changed_histories"]
    assert progress.notes["influence.changed_histories"] == int(retain.history_contains(request.items).sum())
    nothing = replace(request, items=np.zeros_like(request.items))
    Influence(InfluenceConfig())._gradient(model, nothing, parameters, progress)
    assert progress.notes["influence.changed_histories"] == progress.notes["influence.emptied_histories"] == 0


@pytest.mark.parametrize("size", [1, 3, 64])
def test_targets_of_any_length_count_alike_however_they_are_batched(size: int) -> None:
    model = p5.recommender("sequential")
    part = examples(sequences(60, 9, 1)).subset(np.arange(24))
    lengths = target_lengths(forward(model, part))
    assert len(set(lengths.tolist())) > 1
    parameters = list(anatomy(model).decoder[-1].module.parameters())
    with twice_differentiable():
        gradient = flat(summed_gradient(model, part, parameters, size))
        expected = flat(torch.autograd.grad(mean_nll(model, part).sum(), parameters))
        torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-4)
        image = [gauss_newton(model, part, parameters, list(map(torch.ones_like, parameters)), n) for n in (size, 5)]
    torch.testing.assert_close(flat(image[0]), flat(image[1]), rtol=1e-3, atol=1e-5)


def test_nothing_to_forget_is_the_original() -> None:
    model, request = setting()
    nothing = replace(request, train=Groups(request.train.forget.subset(np.arange(0)), request.train.retain))
    result = Influence(InfluenceConfig()).unlearn(model, nothing, Progress())
    state = result.module.state_dict()
    assert all(torch.equal(value, state[name]) for name, value in model.module.state_dict().items())
