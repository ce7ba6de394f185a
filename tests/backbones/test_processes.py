"""Training over two processes, with whole networks and with split ones, held against training in one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.backbones.distributed import sharding_wanted
from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains
from genrec_unlearn_bench.backbones.training import NextItem, micro_batches
from genrec_unlearn_bench.errors import UsageError
from tests.backbones import several
from tests.backbones.checkpoints import qwen_folder


def in_processes(test: Callable[..., None]) -> Callable[..., None]:
    """Of one worker, as all share two trainings in two processes."""
    return pytest.mark.matrix(pytest.mark.xdist_group("processes")(test))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 9)), min_size=1, max_size=40), st.data())
def test_shares_add_up_to_the_mean_of_the_whole(samples: list[tuple[int, int]], data: st.DataObject) -> None:
    """Whatever is split how: sample i has the loss i, and the mean over all terms comes out."""
    kinds, terms = np.asarray([kind for kind, _ in samples]), np.asarray([count for _, count in samples], dtype=float)
    rows = np.asarray(data.draw(st.permutations(range(len(samples)))), dtype=np.int64)
    rows = rows[: data.draw(st.integers(1, len(rows)))]
    processes, size = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 50))
    task: Any = SimpleNamespace(terms=terms, kinds=kinds)
    split = [micro_batches(rows, task, size, index, processes) for index in range(processes)]
    means = [sum(weight * np.average(part, weights=terms[part]) for part, weight in parts) for parts in split]
    assert np.mean(means) == pytest.approx(np.average(rows, weights=terms[rows]))
    counted = [part for parts in split for part, weight in parts if weight]
    np.testing.assert_array_equal(np.sort(np.concatenate(counted)), np.sort(rows))
    assert all(0 < len(part) <= size for parts in split for part, _ in parts)
    if processes > 1:
        # Passes have to meet: equally many, and of one kind.
        passes = [[set(kinds[part].tolist()) for part, _ in parts] for parts in split]
        assert all(one == passes[0] for one in passes)
        assert all(len(found) == 1 for found in passes[0])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"FSDP_VERSION": "1"}, "FSDP_VERSION 2"),
        ({"FSDP_VERSION": "2", "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"}, "FSDP_CPU_RAM_EFFICIENT_LOADING"),
        ({"FSDP_VERSION": "2", "FSDP_OFFLOAD_PARAMS": "true"}, "FSDP_OFFLOAD_PARAMS"),
    ],
)
def test_what_sharding_cannot_do_is_said(monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], said: str) -> None:
    assert not sharding_wanted()
    for name, value in ({"ACCELERATE_USE_FSDP": "true"} | settings).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said):
        sharding_wanted()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("several")
    for kind in ("plain", "sharded"):
        qwen_folder(place / kind / "qwen")
    return place


@pytest.fixture(scope="module")
def both(folder: Path) -> list[dict[str, Any]]:
    return several.launch(folder)


@pytest.fixture(scope="module")
def alone(folder: Path) -> dict[str, Any]:
    torch.set_num_threads(1)
    names = ("t5", "scratch", "adapters", "halves")
    return {name: several.outcome(name, folder / "plain") for name in names}


@torch.no_grad()
def test_means_over_parts_weighed_by_their_terms_are_the_mean_of_the_whole() -> None:
    ragged, source = several.ragged_t5(), several.data()
    chained = several.chains()
    for task in (NextItem(ragged, source.train), PrefixChains(chained, source.train)):
        rows = np.arange(len(task.lengths))[:30]
        parts = np.array_split(rows, [1, 8, 19])
        assert len(set(task.terms[rows].tolist())) > 1, "every sample weighs the same: nothing is tested"
        mean = sum(float(task.loss(part)) * task.terms[part].sum() for part in parts) / task.terms[rows].sum()
        assert float(task.loss(rows)) == pytest.approx(mean, rel=1e-5)


def assert_alike(found: dict[str, Any], wanted: dict[str, Any], tolerance: float) -> None:
    assert found["notes"].keys() - {"train.processes"} == wanted["notes"].keys() - {"train.processes"}
    assert found["notes"]["train.processes"] == several.PROCESSES
    for name, value in wanted["notes"].items():
        assert found["notes"][name] == pytest.approx(value, abs=max(tolerance, 1e-9)), name
    torch.testing.assert_close(found["losses"], wanted["losses"], atol=tolerance, rtol=tolerance)
    assert found["weights"].keys() == wanted["weights"].keys()
    assert found["learning"] == wanted["learning"]
    assert found["kind"] == wanted["kind"]
    for name, value in wanted["weights"].items():
        torch.testing.assert_close(found["weights"][name], value, atol=tolerance, rtol=0, msg=name)


@in_processes
def test_processes_end_with_the_same_bits(both: list[dict[str, Any]]) -> None:
    trained = [name for name, found in both[0].items() if isinstance(found, dict) and "weights" in found]
    assert {"t5", "adapters", "sharded scratch", "sharded adapters", "sharded halves"} <= set(trained)
    for name in trained:
        assert_alike(both[1][name], both[0][name], 0.0)


@in_processes
@pytest.mark.parametrize("name", ["t5", "adapters"])
def test_two_processes_learn_what_one_learns(both: list[dict[str, Any]], alone: dict[str, Any], name: str) -> None:
    """Targets of unlike length, steps in parts, a step with one sample: means stay those of the whole batch."""
    assert_alike(both[0][name], alone[name], 2e-5)


@in_processes
@pytest.mark.parametrize("name", ["scratch", "adapters"])
def test_split_networks_learn_what_whole_ones_learn(
    both: list[dict[str, Any]], alone: dict[str, Any], name: str
) -> None:
    assert_alike(both[0][f"sharded {name}"], alone[name], 2e-5)


@in_processes
def test_split_bfloat16_blocks_beside_float32_adapters(both: list[dict[str, Any]], alone: dict[str, Any]) -> None:
    found, wanted = both[0]["sharded halves"], alone["halves"]
    assert {str(value.dtype) for value in found["weights"].values()} == {"torch.bfloat16", "torch.float32"}
    for name, value in wanted["weights"].items():
        assert found["weights"][name].dtype == value.dtype
        if value.dtype is torch.bfloat16:  # the frozen ones
            assert torch.equal(found["weights"][name], value), name
    torch.testing.assert_close(found["losses"], wanted["losses"], atol=0.05, rtol=0.05)


@in_processes
def test_a_process_holds_half_of_the_blocks_and_gives_them_back(both: list[dict[str, Any]]) -> None:
    held = [found["halved"] for found in both]
    assert sum(one["local"] for one in held) == held[0]["total"]
    assert all(0.4 < one["local"] / one["total"] < 0.6 for one in held)
    assert all(one["same_ranking"] and one["same_weights"] for one in held)


@in_processes
def test_a_recommender_without_blocks_is_not_split(both: list[dict[str, Any]]) -> None:
    assert "not split over processes" in both[0]["refusal"]
    assert "without FSDP" in both[0]["refusal"]
