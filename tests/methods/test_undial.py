"""UNDIAL: the target distribution, its stationary point, the gradient at the original, and the trie variant."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.methods import undial
from genrec_unlearn_bench.methods.undial import Undial, UndialConfig, concept_shares, demoted
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.likelihood import level_kl, level_log_probs, reference_log_probs
from tests.backbones.p5sid.models import recommender as tree_recommender
from tests.methods.steps import batch_of, caught
from tests.methods.test_trees import request as tree_request
from tests.planted import Planted
from tests.unlearning.losses.test_suppression import setting


def test_without_demotion_the_original_is_stationary(monkeypatch: pytest.MonkeyPatch) -> None:
    model, request = setting()
    at = caught(monkeypatch, undial, Undial(UndialConfig(beta=0.0, alpha=0.0)), model, request)
    assert float(at.gradient(batch_of(request)).abs().max()) < 1e-6
    assert at.terms["forget"] == pytest.approx(0.0, abs=1e-5)


def test_the_gradient_by_logits_is_that_of_the_paper() -> None:
    """dF/dz_y = p0_y (1 - p0_y)(1 - e^-β)/Z and dF/dz_v = -p0_v p0_y (1 - e^-β)/Z at θ0, Z = 1 - p0_y + p0_y e^-β."""
    beta = 3.0
    logits = torch.tensor([[[2.0, 0.5, -1.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    penalty = torch.tensor([[[1.0, 0.0, 0.0, 0.0]]], dtype=torch.float64)
    teacher = demoted(logits.detach().log_softmax(-1), penalty, beta)
    level_kl(teacher, logits.log_softmax(-1)).backward()  # type: ignore[no-untyped-call]
    p = logits.detach().softmax(-1)
    own = p[..., :1]
    z = 1 - own + own * math.exp(-beta)
    expected = -p * own * (1 - math.exp(-beta)) / z
    expected[..., 0] = (own * (1 - own) * (1 - math.exp(-beta)) / z)[..., 0]
    torch.testing.assert_close(logits.grad, expected)
    q = teacher.exp()
    torch.testing.assert_close(q[..., :1], own * math.exp(-beta) / z)
    ratio = (q / p)[..., 1:]
    torch.testing.assert_close(ratio, ratio[..., :1].expand_as(ratio))


def test_a_constant_on_the_logits_changes_nothing() -> None:
    logits = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0))
    penalty = torch.zeros(3, 2, 5)
    penalty[..., 1] = 1.0
    torch.testing.assert_close(demoted(logits, penalty, 2.0), demoted(logits + 7.0, penalty, 2.0))


def test_shares_that_are_all_one_or_all_nothing_or_no_demotion_give_the_original() -> None:
    log_probs = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)
    for shares, beta in ((torch.ones(3, 2, 5), 3.0), (torch.zeros(3, 2, 5), 3.0), (torch.rand(3, 2, 5), 0.0)):
        torch.testing.assert_close(demoted(log_probs, shares, beta), log_probs)


def test_shares_count_the_items_below_each_code(planted: Planted) -> None:
    table, concept = planted.table, planted.request.items
    targets = np.flatnonzero(concept)[:3]
    shares = concept_shares(table, targets, concept).numpy()
    for row, target in enumerate(targets):
        for level, size in enumerate(table.level_sizes):
            same = (table.codes[:, :level] == table.codes[target, :level]).all(1)
            for code in range(size):
                below = same & (table.codes[:, level] == code)
                expected = concept[below].mean() if below.any() else 1.0
                assert shares[row, level, code] == pytest.approx(expected)


def test_without_end_the_trie_variant_keeps_only_what_a_filter_keeps(planted: Planted) -> None:
    method = Undial(UndialConfig(beta=60.0, trie=True))
    forget = planted.request.train.forget.subset(np.arange(40))
    q = method.targets(planted.original, forget, planted.request.items).exp().numpy()
    table, concept = planted.table, planted.request.items
    kept = table.codes[~concept]
    for row, target in enumerate(forget.targets):
        for level in range(table.levels):
            left = {int(item[level]) for item in kept if (item[:level] == table.codes[target, :level]).all()}
            if left:
                gone = np.setdiff1d(np.arange(table.level_sizes[level]), list(left))
                assert q[row, level, gone].sum() < 1e-6


def test_ordinals_and_ends_of_trees_keep_the_originals_distribution() -> None:
    model, request = tree_recommender("sequential"), tree_request()
    forget = request.train.forget.subset(np.arange(20))
    q = Undial(UndialConfig(beta=5.0)).targets(model, forget, request.items)
    p = reference_log_probs(model, forget)
    codes = model.sids.codes[forget.targets]
    content = model.sids.quantised_codes[forget.targets] >= 0
    content = np.pad(content, ((0, 0), (0, codes.shape[1] - content.shape[1])))
    assert content.any()
    assert not content.all()
    torch.testing.assert_close(q[~torch.from_numpy(content)], p[~torch.from_numpy(content)])
    for row, level in zip(*np.nonzero(content), strict=True):
        code = codes[row, level]
        assert q[row, level, code] < p[row, level, code]


def test_single_interactions_have_no_concept_items_to_demote(planted: Planted) -> None:
    from dataclasses import replace

    asked = replace(planted.request, kind=ConceptKind.INTERACTION)
    with pytest.raises(UsageError, match="names none"):
        Undial(UndialConfig(trie=True)).unlearn(planted.original, asked, Progress())


def test_on_the_planted_set_it_comes_to_its_target(planted: Planted) -> None:
    config = UndialConfig(lr=1e-3, batch_size=64)
    model = Undial(config).unlearn(planted.original, planted.request, Progress())
    forget = planted.request.train.forget
    teacher = Undial(config).targets(planted.original, forget, planted.request.items)

    def distance(recommender) -> float:
        return float(level_kl(teacher, reference_log_probs(recommender, forget)))

    assert distance(model) < 0.5 * distance(planted.original)
    output = model.forward(forget.histories(4), forget.targets)
    assert level_log_probs(output, model.vocabulary).shape == teacher.shape
