"""The pool: the same for every model, matched by level-1 code, each (user, item) pair mentioned once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from genrec_unlearn_bench.evaluation.probing.examples import MATCHES, POSITIVES, sample_pool
from tests.evaluation.probing.worlds import catalogue, subject, t5, without_items


def test_negatives_have_the_positives_codes_and_at_most_as_many_times_matches() -> None:
    given = subject(*catalogue(told=True), users=2000)
    pool = sample_pool(given)
    for rows in (pool.targets, pool.mentions):
        positives, negatives = (np.bincount(rows.codes[side], minlength=8) for side in (rows.labels, ~rows.labels))
        assert (negatives <= MATCHES * positives).all()
        assert (negatives > positives).all()
        assert rows.labels.sum() <= POSITIVES["smoke"]
        assert np.array_equal(rows.labels, given.split.items[rows.items])
        assert np.array_equal(rows.codes, given.original_sids.codes[rows.items, 0])


def test_mentions_are_in_their_histories_and_a_pair_is_there_once() -> None:
    pool = sample_pool(subject(*catalogue(told=True)))
    rows = pool.mentions
    assert (pool.histories.items[pool.owners] == rows.items[:, None]).any(axis=1).all()
    assert np.array_equal(pool.histories.users[pool.owners], rows.users)
    assert len(np.unique(rows.users * 1000 + rows.items)) == len(rows)


def test_histories_are_cut_to_what_the_model_reads_and_hold_no_target() -> None:
    given = subject(*catalogue(told=True), events=12)
    pool = sample_pool(given)
    forget = given.split.train.forget
    assert pool.histories.items.shape[1] == given.recommender.history_limit
    first = int(np.flatnonzero(forget.users == pool.targets.users[0])[0])
    assert np.array_equal(pool.histories.items[0], forget.events[forget.ends[first] - 5 : forget.ends[first]])


def test_every_model_of_a_seed_has_one_pool_and_other_seeds_have_others() -> None:
    table, concept = catalogue(told=True)
    given = subject(table, concept, users=3000)
    moved = t5(table.reassigned(np.flatnonzero(concept), table.codes[concept] // 2))
    first, other, again = (
        sample_pool(each) for each in (given, replace(given, recommender=moved), replace(given, seed=1))
    )
    assert np.array_equal(first.targets.users, other.targets.users)
    assert np.array_equal(first.mentions.items, other.mentions.items)
    assert not np.array_equal(first.targets.users, again.targets.users)


def test_single_interactions_mark_no_item() -> None:
    given = subject(*catalogue(told=True))
    forget = given.split.train.forget
    pairs = list(zip(forget.users.tolist(), forget.targets.tolist(), strict=True))
    pool = sample_pool(replace(given, split=without_items(given.split, pairs)))
    assert pool.targets.labels.sum() == len(pairs)
    assert not pool.mentions.labels.any()
    assert not pool.catalogue.labels.any()
