"""What hooks catch belongs to the right positions, in both families, packed or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.unlearning.anatomy import Stack, anatomy, tapped
from tests.backbones.minionerec import models as causal
from tests.planted import sids

ROWS = torch.tensor([0, 0, 1, 2, 2, 2])


def t5() -> T5Recommender:
    torch.set_num_threads(1)
    shape = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=2, heads=4, dropout=0.0, history_limit=4)
    return T5Recommender.fresh(shape, sids(), seed=0)


@pytest.fixture(params=["t5", "causal tied", "causal untied"])
def model(request: pytest.FixtureRequest) -> Recommender:
    found = t5() if request.param == "t5" else causal.scratch(tied=request.param == "causal tied")
    found.module.eval()
    return found


def histories() -> Histories:
    return Histories.of([[1, 2, 3], [4], [5, 6]])


@pytest.mark.parametrize("shared", [False, True])
def test_the_lens_on_the_last_block_gives_the_logits(model: Recommender, shared: bool) -> None:
    rows = ROWS if shared else None
    codes = model.codes_of(np.arange(len(ROWS) if shared else 3))
    parts = anatomy(model)
    context = model.encode(histories())
    with tapped([block.module for block in parts.decoder]) as caught:
        output = model.decode(context, codes, rows=rows, hidden=True)
    for place, states in enumerate(caught[:-1], start=1):
        found = parts.at_targets(states, context, codes.shape[1], rows=rows)
        torch.testing.assert_close(found, output.hidden[place])
    last = parts.at_targets(caught[-1], context, codes.shape[1], rows=rows)
    legal = output.logits > -1e8
    torch.testing.assert_close(parts.lens(last)[legal], output.logits[legal])


def test_history_positions_carry_their_items(model: Recommender) -> None:
    """A changed history item changes what is caught at its own positions, and in T5's first layer there alone."""
    parts = anatomy(model)
    caught = []
    for rows in ([[1, 2, 3]], [[1, 2, 9]]):
        with tapped([parts.history_blocks[0].mlp]) as found:
            context = model.encode(Histories.of(rows))
            model.decode(context, model.codes_of(np.asarray([7])))
        caught.append((parts.at_history(found[0], context), context.position_items))
    gap = (caught[0][0] - caught[1][0]).abs().sum(-1)[0]
    changed = caught[0][1][0] == 3
    assert caught[0][0].shape[:2] == caught[0][1].shape
    assert (gap[changed] > 0).all()
    if parts.causal:
        before = torch.arange(len(changed)) < int(changed.nonzero()[0])
        assert (gap[before] == 0).all(), "positions in front of the item saw it"


def test_value_vectors_are_the_columns_of_the_output_matrix(model: Recommender) -> None:
    """mlp(x) = sum_j activation_j v_j: the activations are what goes into ``down``."""
    parts = anatomy(model)
    block = parts.decoder[-1]
    with tapped([block.mlp]) as out, tapped([block.down], inputs=True) as activations:
        model.decode(model.encode(histories()), model.codes_of(np.arange(3)))
    torch.testing.assert_close(activations[0] @ block.down.weight.T, out[0])
    assert block.gated == bool((activations[0] < 0).any())


def test_blocks_are_named_as_the_module_names_them(model: Recommender) -> None:
    named: dict[str, Any] = dict(model.module.named_modules())
    parts = anatomy(model)
    for block in (*parts.encoder, *parts.decoder):
        assert named[block.name] is block.module
    assert [block.index for block in parts.decoder] == list(range(len(parts.decoder)))
    assert all(block.stack is Stack.ENCODER for block in parts.encoder)


def test_a_stopped_pass_runs_nothing_behind_the_tap_and_leaves_no_hook(model: Recommender) -> None:
    parts = anatomy(model)
    context = model.encode(histories())
    codes = model.codes_of(np.arange(3))
    with tapped([parts.decoder[-1].module]) as later, tapped([parts.decoder[0].module], stop=True) as caught:
        model.decode(context, codes)
        raise AssertionError("the pass went on")
    assert caught[0].requires_grad
    assert not later[0].numel()
    assert not any(part._forward_hooks for part in model.module.modules())
    with pytest.raises(RuntimeError, match="own fault"), tapped([parts.decoder[0].module]):
        raise RuntimeError("own fault")
    assert not any(part._forward_hooks for part in model.module.modules())
