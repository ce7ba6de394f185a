from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from genrec_unlearn_bench.backbones.config import SasRecConfig
from genrec_unlearn_bench.backbones.sasrec_network import SasRecNetwork
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError

CONFIG = SasRecConfig(dim=12, layers=2, heads=3, dropout=0.3)


def network(seed: int = 0) -> SasRecNetwork:
    made = SasRecNetwork(CONFIG, items=20, positions=7, seed=seed).eval()
    with torch.no_grad():  # Larger weights than at the start, so that every part of the network matters.
        for parameter in made.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=torch.Generator().manual_seed(3)) * 0.4)
    return made


def naive(made: SasRecNetwork, items: list[int]) -> list[Tensor]:
    """The states one position and one head at a time, from sums over what came before."""
    width = CONFIG.dim // CONFIG.heads
    states = [made.items.weight[item] * math.sqrt(12) + made.positions.weight[t] for t, item in enumerate(items)]
    for block in made.blocks:
        parts = [block.project(functional.layer_norm(s, (12,), block.before.weight, block.before.bias)) for s in states]
        fresh = []
        for t, state in enumerate(states):
            heads = []
            for head in range(CONFIG.heads):
                at = slice(head * width, (head + 1) * width)
                query = parts[t][:12][at]
                scores = torch.stack([query @ parts[s][12:24][at] / math.sqrt(width) for s in range(t + 1)])
                shares = scores.softmax(0)
                heads.append(sum(shares[s] * parts[s][24:][at] for s in range(t + 1)))
            state = state + block.merge(torch.cat(heads))
            inner = functional.layer_norm(state, (12,), block.between.weight, block.between.bias)
            fresh.append(state + block.narrow(torch.relu(block.widen(inner))))
        states = fresh
    return [functional.layer_norm(s, (12,), made.norm.weight, made.norm.bias) for s in states]


def test_states_equal_those_computed_by_hand() -> None:
    made = network()
    items = [3, 17, 3, 0, 9]
    torch.testing.assert_close(made(torch.tensor([items]))[0], torch.stack(naive(made, items)), atol=1e-5, rtol=1e-5)


def test_later_items_and_padding_change_nothing() -> None:
    made = network()
    short = made(torch.tensor([[4, 8, 2]]))
    for rest in ([5, 6], [1, -1], [-1, -1]):
        torch.testing.assert_close(made(torch.tensor([[4, 8, 2, *rest]]))[:, :3], short, atol=1e-6, rtol=1e-6)


def test_earlier_items_and_their_order_matter() -> None:
    made = network()
    last = made(torch.tensor([[4, 8, 2], [8, 4, 2], [5, 8, 2]]))[:, -1]
    assert (last[0] - last[1]).abs().max() > 1e-3
    assert (last[0] - last[2]).abs().max() > 1e-3


def test_the_seed_decides_and_the_global_generator_is_left_alone() -> None:
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    one, two, other = (SasRecNetwork(CONFIG, items=9, positions=4, seed=seed) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.equal(one.items.weight, two.items.weight)
    assert not torch.equal(one.items.weight, other.items.weight)


def test_heads_have_to_divide_the_width() -> None:
    with pytest.raises(ConfigError, match="do not divide"):
        parse(SasRecConfig, {"dim": 9, "heads": 2}, where="test")
