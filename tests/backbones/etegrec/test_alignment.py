from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.etegrec.joint import code_log_probs, first_occurrences, info_nce, symmetric_kl


def softmax(logits: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in logits)
    return [math.exp(x) / total for x in logits]


@pytest.mark.parametrize("compat", [False, True])
def test_sequence_item_alignment_equals_the_divergence_worked_out_by_hand(compat: bool) -> None:
    """One dimension, codewords 0, 1 and 3; two levels with different residuals."""
    books = [torch.tensor([[0.0], [1.0], [3.0]])] * 2
    sequence, item = torch.tensor([[[0.0], [0.5]]]), torch.tensor([[[1.0], [0.5]]])
    sign = 1.0 if compat else -1.0
    p, q = softmax([0.0, sign * 1, sign * 9]), softmax([sign * 1, 0.0, sign * 4])
    both_ways = sum(a * math.log(a / b) + b * math.log(b / a) for a, b in zip(p, q, strict=True))
    found = symmetric_kl(
        code_log_probs(sequence, books, compat_sign=compat), code_log_probs(item, books, compat_sign=compat)
    )
    assert found.item() == pytest.approx(both_ways / 2, rel=1e-5)  # the second level is equal and adds nothing


@pytest.mark.parametrize("compat", [False, True])
def test_alignment_is_zero_at_equality_and_positive_elsewhere(compat: bool) -> None:
    torch.manual_seed(0)
    books = [torch.randn(7, 4) for _ in range(3)]
    a, b = torch.randn(5, 3, 4), torch.randn(5, 3, 4)
    left = code_log_probs(a, books, compat_sign=compat)
    right = code_log_probs(b, books, compat_sign=compat)
    assert symmetric_kl(left, left).item() == 0.0
    assert symmetric_kl(left, right).item() > 0
    assert symmetric_kl(left, right).item() == pytest.approx(symmetric_kl(right, left).item())


def test_only_the_papers_sign_gives_the_nearest_code_the_most_mass() -> None:
    torch.manual_seed(1)
    books, residuals = [torch.randn(9, 4)], torch.randn(6, 1, 4)
    nearest = torch.cdist(residuals[:, 0], books[0]).argmin(1)
    assert (code_log_probs(residuals, books, compat_sign=False).argmax(-1)[:, 0] == nearest).all()
    assert (code_log_probs(residuals, books, compat_sign=True).argmin(-1)[:, 0] == nearest).all()


def test_info_nce_equals_the_sums_written_out() -> None:
    rng = np.random.default_rng(2)
    a, b, tau = rng.normal(size=(4, 6)), rng.normal(size=(4, 6)), 0.07

    def cosine(x: np.ndarray, y: np.ndarray) -> float:
        return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    def one_way(queries: np.ndarray, keys: np.ndarray) -> float:
        terms = []
        for i, query in enumerate(queries):
            scores = [math.exp(cosine(query, key) / tau) for key in keys]
            terms.append(-math.log(scores[i] / sum(scores)))
        return sum(terms) / len(terms)

    found = info_nce(torch.from_numpy(a), torch.from_numpy(b), tau)
    assert found.item() == pytest.approx(one_way(a, b) + one_way(b, a), rel=1e-6)


def test_each_target_counts_once_at_its_first_place() -> None:
    np.testing.assert_array_equal(first_occurrences(np.array([5, 3, 5, 7, 3])), [1, 0, 3])
