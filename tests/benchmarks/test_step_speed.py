"""What a method's step saves by sharing: several targets on one history, and a pass that ends where it is read.

The peer is what official code does: one forward pass for each answer, and a pass through all blocks. Same gradients,
same run; run with ``-s`` to see the table.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.anatomy import anatomy, tapped
from genrec_unlearn_bench.unlearning.descent import backward
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from tests.benchmarks.timing import duel, free_threads

pytestmark = pytest.mark.speed

ROWS, ANSWERS, HISTORY = 64, 6, 10
"""A batch, and TRACER's answers to each of its histories: the target and five neighbours."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(free_threads())
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["t5", "causal"])
def model(request: pytest.FixtureRequest) -> Recommender:
    """Paper size: T5 with 4 + 4 layers of width 128; a causal model of as many layers and width."""
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(256, size=3000) for _ in range(3)], axis=1)
    table = SidTable(codes, (256, 256, 256), 3)
    made: Recommender
    if request.param == "t5":
        made = T5Recommender.fresh(T5Shape(history_limit=HISTORY, dropout=0.0), table, seed=0)
    else:
        network = NetworkShape(hidden=128, ffn=512, layers=4, heads=4, groups=2)
        made = CausalRecommender.fresh(CausalShape(network=network, history_limit=HISTORY), table, seed=0)
    made.module.eval()
    return made


def inputs() -> tuple[Histories, np.ndarray]:
    rng = np.random.default_rng(1)
    return Histories.of(rng.integers(3000, size=(ROWS, HISTORY)).tolist()), rng.integers(3000, size=(ROWS, ANSWERS))


def gradient(model: Recommender) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None])


def test_answers_that_share_a_history(model: Recommender) -> None:
    histories, answers = inputs()
    rows = torch.arange(ROWS).repeat_interleave(ANSWERS)

    def ours() -> torch.Tensor:
        model.module.zero_grad()
        codes = model.codes_of(answers.ravel())
        backward(token_nll(model.decode(model.encode(histories), codes, rows=rows)))
        return gradient(model)

    def theirs() -> torch.Tensor:
        model.module.zero_grad()
        for place in range(ANSWERS):
            backward(token_nll(model.forward(histories, answers[:, place])) / ANSWERS)
        return gradient(model)

    result, one, two = duel(ours, theirs, rounds=3, ours_per_round=2)
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-6)
    result.report(f"{ANSWERS} answers to a history ({model.name})", peer="one by one")
    assert result.ratio >= 2.5


def test_a_pass_that_ends_at_the_block_that_is_read(model: Recommender) -> None:
    """RMU at a quarter of a causal model, or at the middle of T5's decoder (the encoder runs on both sides)."""
    histories, answers = inputs()
    blocks = anatomy(model).decoder
    block = blocks[len(blocks) // 2 if model.name == "t5" else len(blocks) // 4]
    codes = model.codes_of(answers[:, 0])

    def ours() -> torch.Tensor:
        with tapped([block.module], stop=True) as caught:
            model.decode(model.encode(histories), codes)
        return caught[0].detach()

    def theirs() -> torch.Tensor:
        with tapped([block.module]) as caught:
            model.decode(model.encode(histories), codes)
        return caught[0].detach()

    result, one, two = duel(ours, theirs, rounds=5, ours_per_round=2)
    torch.testing.assert_close(one, two)
    result.report(f"states of block {block.index} of {len(blocks)} ({model.name})", peer="full pass")
    assert result.ratio >= (1.0 if model.name == "t5" else 1.3)
