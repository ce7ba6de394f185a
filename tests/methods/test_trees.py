"""TRACER and its control on P5's trees, which have no codebooks."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.errors import CapabilityMissing
from genrec_unlearn_bench.methods.random_reassign import RandomReassign, RandomReassignConfig
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.kmeans import surrogate_codebooks
from genrec_unlearn_bench.unlearning.losses.suppression import Objective
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import PhiTrainer
from tests import planted
from tests.backbones.p5sid.models import recommender

TREES = ["sequential", "collaborative"]
SHORT = TracerConfig(surrogate_codebooks=True, epochs=3, hard_epochs=1, lr=1e-3, phi_lr=0.1)


@cache
def request() -> ForgetRequest:
    shape = planted.sids()
    marked = planted.concept()
    train, valid = (planted.examples(planted.sequences(n, 7, s)) for n, s in ((40, 1), (10, 2)))
    return ForgetRequest(
        catalogue=planted.catalogue(),
        kind=ConceptKind.BRAND,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=planted.groups(train, marked),
        valid=planted.groups(valid, marked),
        features=planted.features(shape),
        seed=0,
    )


def check(before: Recommender, after: Recommender, concept: np.ndarray) -> None:
    old, new = before.sids, after.sids
    assert new.tree == old.tree
    assert new.version == old.version + 1
    assert new.codebooks is None, "surrogates are no part of a table"
    np.testing.assert_array_equal(new.codes[~concept], old.codes[~concept])
    np.testing.assert_array_equal((new.codes >= 0).sum(1), (old.codes >= 0).sum(1))
    assert new.tree is not None
    assert ((new.codes == new.tree.end).sum(1) == 1).all()
    assert Trie.build(new.codes, new.level_sizes).leaves == len(new)


@pytest.mark.parametrize("kind", TREES)
def test_tracer_reassigns_content_codes_by_surrogate_distances(kind: str) -> None:
    original, asked = recommender(kind), request()
    before = {name: value.clone() for name, value in original.module.state_dict().items()}
    progress = Progress()
    result = Tracer(SHORT).unlearn(original, asked, progress)
    assert progress.notes["surrogate_codebooks"] is True
    assert not progress.diverged
    assert int(str(progress.notes["items_moved"])) > 0
    check(original, result, asked.items)
    for name, value in original.module.state_dict().items():
        assert torch.equal(value, before[name]), "the original is left as it is"


@pytest.mark.parametrize("kind", TREES)
def test_the_control_moves_content_codes_at_random(kind: str) -> None:
    original, asked = recommender(kind), request()
    result = RandomReassign(RandomReassignConfig(epochs=1, lr=1e-3)).unlearn(original, asked, Progress())
    check(original, result, asked.items)


@pytest.mark.parametrize("kind", TREES)
def test_only_content_codes_are_suppressed_and_only_they_move_phi(kind: str) -> None:
    model, asked = recommender(kind), request()
    objective = Objective(SHORT, asked, model.sids)
    forget = asked.train.forget
    losses = objective.losses(model, forget, asked.train.retain)
    steps = model.forward(forget.histories(5), forget.targets).token_log_probs()
    content = torch.from_numpy(model.sids.quantised_codes[forget.targets] >= 0)
    floor = -np.log(model.sids.quantised_sizes[0])
    expected = steps[:, : content.shape[1]][content].clamp_min(floor).mean()
    torch.testing.assert_close(losses.forget, expected, rtol=1e-5, atol=1e-5)
    measured = surrogate_codebooks(model.sids, asked.features.plain)
    phi = PhiTrainer(SHORT, asked, measured, model.vocabulary.offsets, model.device)
    weights = phi.assignment_probs(0, 10, Progress())
    phi.backward(objective.losses(model, forget, asked.train.retain, phi.tokens.soft_sids(weights)), forget, weights)
    has = model.sids.quantised_codes[phi.tokens.items] >= 0
    for level, gradient in enumerate(phi._gradients):
        touched = (gradient.abs().sum(1) > 0).numpy()  # |φ| itself has no gradient at φ = 0.
        assert not touched[~has[:, level]].any()
        assert touched[has[:, level]].any()


def test_without_the_flag_trees_are_refused_and_the_flag_is_named() -> None:
    call = {"task": "demo-brand", "method": "tracer", "backbone": "p5sid", "sid_set": {"indexer": "sequential"}}
    with pytest.raises(CapabilityMissing) as fault:
        resolve(RunRequest.model_validate(call))
    assert "surrogate_codebooks=true" in fault.value.render()
    assert resolve(RunRequest.model_validate(call | {"method_set": {"surrogate_codebooks": True}})).method is not None
    assert resolve(RunRequest.model_validate(call | {"sid_set": {}})).method is not None
    assert Tracer(TracerConfig()).needs == {Capability.HAS_CODEBOOKS}
    assert Tracer(TracerConfig(reassign=False)).needs == frozenset()


@pytest.mark.parametrize("backbone", sorted(backbones()))
def test_tracers_control_runs_on_every_backbone(backbone: str) -> None:
    call = {"task": "demo-brand", "method": "tracer-no-reassignment", "backbone": backbone}
    sids = {"sid_set": {"indexer": "sequential"}} if backbone == "p5sid" else {}
    assert resolve(RunRequest.model_validate(call | sids)).method is not None


def test_a_table_with_codebooks_keeps_its_own_under_the_flag() -> None:
    original = recommender("rqvae")
    progress = Progress()
    one = Tracer(SHORT).unlearn(original, request(), progress)
    assert progress.notes["surrogate_codebooks"] is False
    other = Tracer(SHORT.model_copy(update={"surrogate_codebooks": False})).unlearn(original, request(), Progress())
    np.testing.assert_array_equal(one.sids.codes, other.sids.codes)
