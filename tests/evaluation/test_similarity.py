"""Cosine of recommended and target texts."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.evaluation.lists import list_similarity
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.features.item_features import ItemFeatures

from .planted import PlantedRanker, context, evaluated, examples, lists, split


def test_by_hand() -> None:
    # Rows need not be of unit length; the last item has no text.
    features = np.array([[2, 0], [0, 3], [1, 1], [-5, 0], [0, 0]], dtype=np.float32)
    ranked = np.array([[0, 1, 2], [2, -1, -1], [3, 4, 0], [4, 0, -1], [-1, -1, -1], [0, 1, 2]], dtype=np.int64)
    targets = np.array([0, 0, 0, 0, 0, 4], dtype=np.int64)
    first, mean = list_similarity(ranked, targets, features)
    half = np.sqrt(0.5)
    np.testing.assert_allclose(first, [1, half, -1, np.nan, np.nan, np.nan], atol=1e-12)
    np.testing.assert_allclose(mean, [(1 + 0 + half) / 3, half, 0, 1, np.nan, np.nan], atol=1e-12)


def test_chunks_and_loops_agree() -> None:
    generator = np.random.default_rng(0)
    features = generator.normal(size=(50, 6)).astype(np.float32)
    ranked = generator.integers(-1, 50, size=(5000, 10))
    targets = generator.integers(0, 50, size=5000)
    first, mean = list_similarity(ranked, targets, features)
    unit = features.astype(np.float64) / np.linalg.norm(features.astype(np.float64), axis=1, keepdims=True)
    for row in (0, 2047, 2048, 4999):
        cosines = [unit[item] @ unit[targets[row]] for item in ranked[row] if item >= 0]
        assert mean[row] == pytest.approx(np.mean(cosines), abs=1e-12)
        if ranked[row, 0] >= 0:
            assert first[row] == pytest.approx(cosines[0], abs=1e-12)


def test_plain_and_scrubbed_are_not_mixed_up() -> None:
    # Plain text: item 1 is the target's brother by brand. Scrubbed: it is a stranger, and item 2 the brother.
    plain = np.eye(4, dtype=np.float32)
    plain[1] = plain[0]
    scrubbed = np.eye(4, dtype=np.float32)
    scrubbed[2] = scrubbed[0]
    ranker = PlantedRanker(lambda histories, k, beam: lists([[1, 2]] * len(histories), k))
    task = split(4, examples([[3]], [0]), examples([[3]], [0]), concept=[0])
    text = ItemFeatures(plain, scrubbed, "planted")
    values = {(v.metric, v.group, v.beam): v.value for v in evaluated(context(ranker, task, text=text)).values}
    assert values["similarity.first", Group.FORGET, 10] == 1.0
    assert values["similarity.first.scrubbed", Group.FORGET, 10] == 0.0
    assert values["similarity.mean@10", Group.RETAIN, 50] == 0.5
    assert values["similarity.mean@10.scrubbed", Group.RETAIN, 50] == 0.5
