from __future__ import annotations

from dataclasses import replace

import numpy as np

from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.features.item_features import ItemFeatures
from genrec_unlearn_bench.unlearning.sampling import paired_batches, positive_set, steps_per_epoch
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import scrubbed_latents
from tests.planted import concept, examples, features, groups, sequences, sids


def test_positives_are_the_nearest_retain_items_with_other_codes() -> None:
    table, marked = sids(), concept()
    items = np.flatnonzero(marked)
    plain = features(table)
    found = positive_set(plain, table, items, marked, 5)
    for row, item in enumerate(items):
        cosine = plain.scrubbed @ plain.scrubbed[item]
        allowed = ~marked & (table.codes[:, :3] != table.codes[item, :3]).any(1)
        expected = sorted(np.flatnonzero(allowed), key=lambda j: (-cosine[j], j))[:5]
        assert set(found[row]) == set(expected)
    assert not marked[found].any()


def test_scrubbed_texts_decide_not_plain_ones() -> None:
    table, marked = sids(), concept()
    base = features(table)
    misleading = ItemFeatures(np.roll(base.plain, 1, axis=0), base.scrubbed, "x")
    items = np.flatnonzero(marked)
    np.testing.assert_array_equal(
        positive_set(misleading, table, items, marked, 3), positive_set(base, table, items, marked, 3)
    )


def test_too_few_neighbours_are_marked() -> None:
    table = sids()
    marked = np.ones(64, dtype=bool)
    marked[[8, 16]] = False
    found = positive_set(features(table), table, np.array([0]), marked, 5)
    assert set(found[0].tolist()) == {8, 16, -1}


def test_an_epoch_holds_every_forget_example_once_beside_distinct_retain_examples() -> None:
    part = groups(examples(sequences(50, 9, 1)), concept())
    batches = list(paired_batches(part, 16, np.random.default_rng(0)))
    assert len(batches) == steps_per_epoch(part, 16)
    seen = np.sort(np.concatenate([b.forget.ends for b in batches]))
    np.testing.assert_array_equal(seen, np.sort(part.forget.ends))
    retain = np.concatenate([b.retain.ends for b in batches])
    assert len(np.unique(retain)) == len(retain) == len(seen)
    scarce = Groups(part.forget, part.retain.subset(np.arange(3)))
    assert sum(len(b.retain) for b in paired_batches(scarce, 16, np.random.default_rng(0))) == len(seen)


def test_scrubbed_latents_are_exact_for_linear_tokenizers() -> None:
    rng = np.random.default_rng(0)
    plain, scrubbed = (rng.normal(size=(64, 12)).astype(np.float32) for _ in range(2))
    projection = rng.normal(size=(12, 8)).astype(np.float32)
    table = replace(sids(), latents=plain @ projection + 0.5)
    moved = scrubbed_latents(table, ItemFeatures(plain, scrubbed, "x"))
    np.testing.assert_allclose(moved.latents, scrubbed @ projection + 0.5, atol=1e-3)
    np.testing.assert_array_equal(moved.codes, table.codes)
