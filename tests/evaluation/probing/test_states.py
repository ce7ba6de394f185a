"""The pool of examples, and the hidden states read of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.evaluation.measurement import Subject
from genrec_unlearn_bench.evaluation.probing.states import MATCHES, POSITIVES, ProbePool, read_states, sample_pool
from genrec_unlearn_bench.progress import Progress
from tests import small
from tests.backbones.etegrec import world as etegrec
from tests.backbones.minionerec import models as minionerec
from tests.backbones.p5sid import models as p5sid
from tests.evaluation.probing.worlds import catalogue, subject, t5, without_items
from tests.planted import sids


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


FAMILIES: dict[str, Callable[[], Recommender]] = {
    "t5": small.t5,
    "causal, ragged": lambda: minionerec.scratch(ragged=True),
    "p5sid, ragged": lambda: p5sid.recommender("sequential"),
    "etegrec": lambda: etegrec.fresh(sids()),
}


def small_subject(model: Recommender) -> Subject:
    concept = np.arange(len(model.sids)) % 4 == 0
    return subject(model.sids, concept, users=24, model=lambda table: model)


def alone(model: Recommender, pool: ProbePool) -> dict[str, NDArray[np.float32]]:
    """Site by site, one history at a time and without padding; the prompt by way of a real target."""
    found: dict[str, list[NDArray[np.float32]]] = {"prompt": [], "pooled": [], "history": []}
    with torch.no_grad():
        for row in range(len(pool.targets)):
            context = model.encode(pool.histories.rows(np.array([row])), hidden=True)
            step = model.decode(context, model.codes_of(pool.targets.items[[row]]), hidden=True)
            found["prompt"].append(torch.stack([layer[0, 0] for layer in step.hidden[1:]]).numpy())
            states = torch.stack(context.hidden)[:, 0]
            found["pooled"].append(states[:, context.mask[0]].mean(1).numpy())
            for mention in np.flatnonzero(pool.owners == row):
                here = context.position_items[0] == int(pool.mentions.items[mention])
                found["history"].append(states[:, here].mean(1).numpy())
    order = np.argsort(np.argsort(pool.owners, kind="stable"))
    arrays = {site: np.stack(rows) for site, rows in found.items()}
    return {**arrays, "history": arrays["history"][order]}


def scaled(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return (values - values.mean(0)) / values.std(0)


@pytest.mark.parametrize("family", FAMILIES)
def test_states_are_those_of_each_history_alone(family: str) -> None:
    model = FAMILIES[family]()
    given = small_subject(model)
    found = read_states(given, Progress())
    pool = sample_pool(given)
    expected = alone(model, pool)
    assert len(pool.mentions) > 20
    for site, values in expected.items():
        # Layers that are the same for all but rounding are no features: the rest of T5's start, say.
        assert found[site].shape == values.shape, site
        assert np.allclose(found[site], scaled(values), atol=0.01), site


@pytest.mark.parametrize("family", FAMILIES)
def test_an_items_embedding_is_the_mean_over_the_tokens_it_has(family: str) -> None:
    model = FAMILIES[family]()
    table = model.module.get_input_embeddings().weight.detach().numpy()  # type: ignore[operator, union-attr]
    rows = []
    for codes in model.sids.codes:
        tokens = [offset + code for offset, code in zip(model.vocabulary.offsets, codes, strict=True) if code >= 0]
        rows.append(table[tokens].mean(0))
    found = read_states(small_subject(model), Progress())["embedding"]
    assert np.allclose(found[:, 0], scaled(np.stack(rows)), atol=0.01)


def test_the_model_is_left_in_the_mode_it_was_in() -> None:
    model = small.t5()
    model.module.train()
    first = read_states(small_subject(model), Progress())
    assert model.module.training
    assert np.array_equal(first["pooled"], read_states(small_subject(model), Progress())["pooled"])


def test_what_the_model_is_not_given_has_no_state() -> None:
    model = small.t5()
    given = small_subject(model)
    blind = replace(given, recommender=model.with_serving(ServingRules(ignored=given.split.items)))
    found = read_states(blind, Progress())["history"]
    labels = sample_pool(blind).mentions.labels
    assert np.isnan(found[labels]).all()
    assert np.isfinite(found[~labels]).all()


def test_rounding_is_no_feature() -> None:
    # Layer 0 of one repeated token: every history of one item has the same state.
    model = small.t5()
    given = small_subject(model)
    groups = given.split.train
    same = Groups(*(replace(part, events=np.full_like(part.events, 7)) for part in (groups.forget, groups.retain)))
    found = read_states(replace(given, split=replace(given.split, train=same)), Progress())["pooled"]
    assert np.array_equal(found, np.zeros_like(found))
