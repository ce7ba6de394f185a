"""The environment: devices refused in words, determinism put back as it was."""

from __future__ import annotations

import pytest
import torch

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline.environment import PACKAGES, default_threads, describe, determinism, resolve_device


def test_devices() -> None:
    assert resolve_device("cpu") == "cpu"
    assert resolve_device("auto") == ("cuda" if torch.cuda.is_available() else "cpu")
    for name in ("abacus", "meta", "mps:x"):
        with pytest.raises(UsageError):
            resolve_device(name)
    if not torch.cuda.is_available():
        with pytest.raises(UsageError, match="no CUDA device"):
            resolve_device("cuda:0")


def test_threads_come_from_the_variable_then_from_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert default_threads() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert default_threads() >= 1


def test_determinism_is_put_back_and_leaves_the_generator_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    threads = torch.get_num_threads()
    with determinism(2):
        assert torch.are_deterministic_algorithms_enabled()
        assert torch.get_num_threads() == 2
        torch.manual_seed(1)
        torch.rand(5)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == threads
    assert torch.equal(torch.rand(3), expected)


def test_description_names_the_versions_that_matter() -> None:
    found = describe("cpu", threads=1)
    assert {"torch", "transformers", "numpy"} <= set(found.packages) <= set(PACKAGES)
    assert found.packages["torch"] == torch.__version__
    assert found.precision == "fp32"
    assert found.device_name
