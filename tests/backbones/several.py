"""Small trainings that one process or several can run; started as a program, this is one of several processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genrec_unlearn_bench.backbones.backbone import TrainingData
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.distributed import Shards
from genrec_unlearn_bench.backbones.minionerec.backbone import (
    CausalShape,
    LoraShape,
    MiniOneRec,
    MiniOneRecConfig,
    NetworkShape,
)
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress import Progress
from tests.planted import catalogue, examples, sequences, sids

CONFIG = TrainingConfig(
    lr=5e-3, batch_size=14, epochs=2, warmup_steps=5, evaluations=3, valid_rows=50, rows_at_once=5, weight_decay=0.0
)
PROCESSES = 2
ROOT = Path(__file__).parents[2]


def data() -> TrainingData:
    """155 examples: with 14 a step, the last of a pass has one, so that the second process has none."""
    train, valid = examples(sequences(31, 6, 1)), examples(sequences(20, 6, 2))
    assert len(train) % CONFIG.batch_size == 1
    return TrainingData(train, valid, catalogue(), np.zeros((64, 2), dtype=np.float32), np.ones(64, dtype=np.bool_))


def ragged_t5() -> T5Recommender:
    shape = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=1, heads=4, dropout=0.0, history_limit=4)
    table = sids()
    codes = table.codes.copy()
    codes[::3, -1] = -1
    return T5Recommender.fresh(shape, replace(table, codes=codes), seed=0)


def t5(folder: Path, progress: Progress) -> Recommender:
    model, source = ragged_t5(), data()
    train_recommender(model, CONFIG, train=source.train, valid=source.valid, seed=0, device="cpu", progress=progress)
    return model


def chains(*, checkpointing: bool = False) -> CausalRecommender:
    # No width is a multiple of the processes: shares differ in size.
    network = NetworkShape(hidden=36, ffn=47, layers=3, heads=3, groups=3, head_dim=6)
    shape = CausalShape(network=network, history_limit=4, checkpointing=checkpointing)
    return CausalRecommender.fresh(shape, sids(), seed=0)


def scratch(folder: Path, progress: Progress) -> Recommender:
    model, source = chains(checkpointing=True), data()
    how: dict[str, Any] = {"seed": 0, "device": "cpu", "progress": progress, "task": PrefixChains(model, source.train)}
    train_recommender(model, CONFIG, train=source.train, valid=source.valid, **how)
    return model


def adapters(folder: Path, progress: Progress, precision: Any = "float32") -> Recommender:
    """A checkpoint with adapters, recomputed activations and text tasks, each of which is a pass of its own."""
    config = MiniOneRecConfig(
        checkpoint=str(folder / "qwen"),
        history_limit=4,
        lora=LoraShape(rank=4, alpha=8),
        checkpointing=True,
        precision=precision,
        training=CONFIG.model_copy(update={"max_steps": 12}),
    )
    return MiniOneRec.fit(config, data=data(), sids=sids(), seed=0, device="cpu", progress=progress)


def halves(folder: Path, progress: Progress) -> Recommender:
    return adapters(folder, progress, "bfloat16")


TRAININGS: dict[str, Callable[[Path, Progress], Recommender]] = {
    made.__name__: made for made in (t5, scratch, adapters, halves)
}


def outcome(name: str, folder: Path) -> dict[str, Any]:
    """One training's weights, notes and losses."""
    print(name, flush=True)
    progress = Progress()
    model = TRAININGS[name](folder, progress)
    losses = [value for step in progress.steps for value in step.losses.values()]
    return {
        "weights": {key: value.clone() for key, value in model.module.state_dict().items()},
        "learning": [key for key, value in model.module.named_parameters() if value.requires_grad],
        "kind": [type(part).__name__ for part in model.module.modules()],
        "notes": progress.notes,
        "losses": torch.tensor(losses),
    }


def halved() -> dict[str, Any]:
    """What a process holds of a split network, and what comes back."""
    model = chains(checkpointing=True)
    before = {key: value.clone() for key, value in model.module.state_dict().items()}
    total = sum(value.numel() for block in model.blocks for value in block.parameters())
    source = data().valid.histories(4)
    ranked = model.recommend(source, 10, beam=10)
    shards = Shards(model.module, model.blocks)
    local = sum(value.to_local().numel() for block in model.blocks for value in block.parameters())
    with shards.gathered():
        again = model.recommend(source, 10, beam=10)
    shards.undo()
    after = model.module.state_dict()
    return {
        "total": total,
        "local": local,
        "same_ranking": bool((ranked.items == again.items).all() and (ranked.log_probs == again.log_probs).all()),
        "same_weights": list(before) == list(after) and all(torch.equal(before[key], after[key]) for key in before),
    }


@contextmanager
def sharding() -> Any:
    settings = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2", "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name in settings:
            del os.environ[name]


def launch(folder: Path) -> list[dict[str, Any]]:
    """Everything by two processes over gloo; what each of them ended with."""
    started(["-m", "tests.backbones.several", str(folder)])
    return [torch.load(folder / f"{index}.pt", weights_only=True) for index in range(PROCESSES)]


def started(arguments: list[str], processes: int = PROCESSES) -> list[tuple[str, str]]:
    """Run Python in some processes, as a launcher would; stdout and stderr of each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    shared = os.environ | {
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "OMP_NUM_THREADS": "1",
    }
    running = [
        subprocess.Popen(
            [sys.executable, *arguments],
            env=shared | {"RANK": str(index), "LOCAL_RANK": str(index)},
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for index in range(processes)
    ]
    try:
        said = [process.communicate(timeout=240) for process in running]
    finally:
        for process in running:
            process.kill()
    assert all(process.returncode == 0 for process in running), said
    return said


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    found: dict[str, Any] = {name: outcome(name, folder / "plain") for name in ("t5", "adapters")}
    with sharding():
        for name in ("scratch", "adapters", "halves"):
            found[f"sharded {name}"] = outcome(name, folder / "sharded")
        found["halved"] = halved()
        try:
            t5(folder, Progress())
        except UsageError as fault:
            found["refusal"] = fault.render()
    torch.save(found, folder / f"{os.environ['RANK']}.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
