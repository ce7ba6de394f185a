"""Runs that fail midway: memory that runs out, a killed training, an original with weights that are no numbers."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from genrec_unlearn_bench.backbones import training
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.tiger import Tiger
from genrec_unlearn_bench.errors import CorruptArtefact, OutOfMemory
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.error_mapping import enough_memory, is_out_of_memory
from genrec_unlearn_bench.pipeline.graph import build_result
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.stage import Load, StageContext, by_title, materialise
from tests.pipeline.conftest import Bench, Told
from tests.pipeline.test_pipeline import mine

pytestmark = pytest.mark.slow

FULL = "CUDA out of memory. Tried to allocate 20.00 GiB.\nand more lines"


def test_what_counts_as_running_out() -> None:
    assert is_out_of_memory(torch.OutOfMemoryError(FULL))
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"))
    assert is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(ValueError("out of memory of mine"))


def test_other_faults_pass() -> None:
    with pytest.raises(ZeroDivisionError), enough_memory("x", device="cpu"):
        raise ZeroDivisionError


def test_memory_that_runs_out_in_training(bench_at: Callable[[str], Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    bench = bench_at("bench")

    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError(FULL)

    with monkeypatch.context() as patch:
        patch.setattr(Tiger, "fit", full)
        with pytest.raises(OutOfMemory) as caught:
            bench.run("original", oracle_seeds=0)
    told = caught.value.render()
    assert "during the stage 'original': CUDA out of memory. Tried to allocate 20.00 GiB." in told
    assert "training.batch_size=64" in told
    bench.run("original", oracle_seeds=0)
    assert "sids" not in bench.told.computed, "the semantic IDs were finished, and are kept"
    assert "original" in bench.told.computed


def test_memory_that_runs_out_in_unlearning_and_evaluation(
    trained: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert trained.told.computed == ["evaluation"], "what had been unlearned is kept"


class Killer(Told):
    """Interrupts the training of the original after three steps."""

    def track(self, label: str, sequence: Iterable[Any], *, total: int | None = None) -> Iterator[Any]:
        for number, part in enumerate(sequence):
            if label == "train" and number == 3:
                raise KeyboardInterrupt
            yield part


def test_an_interrupted_training_goes_on(
    trained: Bench, bench_at: Callable[[str], Bench], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(training, "WRITING", 0)
    copy = bench_at("copy")
    shutil.copytree(trained.root, copy.root)
    wanted = next(stage for stage in copy.run("original").record.stages if stage.name == "original")
    shutil.rmtree(copy.root / "cache" / "stages" / "original")
    copy.told = Killer()
    with pytest.raises(KeyboardInterrupt):
        copy.run("original", results_dir=tmp_path)
    assert list((copy.root / "cache" / "unfinished" / "original" / wanted.key).iterdir())
    copy.told = Told()
    record = copy.run("original", results_dir=tmp_path).record
    assert any("going on after step 3 of" in line for line in copy.told.lines)
    found = next(stage for stage in record.stages if stage.name == "original")
    assert found.digest == wanted.digest, "weights and losses are the same to the bit"
    assert copy.told.computed == ["original"], "what was measured on the same bits is still good"
    assert not (copy.root / "cache" / "unfinished" / "original" / wanted.key).exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_original_that_is_no_number_is_refused_by_the_parameters_name(trained: Bench, value: float) -> None:
    context = StageContext(trained.store, trained.told)
    stage = by_title(build_result(resolve(trained.request("filter-history"))))["unlearned"]
    before = stage.inputs["original"]
    spoilt = replace(stage, inputs={**stage.inputs, "original": replace(before, load=_spoiling(before.load, value))})
    with (
        determinism(1),
        pytest.raises(CorruptArtefact, match=r"encoder\.final_layer_norm\.weight holds NaN or infinity") as caught,
    ):
        materialise(spoilt, context)
    assert caught.value.where == str(context.stored(before).path)
    assert caught.value.hint is not None
    assert not list(trained.root.rglob(".draft-*"))


def _spoiling(load: Load, value: float) -> Load:
    def broken(inputs: Any, folder: Path) -> Any:
        model = load(inputs, folder)
        with torch.no_grad():
            dict(model.module.named_parameters())["encoder.final_layer_norm.weight"][3] = value
        return model

    return broken
