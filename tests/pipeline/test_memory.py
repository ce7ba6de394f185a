"""Memory that runs out is said with the stage and what to lower, and costs no finished stage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.tiger import Tiger, TigerConfig
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import OutOfMemory
from genrec_unlearn_bench.pipeline.memory import enough_memory, is_out_of_memory, smaller
from tests.pipeline.conftest import Bench
from tests.pipeline.test_pipeline import mine

FULL = "CUDA out of memory. Tried to allocate 20.00 GiB.\nand more lines"


class Nested(StrictModel):
    batch_size: int = 64
    rows_at_once: int | None = None


class Wide(StrictModel):
    training: Nested = Nested()
    history_limit: int = 20
    gradient_checkpointing: bool = False
    seed: int = 4


def test_what_counts_as_running_out() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError(FULL))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory of mine"))


def test_advice_puts_first_what_changes_no_result() -> None:
    assert smaller(Wide()) == [
        "training.rows_at_once=8",
        "gradient_checkpointing=true",
        "training.batch_size=32",
        "history_limit=10",
    ]
    assert (
        smaller(Wide(training=Nested(batch_size=1, rows_at_once=1), history_limit=1, gradient_checkpointing=True)) == []
    )


def test_other_faults_pass() -> None:
    with pytest.raises(ZeroDivisionError), enough_memory("x", device="cpu", configs={}):
        raise ZeroDivisionError


def test_training(bench_at: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_at("bench")

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError(FULL)

    with monkeypatch.context() as patch:
        patch.setattr(Tiger, "fit", full)
        with pytest.raises(OutOfMemory) as caught:
            bench.run("original")
    told = caught.value.render()
    assert "during the stage 'original': CUDA out of memory. Tried to allocate 20.00 GiB." in told
    assert "--set-backbone training.rows_at_once=" in told
    assert "--set-backbone shape.history_limit=" in told
    bench.run("original")
    assert "sids" not in bench.told.computed, "the semantic IDs were finished, and are kept"
    assert "original" in bench.told.computed


def test_unlearning_and_evaluation(trained: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutOfMemory, match="the stage 'unlearned'"):
        trained.run(mine(tmp_path, f"raise torch.OutOfMemoryError({FULL!r})"))
    # A clone alone is what other tests unlearn on this bench, and then its evaluation is there already.
    place = mine(tmp_path, "model = recommender.clone(); model.model.shared.weight.data.add_(1e-3); return model")

    def full(*_: object, **__: object) -> None:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(T5Recommender, "recommend", full)
        with pytest.raises(OutOfMemory, match="the stage 'evaluation'"):
            trained.run(place)
    trained.run(place)
    assert trained.told.computed == ["evaluation of unlearned"], "what had been unlearned is kept"


def test_advice_names_fields_that_exist() -> None:
    content = TigerConfig()
    changes = list(smaller(content))
    assert changes
    for change in changes:
        path, _, value = change.partition("=")
        place: object = content
        for part in path.split("."):
            assert hasattr(place, part), change
            place = getattr(place, part)
        assert place is None or place > int(value), "the advice lowers what it names"
