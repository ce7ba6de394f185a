"""E2URec: the forgetting teacher, what it demotes, and adapters that start at the original."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.methods import e2urec
from genrec_unlearn_bench.methods.e2urec import E2URec, E2URecConfig, forgetting_targets
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.descent import descend
from genrec_unlearn_bench.unlearning.likelihood import level_kl, mean_nll, reference_log_probs
from tests.methods.steps import batch_of
from tests.planted import Planted
from tests.unlearning.losses.test_suppression import setting


def pair(seed: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    base, tuned = (torch.randn(4, 3, 6, generator=generator) for _ in range(2))
    return base, tuned, torch.ones(4, 3, dtype=torch.bool)


def test_the_teacher_is_the_papers_formula() -> None:
    base, tuned, content = pair()
    found = forgetting_targets(base, tuned, 2.0, content)
    expected = (base - 2.0 * torch.relu(tuned - base)).softmax(-1)
    torch.testing.assert_close(found.exp(), expected)


def test_without_a_difference_or_a_factor_it_is_the_original() -> None:
    base, tuned, content = pair()
    original = base.log_softmax(-1)
    torch.testing.assert_close(forgetting_targets(base, tuned, 0.0, content), original)
    torch.testing.assert_close(forgetting_targets(base, base.clone(), 2.0, content), original)
    torch.testing.assert_close(forgetting_targets(base, tuned, 2.0, ~content), original)


def test_codes_that_the_augmented_model_likes_less_keep_their_ratios() -> None:
    base, tuned, content = (each.log_softmax(-1) if each.is_floating_point() else each for each in pair(1))
    q = forgetting_targets(base, tuned, 2.0, content)
    for row, level in np.ndindex(4, 3):
        less = torch.nonzero(tuned[row, level] <= base[row, level]).ravel()
        gap = (q - base)[row, level, less]
        torch.testing.assert_close(gap, gap[:1].expand_as(gap))


def test_from_log_probabilities_a_constant_on_the_augmented_logits_changes_nothing_and_from_logits_it_does() -> None:
    base, tuned, content = pair(2)
    drifted = tuned + 5.0

    def from_log_probs(augmented: torch.Tensor) -> torch.Tensor:
        return forgetting_targets(base.log_softmax(-1), augmented.log_softmax(-1), 2.0, content)

    torch.testing.assert_close(from_log_probs(drifted), from_log_probs(tuned))
    raw = [forgetting_targets(base, augmented, 2.0, content).exp() for augmented in (tuned, drifted)]
    assert float((raw[0] - raw[1]).abs().max()) > 0.05


def test_the_augmented_model_starts_at_the_original_and_learns_the_forget_set() -> None:
    model, request = setting()
    progress = Progress()
    E2URec(E2URecConfig(augment_epochs=5, augment_lr=3e-3, epochs=0, batch_size=16)).unlearn(model, request, progress)
    assert progress.notes["augment.forget_nll"] < mean_nll(model, request.train.forget) - 0.3
    assert progress.notes["augment.mean_relu"] > 0.1


def test_untrained_adapters_are_the_original_to_the_bit() -> None:
    model, request = setting()
    result = E2URec(E2URecConfig(epochs=0, augment_epochs=0)).unlearn(model, request, Progress())
    state = result.module.state_dict()
    for name, value in model.module.state_dict().items():
        assert torch.equal(value, state[name]), name


def test_only_queries_and_values_move_and_the_first_epoch_only_forgets() -> None:
    model, request = setting()
    progress = Progress()
    config = E2URecConfig(epochs=2, warm_epochs=1, augment_epochs=1, augment_lr=1e-3, lr=1e-2, batch_size=16)
    result = E2URec(config).unlearn(model, request, progress)
    state = result.module.state_dict()
    changed = {name for name, value in model.module.state_dict().items() if not torch.equal(value, state[name])}
    assert changed
    assert all(name.split(".")[-2] in {"q", "v"} for name in changed)
    assert any("EncDecAttention" in name or "cross" in name.lower() for name in changed)
    logs = [set(step.losses) for step in progress.steps if "forget" in step.losses]
    half = len(logs) // 2
    assert all("retain" not in names for names in logs[:half])
    assert all("retain" in names for names in logs[half:])


def test_raw_logits_are_the_official_form(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    teachers: dict[bool, torch.Tensor] = {}
    for raw in (False, True):
        config = E2URecConfig(raw_logits=raw, augment_epochs=1, augment_lr=3e-3, batch_size=16)
        teachers[raw] = E2URec(config).forgetting_teacher(model, request, Progress())
    assert torch.isfinite(teachers[True].exp()).all()
    assert not torch.allclose(teachers[False].exp(), teachers[True].exp(), atol=1e-4)


def test_without_augmenting_the_forgetting_term_has_no_gradient_at_the_original(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, request = setting()
    steps: list[Any] = []

    def caught(student: Recommender, asked: Any, config: Any, step: Any, progress: Progress, **given: Any) -> None:
        steps.append((student, step))
        if len(steps) == 1:
            descend(student, asked, config, step, progress, **given)

    monkeypatch.setattr(e2urec, "descend", caught)
    E2URec(E2URecConfig(augment_epochs=0, batch_size=16)).unlearn(model, request, Progress())
    student, step = steps[1]
    terms = step(batch_of(request))
    gradients = [p.grad for p in student.module.parameters() if p.grad is not None]
    assert float(terms["forget"]) == pytest.approx(0.0, abs=1e-5)
    assert all(float(each.abs().max()) < 1e-6 for each in gradients)


def test_it_comes_closer_to_its_teacher() -> None:
    model, request = setting()
    config = E2URecConfig(lr=1e-2, epochs=6, warm_epochs=6, batch_size=16, augment_lr=3e-3, augment_epochs=5)
    method = E2URec(config)
    result = method.unlearn(model, request, Progress())
    forget = request.train.forget
    teacher = method.forgetting_teacher(model, request, Progress())
    far = [float(level_kl(teacher, reference_log_probs(each, forget))) for each in (model, result)]
    assert far[1] < 0.7 * far[0]


def test_a_concept_that_is_learned_by_heart_leaves_the_augmented_model_nothing_to_add(planted: Planted) -> None:
    progress = Progress()
    E2URec(E2URecConfig(batch_size=64, epochs=1)).unlearn(planted.original, planted.request, progress)
    assert 0 <= progress.notes["augment.mean_relu"] < 0.1
    assert not progress.diverged
