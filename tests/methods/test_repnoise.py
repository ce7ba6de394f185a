"""RepNoise: which positions count, its loss by hand, and what it leaves behind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.methods import repnoise
from genrec_unlearn_bench.methods.repnoise import RepNoise, RepNoiseConfig, adversarial, mmd, refusal_pairs
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.anatomy import anatomy, tapped
from genrec_unlearn_bench.unlearning.sampling import paired_batches, without_small_end
from tests.backbones.etegrec.world import fresh
from tests.methods.steps import caught
from tests.planted import Planted, sids
from tests.small import causal, hooks, interaction_request, small_request, t5


def etegrec() -> Recommender:
    return fresh(sids())


def test_shared_codes_ordinals_and_twins_drop_out() -> None:
    table = sids()
    codes = table.codes.copy()
    codes[:, 3] = np.arange(64) % 4
    twins = replace(table, codes=codes)
    request = small_request()
    pairs = refusal_pairs(request, twins, 3)
    targets = pairs.request.train.forget.targets
    assert len(pairs.harmless) == len(targets) == len(pairs.differ) > 0
    np.testing.assert_array_equal(pairs.differ[:, :3], codes[targets][:, :3] != codes[pairs.harmless][:, :3])
    assert not pairs.differ[:, 3].any(), "the collision ordinal says nothing about an item"
    assert not request.items[pairs.harmless].any()
    assert not pairs.differ[:, 0].all(), "nearest items share their first code"
    # With all items of a group alike in everything that counts, there is nothing to tell apart inside a group.
    codes = table.codes.copy()
    codes[:, 1:3] = 0
    features = replace(request.features, scrubbed=np.eye(8, dtype=np.float32)[np.arange(64) // 8])
    alike = refusal_pairs(replace(request, features=features), replace(table, codes=codes), 7)
    assert alike.skipped + len(alike.harmless) == len(request.train.forget)
    assert alike.differ.any(1).all()


def test_the_same_pairs_for_the_same_seed_and_several_neighbours_in_use() -> None:
    one, two = (refusal_pairs(small_request(), sids(), 5).harmless for _ in range(2))
    np.testing.assert_array_equal(one, two)
    targets = refusal_pairs(small_request(), sids(), 5).request.train.forget.targets
    assert max(len(set(one[targets == item])) for item in set(targets.tolist())) > 1


@pytest.mark.parametrize("make", [t5, causal, etegrec])
@torch.no_grad()
def test_a_reads_every_depth_through_norm_and_head_once(make) -> None:
    """Against the residual stream behind every block, caught by hooks; the last one is not normed twice."""
    model = make()
    part = small_request().train.forget.subset(np.arange(10))
    mask = torch.rand(10, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    body = anatomy(model)
    context = model.encode(part.histories(4))
    codes = model.codes_of(part.targets)
    with tapped([block.module for block in body.decoder]) as streams:
        output = model.decode(context, codes, hidden=True)
    depths = [output.hidden[0], *(body.at_targets(stream, context, 4) for stream in streams)]
    losses = []
    for depth in depths:
        logits = body.lens(depth)
        if make is etegrec:  # a softmax a level
            logits = torch.stack(
                [
                    torch.full_like(logits[:, level], -1e9).index_copy(
                        1, torch.arange(first, first + size), logits[:, level, first : first + size]
                    )
                    for level, (first, size) in enumerate(
                        zip(model.vocabulary.offsets, model.vocabulary.level_sizes, strict=True)
                    )
                ],
                1,
            )
        values = -logits.log_softmax(-1).gather(-1, output.labels[..., None])[..., 0]
        losses.append(float(values[mask].mean()))
    final = -float(output.token_log_probs()[mask].mean())
    assert losses[-1] == pytest.approx(final, rel=1e-4), "the last depth is the network's own output"
    by_hand = 1 + (final + sum(losses)) / len(depths)
    assert float(adversarial(body, output, mask)) == pytest.approx(by_hand, rel=1e-4)


@pytest.mark.parametrize("make", [t5, causal])
@pytest.mark.parametrize("noise_at", ["predicting", "read"])
def test_the_loss_is_put_together_as_written(make, noise_at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = RepNoiseConfig(alpha=0.7, beta=0.3, retain_weight=2.0, noise_at=noise_at)
    original, request = make(), small_request()
    run = caught(monkeypatch, repnoise, RepNoise(config), original, request)
    model = run.model
    assert run.batches is not None
    (part,) = run.batches(0)
    pairs = refusal_pairs(request, original.sids, 5)
    mask = torch.from_numpy(pairs.differ[part.forget_rows])
    found = run.gradient(part)
    histories = part.forget.histories(4)
    body = anatomy(model)
    context = model.encode(histories)
    with tapped([block.mlp for block in body.decoder]) as outputs:
        harmful = model.decode(context, model.codes_of(part.forget.targets), hidden=True)
    harmless = model.forward(histories, pairs.harmless[part.forget_rows])
    source = _generator(request.seed)
    read = torch.cat([torch.zeros_like(mask[:, :1]), mask[:, :-1]], 1)
    where = (mask if noise_at == "predicting" else read)[..., None]
    distances = []
    for output in outputs:
        layer = body.at_targets(output, context, 4)
        noise = torch.randn(layer.shape, generator=source)
        distances.append(mmd((layer * where).flatten(1), (noise * where).flatten(1)))
    terms = {
        "harmless": -harmless.token_log_probs()[mask].mean(),
        "noise": sum(distances) / len(distances),
        "adversarial": adversarial(body, harmful, mask),
        "retain": -model.forward(part.retain.histories(4), part.retain.targets).token_log_probs().mean(),
    }
    loss = terms["harmless"] + 0.3 * terms["noise"] - 0.7 * torch.log(terms["adversarial"]) + 2 * terms["retain"]
    for name, value in terms.items():
        assert run.terms[name] == pytest.approx(float(value.detach()), rel=1e-4), name
    parameters = list(model.module.parameters())
    expected = torch.cat([g.flatten() for g in torch.autograd.grad(loss, parameters)])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-3)


def _generator(seed: int) -> torch.Generator:
    from genrec_unlearn_bench.seeding import torch_generator

    return torch_generator(seed, "noise")


def test_small_batches_are_refused_and_a_small_end_is_joined() -> None:
    with pytest.raises(ValidationError):
        RepNoiseConfig(batch_size=32)
    train = small_request(300).train
    count = len(train.forget)
    for size in (16, count - 3, count):
        drawn = list(paired_batches(train, size, np.random.default_rng(0)))
        joined = list(without_small_end(iter(drawn), train, min(16, size)))
        rows = np.concatenate([b.forget_rows for b in joined])
        np.testing.assert_array_equal(rows, np.concatenate([b.forget_rows for b in drawn]))
        assert min(len(b.forget) for b in joined) >= min(16, size)
        for one in joined:
            np.testing.assert_array_equal(one.forget.targets, train.forget.targets[one.forget_rows])
            np.testing.assert_array_equal(one.retain.targets, train.retain.targets[one.retain_rows])


def test_faithful_uses_no_retain_data_and_few_pairs_are_said() -> None:
    request = small_request()
    progress = Progress()
    config = RepNoiseConfig(**RepNoise.variants["repnoise-faithful"], epochs=2)
    original = t5()
    model = RepNoise(config).unlearn(original, request, progress)
    assert "retain" not in progress.steps[0].losses
    with tapped([block.mlp for block in anatomy(model).decoder]):
        assert hooks(model.module) == 4, "the count would see them"
    assert hooks(model.module) == hooks(original.module) == 0
    assert progress.notes["pairs"] + progress.notes["pairs_skipped"] == len(request.train.forget)
    assert len(progress.notes["positions_that_differ"]) == 4
    assert "retain" in _first(t5(), RepNoiseConfig(epochs=1))


def _first(model: Recommender, config: RepNoiseConfig) -> dict[str, float]:
    progress = Progress()
    RepNoise(config).unlearn(model, small_request(), progress)
    return dict(progress.steps[0].losses)


@pytest.mark.parametrize("make", [t5, causal, etegrec])
def test_interaction_requests_run_and_the_original_stays(make) -> None:
    original, progress = make(), Progress()
    before: list[Tensor] = [p.detach().clone() for p in original.module.parameters()]
    RepNoise(RepNoiseConfig(epochs=2, noise_scale="layer")).unlearn(original, interaction_request(), progress)
    assert not progress.diverged
    assert progress.steps
    assert all(torch.equal(p, q) for p, q in zip(original.module.parameters(), before, strict=True))


def test_on_the_planted_set_the_concept_becomes_less_likely(planted: Planted) -> None:
    progress = Progress()
    model = RepNoise(RepNoiseConfig(epochs=8, lr=1e-3, warmup=0.0)).unlearn(planted.original, planted.request, progress)
    part = planted.test.forget
    before, after = (
        -float(one.target_log_probs(part.histories(4), part.targets).sum(1).mean()) for one in (planted.original, model)
    )
    assert after > before + 1
    assert progress.steps[-1].losses["adversarial"] > progress.steps[0].losses["adversarial"]
    assert progress.steps[-1].losses["harmless"] < progress.steps[0].losses["harmless"]
