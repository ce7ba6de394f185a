"""Validation numbers are those of the evaluation proper, on the validation parts."""

from __future__ import annotations

import math

import numpy as np

from genrec_unlearn_bench.backbones.early_stopping import validation_ndcg
from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.unlearning.likelihood import reference_nll, resting
from genrec_unlearn_bench.unlearning.sampling import at_most
from genrec_unlearn_bench.unlearning.validation import sample, validate
from tests.planted import Planted


def test_hits_and_gains_are_counted_by_hand(planted: Planted) -> None:
    model, valid = planted.original, planted.request.valid
    found = validate(model, valid)
    lists = model.recommend(valid.forget.histories(4), 10, beam=10).items
    hits = [target in row for row, target in zip(lists.tolist(), valid.forget.targets.tolist(), strict=True)]
    assert found.forget_hr == np.mean(hits)
    assert math.isclose(found.retain_ndcg, validation_ndcg(model, valid.retain))
    assert (found.forget_rows, found.retain_rows) == (len(valid.forget), len(valid.retain))


def test_a_filter_is_validated_by_what_its_weights_know(planted: Planted) -> None:
    original, valid = planted.original, planted.request.valid
    before = validate(original, valid, original=planted.table)
    assert before.exposed_hr == before.forget_hr
    filtered = original.with_serving(ServingRules(blocked=planted.request.items))
    found = validate(filtered, valid, original=planted.table)
    assert found.forget_hr == 0.0
    assert found.exposed_hr == before.forget_hr > 0.5
    assert (found.forget_hits, found.exposed_hits) == ((), before.forget_hits)
    assert len(before.forget_hits) == round(before.forget_hr * before.forget_rows)
    assert validate(filtered, valid).exposed_hr is None, "not asked for"


def test_an_empty_part_has_no_number(planted: Planted) -> None:
    nothing = planted.request.valid.forget.subset(np.zeros(0, dtype=np.int64))
    found = validate(planted.original, Groups(nothing, planted.request.valid.retain))
    assert math.isnan(found.forget_hr)
    assert found.retain_ndcg > 0


def test_a_sample_is_the_same_for_the_same_seed_and_small_parts_stay_whole(planted: Planted) -> None:
    valid = planted.request.valid
    one, two, other = sample(valid, 50, 0), sample(valid, 50, 0), sample(valid, 50, 1)
    assert len(one.retain) == 50
    assert len(one.forget) == len(valid.forget)
    np.testing.assert_array_equal(one.retain.times, two.retain.times)
    assert (one.retain.times != other.retain.times).any()


def test_the_reference_rests_and_wakes_as_it_was(planted: Planted) -> None:
    model = planted.original.clone()
    model.module.train()
    with resting(model) as frozen:
        assert not frozen.module.training
        output = frozen.forward(planted.request.valid.retain.histories(4), planted.request.valid.retain.targets)
        assert not output.logits.requires_grad
    assert model.module.training
    forget = planted.request.train.forget
    expected = -model.target_log_probs(forget.histories(4), forget.targets).sum(1)
    np.testing.assert_allclose(reference_nll(planted.original, forget).numpy(), expected.numpy(), rtol=1e-6)


def test_a_sample_is_the_same_for_the_same_seed_and_in_order(planted: Planted) -> None:
    retain = planted.request.train.retain
    one, again, other = (at_most(retain, 10, seed, "retain") for seed in (0, 0, 1))
    assert np.array_equal(one.ends, again.ends)
    assert not np.array_equal(one.ends, other.ends)
    assert (np.diff(one.ends) > 0).all()
    assert at_most(retain, len(retain), 0) is retain


def test_rows_near_the_concept_are_measured_by_themselves(planted: Planted) -> None:
    model, valid = planted.original, planted.request.valid
    near = valid.retain.targets % 3 == 0
    part = Groups(valid.forget, valid.retain.subset(near))
    assert validate(model, valid, near=near).near_ndcg == validate(model, part).retain_ndcg
    assert validate(model, valid, near=np.zeros_like(near)).near_ndcg is None
    assert validate(model, valid).near_ndcg is None


def test_dropped_items_make_room_for_older_ones(planted: Planted) -> None:
    """As in the evaluation: what is ignored leaves a history before it is cut to what the model reads."""
    model, valid = planted.original, planted.request.valid
    ignoring = model.with_serving(ServingRules(ignored=planted.request.items))
    cleaned = Groups(*(part.without_items(planted.request.items) for part in (valid.forget, valid.retain)))
    longer = valid.retain.history_lengths() > model.history_limit
    assert (longer & (cleaned.retain.history_lengths() < valid.retain.history_lengths())).any()
    found, expected = validate(ignoring, valid), validate(model, cleaned)
    assert found.retain_ndcg == expected.retain_ndcg
    assert found.forget_hits == expected.forget_hits
