"""``bench doctor --run`` on simulated GPUs: what it measures is what a device does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.backbones.tiger import Tiger
from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.contract import device as checks
from genrec_unlearn_bench.contract.device import check_device
from genrec_unlearn_bench.progress import Progress
from tests.devices.simulated import simulated_gpus


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """TIGER alone, on a GPU at the scale of the CPU."""
    monkeypatch.setattr(checks, "STEPS", {"cpu": ("smoke", 8), "cuda": ("smoke", 8)})
    monkeypatch.setattr(checks, "CHECKS", {"tiger": checks.CHECKS["tiger"]})
    with simulated_gpus():
        yield


def figures(device: str = "cuda:1") -> dict[str, Any]:
    (found,) = check_device(device, Progress())
    assert "error" not in found, found
    return found


def test_a_device_that_computes_as_the_cpu_agrees_with_it(gpus: None) -> None:
    """Trained under bfloat16, evaluated in float32: the same weights give the same lists, the same training others."""
    found = figures()
    assert found["precision"] == "bfloat16"
    assert (found["noise_weights"], found["noise_metric"]) == (0, 0)
    assert found["cpu_logits"] < 1e-4
    assert found["cpu_lists"] == 1
    assert 1e-4 < found["cpu_trained_losses"] < 0.05
    assert found["cpu_trained_logits"] > 100 * found["cpu_logits"]
    assert found["examples_per_second"] == pytest.approx(128 * found["steps_per_second"])


@pytest.mark.matrix
def test_in_float32_the_cpu_comes_to_the_same_training(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    found = figures()
    assert found["precision"] == "float32"
    assert found["cpu_trained_losses"] < 1e-4
    assert found["cpu_trained_logits"] < 0.01


def test_a_device_that_computes_otherwise_is_noticed(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise in what is trained, and another answer from the same weights."""
    fit, load = Tiger.fit, Tiger.load

    def noisy(*arguments: Any, **how: Any) -> Any:
        model: Any = fit(*arguments, **how)
        with torch.no_grad():
            for weight in model.module.parameters():
                weight += 1e-3 * torch.rand(weight.shape, generator=draws).to(weight.device)
        return model

    def biased(folder: Any, *, device: str = "cpu") -> Any:
        model: Any = load(folder, device=device)
        if device != "cpu":
            with torch.no_grad():
                next(model.module.parameters()).mul_(1.01)
        return model

    draws = torch.Generator().manual_seed(0)
    monkeypatch.setattr(Tiger, "fit", noisy)
    monkeypatch.setattr(Tiger, "load", biased)
    found = figures()
    assert 5e-4 < found["noise_weights"] < 2e-3
    assert found["cpu_logits"] > 1e-3
    assert found["cpu_lists"] < 1


def test_a_check_that_fails_is_a_row_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU there is nothing to compare with."""
    tiger = checks.CHECKS["tiger"]
    monkeypatch.setattr(checks, "CHECKS", {"broken": ("no-such-backbone", *tiger[1:]), "tiger": tiger})
    result = bench("doctor", "--run", "--device", "cpu", "--json")
    broken, whole = json.loads(result.stdout)["checks"]
    assert result.exit_code == 1
    assert (broken["state"], whole["state"]) == ("fault", "ok")
    assert "no-such-backbone" in broken["error"]
    assert whole["precision"] == "float32"
    assert whole["noise_weights"] == 0
    assert whole["steps_per_second"] > 0
    assert whole["peak_memory_mib"] > 100
    assert "cpu_logits" not in whole


def test_a_device_without_run_is_refused() -> None:
    result = bench("doctor", "--device", "cpu")
    assert result.exit_code == 2
    assert "bench doctor --device cpu --run" in result.stderr


@pytest.mark.matrix
def test_all_checks_are_made_on_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "STEPS", {"cpu": ("smoke", 8), "cuda": ("smoke", 8)})
    with simulated_gpus():
        result = bench("doctor", "--run", "--device", "cuda:1", "--json")
    found = {one["check"]: one for one in json.loads(result.stdout)["checks"]}
    assert list(found) == list(checks.CHECKS)
    assert {name: one["state"] for name, one in found.items()} == dict.fromkeys(found, "ok"), found
    assert found["tracer"]["precision"] == found["relearning"]["precision"] == "float32"
    assert found["tracer"]["cpu_trained_losses"] < 1e-3
    assert found["relearning"]["cpu_trained_metric"] < 0.05
