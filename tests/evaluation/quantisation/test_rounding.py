"""Round-to-nearest: by hand, against torch's own operator, and what a wrong axis or a common scale would give."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.quantisation.rounding import normal_float, round_to_nearest, rounding_of


def test_by_hand() -> None:
    # Row scales at 4 bits: 7 / 7 = 1 and 0.7 / 7 = 0.1; halves go to the even level.
    weight = torch.tensor([[7.0, -3.4, 0.5, 1.5], [0.7, -0.34, 0.06, 0.0], [0.0, 0.0, 0.0, 0.0]])
    wanted = torch.tensor([[7.0, -3.0, 0.0, 2.0], [0.7, -0.3, 0.1, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert torch.allclose(round_to_nearest(weight, 4), wanted, atol=1e-7)


@pytest.mark.parametrize("bits", [4, 8])
def test_agrees_with_torch(bits: int) -> None:
    weight = torch.randn(12, 40, generator=torch.Generator().manual_seed(0)) * torch.logspace(-2, 1, 12)[:, None]
    top = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(1) / top
    zero = torch.zeros(12, dtype=torch.int32)
    peer = torch.fake_quantize_per_channel_affine(weight, scale, zero, 0, -top, top)
    found = round_to_nearest(weight, bits)
    assert torch.allclose(found, peer, rtol=0, atol=1e-6)
    # A scale common to the matrix, or one for each input, gives other numbers.
    common = torch.fake_quantize_per_tensor_affine(weight, float(weight.abs().max() / top), 0, -top, top)
    assert not torch.allclose(found, common, rtol=0, atol=1e-3)
    assert not torch.allclose(found, round_to_nearest(weight.T, bits).T, rtol=0, atol=1e-3)


@pytest.mark.parametrize("bits", [4, 8])
def test_levels_error_and_fixed_points(bits: int) -> None:
    weight = torch.randn(6, 500, generator=torch.Generator().manual_seed(1))
    found = round_to_nearest(weight, bits)
    step = weight.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
    assert (found - weight).abs().le(step / 2 * (1 + 1e-5)).all()
    assert max(len(np.unique(np.round((row / size).numpy(), 3))) for row, size in zip(found, step, strict=True)) <= 255
    assert torch.equal(round_to_nearest(found, bits), found)
    half = weight.to(torch.bfloat16)
    assert round_to_nearest(half, bits).dtype == torch.bfloat16


def test_names_of_schemes() -> None:
    weight = torch.randn(3, 9, generator=torch.Generator().manual_seed(2))
    assert torch.equal(rounding_of("int8")(weight), round_to_nearest(weight, 8))
    assert torch.equal(rounding_of("int4")(weight), round_to_nearest(weight, 4))


def test_normal_float_says_what_it_lacks() -> None:
    lacking = "not installed" if importlib.util.find_spec("bitsandbytes") is None else "CUDA device"
    with pytest.raises(NotMeasurable, match=lacking):
        normal_float(torch.ones(2, 64))
