"""TRACER and its control on a planted recommender whose concept sits in tokens that retain items share."""

from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.backbones.early_stopping import validation_ndcg
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.methods.random_reassign import RandomReassign, RandomReassignConfig
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.overlap import overlap
from tests.backbones.p5sid.models import recommender as tree
from tests.methods.test_trees import request as tree_request
from tests.planted import HISTORY, Planted

CONFIG = TracerConfig(lr=3e-4, phi_lr=5e-2, batch_size=64)


def concept_rate(model: Recommender, part: Examples, marked: np.ndarray) -> float:
    return float(marked[model.recommend(part.histories(HISTORY), 1, beam=10).items].mean())


def unlearn(planted: Planted, config: TracerConfig) -> tuple[Recommender, Progress]:
    progress = Progress()
    return Tracer(config).unlearn(planted.original, planted.request, progress), progress


def test_the_planted_model_has_something_to_forget(planted: Planted) -> None:
    """Doing nothing meets none of what the next test asks for."""
    assert concept_rate(planted.original, planted.test.forget, planted.request.items) > 0.8
    assert validation_ndcg(planted.original, planted.test.retain) > 0.9


def test_tracer_forgets_moves_tokens_and_keeps_the_rest(planted: Planted) -> None:
    before = planted.original.module.state_dict()["shared.weight"].clone()
    model, progress = unlearn(planted, CONFIG)
    marked = planted.request.items
    assert concept_rate(model, planted.test.forget, marked) < 0.05
    kept = validation_ndcg(model, planted.test.retain) / validation_ndcg(planted.original, planted.test.retain)
    assert kept >= 0.95
    assert overlap(model.sids, marked).quantised < overlap(planted.table, marked).quantised
    assert progress.notes["items_moved"] >= 4
    assert progress.notes["overlap_after"] < progress.notes["overlap_before"]
    np.testing.assert_array_equal(model.sids.codes[~marked], planted.table.codes[~marked])
    assert len(np.unique(model.sids.codes, axis=0)) == len(marked)
    assert (planted.original.module.state_dict()["shared.weight"] == before).all(), "the original was changed"


def test_same_seed_same_bits(planted: Planted) -> None:
    config = CONFIG.model_copy(update={"epochs": 2, "hard_epochs": 1})
    one, two = unlearn(planted, config)[0], unlearn(planted, config)[0]
    for name, tensor in one.module.state_dict().items():
        assert (tensor == two.module.state_dict()[name]).all(), name


def variant(name: str, **fields: object) -> TracerConfig:
    """A variant's configuration, shortened or changed by ``fields``."""
    return TracerConfig.model_validate({**CONFIG.model_dump(), **Tracer.variants[name], **fields})


@pytest.mark.slow
def test_the_default_rate_of_phi_reaches_another_codeword_within_the_soft_phase(planted: Planted) -> None:
    """At the paper's 0.01, in units of the gap, none does."""
    short = {"batch_size": 64, "lr": 3e-4}
    assert unlearn(planted, TracerConfig(**short))[1].notes["items_moved"] >= 4
    assert unlearn(planted, TracerConfig(**short, phi_lr=0.01))[1].notes["items_moved"] == 0


def test_without_reassignment_only_the_number_of_epochs_counts(planted: Planted) -> None:
    """As ``theta-only``, the control it replaces: the losses of all epochs, with the original SIDs."""
    (one, log), (two, other) = (
        unlearn(planted, variant("tracer-no-reassignment", epochs=a + b, hard_epochs=b)) for a, b in ((2, 1), (0, 3))
    )
    assert one.sids.digest == planted.table.digest
    assert "items_moved" not in log.notes
    assert [step.losses for step in log.steps] == [step.losses for step in other.steps]
    for name, tensor in one.module.state_dict().items():
        assert (tensor == two.module.state_dict()[name]).all(), name
    assert any((t != one.module.state_dict()[n]).any() for n, t in planted.original.module.state_dict().items())


def test_without_reassignment_no_codebooks_are_needed() -> None:
    model, asked = tree("collaborative"), tree_request()
    assert model.sids.codebooks is None
    method = Tracer(variant("tracer-no-reassignment", epochs=1, hard_epochs=0, batch_size=16))
    assert not method.needs
    progress = Progress()
    after = method.unlearn(model, asked, progress)
    assert progress.steps
    assert after.sids.digest == model.sids.digest


def test_the_control_without_phi_trains_on_soft_tokens_and_moves_nothing(planted: Planted) -> None:
    short = {"epochs": 3, "hard_epochs": 1}
    model, progress = unlearn(planted, variant("tracer-zero-phi", **short))
    soft = [step.losses for step in progress.steps if step.stage == "soft"]
    assert soft
    assert {step["phi"] for step in soft} == {0.0}
    assert max(step["phi_gradient"] for step in soft) > 0
    assert progress.notes["items_moved"] == 0
    np.testing.assert_array_equal(model.sids.codes, planted.table.codes)
    hard = unlearn(planted, variant("tracer-no-reassignment", **short))[1].steps[0].losses
    assert soft[0]["retain"] != hard["retain"], "soft histories are not the original's, from the first step on"


def test_as_printed_forgetting_weighs_by_the_number_of_examples(planted: Planted) -> None:
    """In the paper's sums a step's forget term is that of equal means with λ1 |D_f| / |D_r|, over three codes, not four
    tokens."""
    short = {"epochs": 1, "hard_epochs": 0}
    log = unlearn(planted, variant("tracer-paper", **short))[1]
    means = unlearn(planted, variant("tracer-paper", **short, reduction="mean"))[1].steps[0].losses
    sums, train = log.steps[0].losses, planted.request.train
    levels, depth = planted.table.levels, planted.table.quantised_levels
    assert sums["retain"] == pytest.approx(len(train.retain) * levels * means["retain"], rel=1e-4)
    assert sums["forget"] == pytest.approx(len(train.forget) * depth * means["forget"], rel=1e-4)
    assert sums["coherence"] == pytest.approx(len(train.forget) * levels * means["coherence"], rel=1e-4)
    assert not log.diverged


def test_interaction_requests_move_nothing(planted: Planted) -> None:
    from dataclasses import replace

    nothing = np.zeros_like(planted.request.items)
    request = replace(planted.request, kind=ConceptKind.INTERACTION, items=nothing, pairs=np.array([[0, 1]]))
    model = Tracer(CONFIG.model_copy(update={"epochs": 3})).unlearn(planted.original, request, Progress())
    assert model.sids.version == 0


def test_the_raw_temperature_of_the_paper_is_refused_where_it_is_one_hot(planted: Planted) -> None:
    raw = CONFIG.model_copy(update={"temperature_units": "raw", "temperature_start": 0.005, "temperature_end": 0.005})
    with pytest.raises(BenchError, match="one-hot"):
        unlearn(planted, raw)
    model, _ = unlearn(planted, raw.model_copy(update={"entropy_gate": False, "epochs": 3}))
    np.testing.assert_array_equal(model.sids.codes, planted.table.codes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"mask": "off"},
        {"mask": "overlap-only"},
        {"forget_target": "orig"},
        {"forget_target": "soft"},
        {"phi_optimizer": "sgd"},
        {"rho": "interactions"},
        {"recompute_residuals": True},
        {"latents": "scrubbed"},
        {"clean_history": True},
        {"forget_bound": "none"},
        {"lambda_coherence": 0.0},
        {"lambda_reg": 0.0},
        {"reduction": "sum"},
    ],
    ids=lambda change: "-".join(f"{k}={v}" for k, v in change.items()),
)
def test_every_ablation_runs_and_differs(planted: Planted, change: dict[str, object]) -> None:
    """Each named ablation changes what is learned (φ's gradient or the losses), not only a field."""
    short = {"epochs": 2, "hard_epochs": 1, "batch_size": 32}
    base, varied = (CONFIG.model_copy(update={**short, **extra}) for extra in ({}, change))
    a, b = unlearn(planted, base)[1], unlearn(planted, varied)[1]
    assert not b.diverged
    if change == {"latents": "scrubbed"}:  # the planted scrubbed features equal the plain ones
        assert b.steps[0].losses["retain"] == pytest.approx(a.steps[0].losses["retain"], abs=1e-3)
        return
    assert [s.losses for s in a.steps] != [s.losses for s in b.steps]


def test_random_reassignment_moves_everything_to_rare_codes(planted: Planted) -> None:
    progress = Progress()
    config = RandomReassignConfig(lr=3e-4, batch_size=64, epochs=10)
    model = RandomReassign(config).unlearn(planted.original, planted.request, progress)
    marked = planted.request.items
    assert progress.notes["items_moved"] == marked.sum()
    assert overlap(model.sids, marked).quantised < 0.25 * overlap(planted.table, marked).quantised
    assert concept_rate(model, planted.test.forget, marked) < 0.05
