"""The planted catalogue has the Ω that was asked for, and nothing else depends on it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.sids.overlap import overlap
from tests import planted_overlap
from tests.planted_overlap import LEVELS, OVERLAPS


def first(model: Recommender, part: Examples) -> float:
    """HR@1."""
    found = model.recommend(part.histories(model.history_limit), 1, beam=16).items[:, 0]
    return float((found == part.targets).mean())


@pytest.mark.parametrize("wanted", [*OVERLAPS, 1 / 12, 5 / 12])
def test_the_overlap_is_what_was_asked_for(wanted: float) -> None:
    table, marked = planted_overlap.sids(wanted), planted_overlap.concept()
    assert overlap(table, marked).quantised == pytest.approx(wanted, abs=1e-12)
    codes, retain = table.codes[marked], table.codes[~marked]
    pairs = [(one[level] == two[level]) for one in codes for two in retain for level in range(LEVELS)]
    assert np.mean(pairs) == pytest.approx(wanted), "the definition, pair by pair"


def test_nothing_else_depends_on_it() -> None:
    marked = planted_overlap.concept()
    tables = [planted_overlap.sids(wanted) for wanted in OVERLAPS]
    for table in tables:
        np.testing.assert_array_equal(table.codes[~marked], tables[0].codes[~marked])
        np.testing.assert_array_equal(table.codes % 2, tables[0].codes % 2)
        assert table.level_sizes == tables[0].level_sizes
        assert len(np.unique(table.codes, axis=0)) == len(marked)
        nearest = [distances.argmin(axis=1) for distances in table.distances(np.arange(len(marked)))]
        np.testing.assert_array_equal(np.stack(nearest, axis=1), table.codes)


def test_an_overlap_that_cannot_be_planted_is_refused() -> None:
    for wanted in (0.3, 0.6, -0.25):
        with pytest.raises(ValueError, match="multiple of 1/12"):
            planted_overlap.sids(wanted)


@pytest.mark.slow
def test_the_original_learns_the_concept_and_retraining_does_not() -> None:
    """Where all of a concept item's codes are others' too (Ω = 0.5), a model that never met it may still spell it now
    and then, and retraining is not zero; with a code of its own it is."""
    retrained = planted_overlap.retrained(OVERLAPS[0])
    for wanted in OVERLAPS:
        world = planted_overlap.trained(wanted)
        forget, retain = world.test.forget, world.test.retain
        assert first(world.original, forget) > 0.8
        assert first(world.original, retain) > 0.8
        assert first(retrained.with_sids(world.original.sids), forget) < (0.2 if wanted == 0.5 else 0.01)


def test_retraining_is_the_same_whatever_the_overlap() -> None:
    """It never meets a concept item, so that one retrained network stands for all."""
    short = planted_overlap.TRAINING.model_copy(update={"max_steps": 5})
    one, two = (planted_overlap.retrained(wanted, training=short) for wanted in (0.0, 0.5))
    for left, right in zip(one.module.parameters(), two.module.parameters(), strict=True):
        assert torch.equal(left, right)
