from __future__ import annotations

import pytest
import torch
from transformers.activations import ACT2FN

from genrec_unlearn_bench.decoding.session import Projection, window_log_probs


@pytest.mark.parametrize("activation", ["none", "relu", "silu", "gelu_new", "tanh"])
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_a_projection_is_a_linear_layer(
    activation: str, fused: bool, kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not fused:
        monkeypatch.setattr("genrec_unlearn_bench.decoding.session.onednn_works", lambda: False)
    draw = torch.Generator().manual_seed(1)
    weight = torch.randn(7, 5, generator=draw, dtype=kind)
    bias = torch.randn(7, 2, generator=draw, dtype=kind)[:, 0]  # strided: the fused operator would misread it
    values = torch.randn(5, 3, 2, generator=draw, dtype=kind).permute(2, 1, 0)
    expected = torch.nn.functional.linear(values, weight, bias)
    if activation != "none":
        expected = ACT2FN[activation](expected)
    got = Projection(weight, bias, activation=activation)(values)
    torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
    plain = Projection(weight.T.contiguous().T)(values)
    torch.testing.assert_close(plain, values @ weight.T, rtol=1e-5, atol=1e-5)


def test_a_window_is_a_slice_of_the_log_softmax_however_it_is_chunked(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(6, 70, 4, generator=draw), 3 * torch.randn(50, 4, generator=draw)
    expected = (hidden @ weight.T).log_softmax(-1)[..., 10:30]
    for elements in (1, 50 * 200, 1 << 20):
        monkeypatch.setattr("genrec_unlearn_bench.decoding.session._CHUNK_ELEMENTS", elements)
        got = window_log_probs(hidden, Projection(weight), 50, slice(10, 30))
        torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
