from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, UnlearningLossConfig, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import paired_batches, positive_set
from tests.planted import catalogue, concept, examples, features, groups, sequences, sids

SHAPE = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=1, heads=4, dropout=0.1, history_limit=4)


def setting() -> tuple[T5Recommender, ForgetRequest]:
    torch.set_num_threads(1)
    model = T5Recommender.fresh(SHAPE, sids(), seed=0)
    model.module.eval()
    part = groups(examples(sequences(40, 9, 1)), concept())
    request = ForgetRequest(
        kind=ConceptKind.BRAND,
        items=concept(),
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=part,
        valid=part,
        features=features(sids()),
        catalogue=catalogue(),
        seed=0,
    )
    return model, request


def test_each_term_is_what_the_paper_defines() -> None:
    model, request = setting()
    objective = Objective(UnlearningLossConfig(forget_bound="none", neighbours=2), request, model.sids)
    forget, retain = request.train.forget.subset(np.arange(6)), request.train.retain.subset(np.arange(6))
    losses = objective.losses(model, forget, retain)
    expected = -model.target_log_probs(retain.histories(4), retain.targets).mean()
    torch.testing.assert_close(losses.retain.detach(), expected, rtol=1e-4, atol=1e-5)
    expected = model.target_log_probs(forget.histories(4), forget.targets)[:, :3].mean()
    torch.testing.assert_close(losses.forget.detach(), expected, rtol=1e-4, atol=1e-5)
    near = positive_set(request.features, model.sids, forget.targets, request.items, 2)
    terms = [model.target_log_probs(forget.histories(4), near[:, k]) for k in range(2)]
    torch.testing.assert_close(losses.coherence.detach(), -torch.cat(terms).mean(), rtol=1e-4, atol=1e-5)


def test_sums_are_those_of_the_paper_and_batches_estimate_them_without_bias() -> None:
    """Eqs. 7 to 9 over all of D_r and D_f; with equal means, forgetting weighs |D_r| / |D_f| times as much."""
    model, request = setting()
    config = UnlearningLossConfig(forget_bound="none", neighbours=2, reduction="sum", text_share=0)
    objective = Objective(config, request, model.sids)
    forget, retain = request.train.forget, request.train.retain
    whole = objective.losses(model, forget, retain)
    expected = -model.target_log_probs(retain.histories(4), retain.targets).sum()
    torch.testing.assert_close(whole.retain.detach(), expected, rtol=1e-4, atol=1e-2)
    expected = model.target_log_probs(forget.histories(4), forget.targets)[:, :3].sum()
    torch.testing.assert_close(whole.forget.detach(), expected, rtol=1e-4, atol=1e-2)
    halves = [np.arange(len(forget)) % 2 == side for side in (0, 1)]
    parts = [objective.losses(model, forget.subset(half), retain).coherence.detach() for half in halves]
    weights = torch.tensor([half.mean() for half in halves], dtype=torch.float32)
    torch.testing.assert_close((torch.stack(parts) * weights).sum(), whole.coherence.detach(), rtol=1e-4, atol=1e-2)
    near = positive_set(request.features, model.sids, forget.targets, request.items, 2)
    terms = [model.target_log_probs(forget.histories(4), near[:, k]).sum() for k in range(2)]
    torch.testing.assert_close(whole.coherence.detach(), -torch.stack(terms).sum() / 2, rtol=1e-4, atol=1e-2)


def test_the_bound_stops_the_push_below_the_uniform_level() -> None:
    model, request = setting()
    table = model.sids
    token = model.vocabulary.offsets[0] + int(table.codes[request.item_ids[0], 0])
    forget = request.train.forget
    forget = forget.subset(table.codes[forget.targets, 0] == table.codes[request.item_ids[0], 0])
    retain = request.train.retain.subset(np.arange(len(forget)))
    with torch.no_grad():
        model.module.get_parameter("lm_head.weight")[token] *= 0
        model.module.get_parameter("shared.weight")[token] *= 0
    bounded = Objective(UnlearningLossConfig(lambda_coherence=0), request, table)
    losses = bounded.losses(model, forget, retain)
    assert float(losses.forget.detach()) >= -math.log(16) - 1e-6


def test_the_unbounded_loss_is_stopped_before_it_ruins_the_model() -> None:
    model, request = setting()
    config = UnlearningLossConfig(lr=0.05, batch_size=16, forget_bound="none", lambda_forget=50.0)
    progress = Progress()
    train_with_discrete_sids(model, Objective(config, request, model.sids), epochs=50, progress=progress)
    assert "hard.stopped_at" in progress.notes or progress.diverged


def test_the_shared_loop_takes_the_steps_of_the_papers_loop_to_the_bit() -> None:
    """One AdamW over all parameters, clipped, on batches drawn by the name of the phase."""
    model, request = setting()
    config = UnlearningLossConfig(lr=1e-3, batch_size=16, epochs=3)
    progress, plain = Progress(), model.clone()
    train_with_discrete_sids(model, Objective(config, request, model.sids), epochs=3, progress=progress)
    objective, steps = Objective(config, request, plain.sids), 0
    plain.module.train(False)
    optimizer = torch.optim.AdamW(plain.module.parameters(), lr=1e-3, weight_decay=0.0)
    for epoch in range(3):
        for batch in paired_batches(request.train, 16, numpy_generator(request.seed, "hard", epoch)):
            loss, values = objective.step(plain, batch)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.module.parameters(), 1.0)
            optimizer.step()
            assert progress.steps[steps].losses.items() >= values.items()
            steps += 1
    assert progress.optimiser_steps == steps == len(progress.steps)
    for one, other in zip(model.module.parameters(), plain.module.parameters(), strict=True):
        assert torch.equal(one, other)


def test_clean_histories_hide_concept_items_from_the_retain_loss() -> None:
    model, request = setting()
    retain = request.train.retain
    with_concept = retain.subset(retain.history_contains(request.items, 4)).subset(np.arange(5))
    forget = request.train.forget.subset(np.arange(5))
    clean = Objective(UnlearningLossConfig(clean_history=True), request, model.sids)
    expected = -model.target_log_probs(
        with_concept.without_items(request.items).histories(4), with_concept.targets
    ).mean()
    got = clean.losses(model, forget, with_concept).retain.detach()
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert float(got) != pytest.approx(
        float(-model.target_log_probs(with_concept.histories(4), with_concept.targets).mean())
    )
