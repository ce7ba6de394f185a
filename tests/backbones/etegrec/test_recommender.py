from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.decoding.t5 import T5Session
from tests.backbones.etegrec.world import ITEMS, SHAPE, fresh
from tests.planted import sids

LISTS = [[1, 2, 3, 4], [9], [17, 18, 19], [60, 61]]
TARGETS = np.array([5, 10, 20, 62])


@pytest.fixture(scope="module")
def model() -> EtegrecRecommender:
    torch.set_num_threads(1)
    return fresh(sids())


def by_level_tables(model: EtegrecRecommender, history: list[int], target: int) -> list[torch.Tensor]:
    """The official formulation on the same weights: a table per level, the start row alone, unscaled tied heads."""
    table, net = model.sids, model.model
    weight = net.shared.weight
    tables = [nn.Embedding.from_pretrained(weight[window]) for window in model.level_windows]
    codes = torch.from_numpy(table.codes)
    inputs = torch.stack([tables[level](codes[item, level]) for item in history for level in range(table.levels)])
    decoder = [weight[0], *(tables[level](codes[target, level]) for level in range(table.levels - 1))]
    output = net(
        inputs_embeds=inputs[None],
        decoder_inputs_embeds=torch.stack(decoder)[None],
        output_hidden_states=True,
        use_cache=False,
    )
    states = output.decoder_hidden_states[-1][0]
    return [states[level] @ tables[level].weight.T for level in range(table.levels)]


def test_logits_are_those_of_one_table_per_level(model: EtegrecRecommender) -> None:
    step = model.forward(Histories.of(LISTS), TARGETS)
    assert torch.isfinite(step.logits).all()
    for row, history in enumerate(LISTS):
        expected = by_level_tables(model, history, int(TARGETS[row]))
        for level, window in enumerate(model.level_windows):
            torch.testing.assert_close(step.logits[row, level, window], expected[level], rtol=1e-4, atol=1e-5)
            own = expected[level].log_softmax(-1)[model.sids.codes[TARGETS[row], level]]
            torch.testing.assert_close(step.token_log_probs()[row, level], own, rtol=1e-4, atol=1e-5)


def test_the_softmax_lies_within_the_level(model: EtegrecRecommender) -> None:
    shares = model.forward(Histories.of(LISTS), TARGETS).logits.softmax(-1)
    for level, window in enumerate(model.level_windows):
        torch.testing.assert_close(shares[:, level, window].sum(-1), torch.ones(len(LISTS)))
        assert shares[:, level].sum() - shares[:, level, window].sum() == 0


def test_ranking_is_that_of_teacher_forced_sums_over_the_catalogue(model: EtegrecRecommender) -> None:
    histories = Histories.of(LISTS)
    exact, beams = model.recommend(histories, ITEMS, exact=True), model.recommend(histories, 10, beam=ITEMS)
    for row, history in enumerate(LISTS):
        given = model.target_log_probs(Histories.of([history] * ITEMS), np.arange(ITEMS)).sum(1).numpy()
        np.testing.assert_allclose(exact.log_probs[row], given[exact.items[row]], atol=1e-4)
        assert sorted(exact.items[row].tolist()) == list(range(ITEMS))
        assert (np.diff(given[exact.items[row]]) <= 1e-4).all()
        np.testing.assert_array_equal(beams.items[row], exact.items[row, :10])


def test_served_and_differentiable_logits_agree(model: EtegrecRecommender) -> None:
    histories = Histories.of([*LISTS, []])
    with torch.inference_mode():
        level = model.level_windows[0]
        fast = model.server()(histories).start_window(level)
        context = model.encode(histories)
        plain = T5Session(model._decoder(), context.state, context.mask).start_window(level)
        forced = model.forward(histories, np.arange(5)).logits[:, 0].log_softmax(-1)[:, level]
    torch.testing.assert_close(fast, plain, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(fast, forced, rtol=1e-4, atol=1e-4)


def test_several_targets_on_one_history_equal_one_by_one(model: EtegrecRecommender) -> None:
    rows, targets = torch.tensor([2, 0, 2]), np.array([7, 8, 9])
    shared = model.decode(model.encode(Histories.of(LISTS)), model.codes_of(targets), rows=rows)
    alone = model.forward(Histories.of([LISTS[row] for row in rows]), targets)
    torch.testing.assert_close(shared.logits, alone.logits, rtol=1e-5, atol=1e-5)


def test_save_load_clone_and_another_table(model: EtegrecRecommender, tmp_path: Path) -> None:
    histories = Histories.of(LISTS)
    before = model.recommend(histories, 10)
    model.save(tmp_path / "model")
    again = EtegrecRecommender.load(tmp_path / "model")
    np.testing.assert_array_equal(again.recommend(histories, 10).log_probs, before.log_probs)
    assert again.capabilities == {Capability.HAS_CODEBOOKS, Capability.JOINT_TOKENIZER}
    copy = model.clone()
    with torch.no_grad():
        next(copy.module.parameters()).add_(1.0)
    np.testing.assert_array_equal(model.recommend(histories, 10).log_probs, before.log_probs)
    moved = model.with_sids(model.sids.reassigned(np.array([0, 1]), model.sids.codes[[1, 0]]))
    quiet = Histories.of([[30, 31]])
    a, b = model.recommend(quiet, ITEMS, exact=True).items, moved.recommend(quiet, ITEMS, exact=True).items
    relabel = np.arange(ITEMS)
    relabel[[0, 1]] = [1, 0]
    np.testing.assert_array_equal(relabel[a], b)
    np.testing.assert_array_equal(moved.recommend(quiet, ITEMS, exact=True, sids=model.sids).items, a)


def test_fresh_weights_have_the_asked_for_deviation_and_depend_on_the_seed_alone() -> None:
    one, two = (EtegrecRecommender.fresh(SHAPE, sids(), seed=3) for _ in range(2))
    assert torch.equal(one.model.shared.weight, two.model.shared.weight)
    assert one.model.shared.weight.std().item() == pytest.approx(0.02, rel=0.1)
    one.rescale(0.1)
    torch.testing.assert_close(one.model.shared.weight, 5 * two.model.shared.weight)
    torch.testing.assert_close(one.model.lm_head.weight, one.model.shared.weight)
    assert not torch.equal(EtegrecRecommender.fresh(SHAPE, sids(), seed=4).model.shared.weight, two.model.shared.weight)
