"""Every backbone and method with ``--device cuda:1`` on simulated GPUs: no tensor is left on another device.

Where training runs in float32, weights are those of the CPU but for rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from genrec_unlearn_bench.backbones import backbones, load_backbone
from genrec_unlearn_bench.backbones.config import T5Shape, TrainingConfig
from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRec
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import train_recommender
from genrec_unlearn_bench.backbones.transformer import memory_shares
from genrec_unlearn_bench.contract.check import shortened
from genrec_unlearn_bench.pipeline.environment import determinism, precision
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import generators_kept, torch_seeded
from genrec_unlearn_bench.sids.config import LetterSidConfig
from genrec_unlearn_bench.sids.letter import LetterTerms
from genrec_unlearn_bench.sids.rqvae import RqVae, sinkhorn_codes
from tests import planted
from tests.backbones.checkpoints import qwen_folder
from tests.devices.simulated import Simulated, simulated_gpus
from tests.pipeline.conftest import Bench

SECOND = torch.device("cuda:1")


@pytest.fixture
def gpus() -> Iterator[None]:
    with simulated_gpus():
        yield


def test_tensors_of_two_devices_are_refused(gpus: None) -> None:
    here, there = torch.ones(3, device="cuda:1"), torch.ones(3, device="cuda")
    assert (here.device, there.device) == (SECOND, torch.device("cuda:0"))
    for other in (there, torch.ones(3)):
        with pytest.raises(RuntimeError, match="same device"):
            here + other
    with pytest.raises(TypeError, match="numpy"):
        here.numpy()


def test_scalars_indices_and_copies_may_cross(gpus: None) -> None:
    here = torch.arange(3.0).to("cuda:1")
    assert (here * torch.tensor(2.0)).tolist() == [0, 2, 4]
    assert here[torch.tensor([2, 0])].tolist() == [2, 0]
    assert not isinstance(here.cpu(), Simulated)
    assert torch.zeros(3).copy_(here).tolist() == [0, 1, 2]


def test_networks_learn_there_as_on_the_cpu(gpus: None) -> None:
    def learned(device: str) -> torch.Tensor:
        with torch_seeded(0):
            layer = torch.nn.Linear(3, 2)
        layer.to(device)
        optimizer = torch.optim.AdamW(layer.parameters(), lr=0.1, fused=True)
        for _ in range(3):
            optimizer.zero_grad()
            layer(torch.ones(4, 3, device=device)).square().sum().backward()
            optimizer.step()
        return layer.weight.detach().cpu()

    assert torch.equal(learned("cuda:1"), learned("cpu"))


def test_autocast_casts(gpus: None) -> None:
    layer = torch.nn.Linear(3, 2).to("cuda:1")
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert layer(torch.ones(4, 3, device="cuda:1")).dtype == torch.bfloat16


def trained(device: str) -> T5Recommender:
    shape = T5Shape(d_model=24, d_kv=6, d_ff=32, layers=1, heads=4, dropout=0.0, history_limit=4)
    examples = planted.examples(planted.sequences(20, 7, 1))
    recommender = T5Recommender.fresh(shape, planted.sids(), seed=0, device=device)
    config = TrainingConfig(epochs=1, evaluations=1, valid_rows=10, batch_size=32)
    how: dict[str, Any] = {"seed": 0, "device": device, "progress": Progress()}
    train_recommender(recommender, config, train=examples, valid=examples, **how)
    return recommender


def test_a_training_stays_on_its_gpu(gpus: None) -> None:
    found = trained("cuda:1")
    assert {parameter.device for parameter in found.module.parameters()} == {SECOND}
    assert all(bool(parameter.isfinite().all()) for parameter in found.module.parameters())


def test_only_the_gpu_that_is_used_is_read_and_seeded(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bare ``fork_rng`` reads every GPU, and starts CUDA for a run on the CPU."""
    read: list[Any] = []
    monkeypatch.setattr(
        torch.cuda, "get_rng_state", lambda device="current": read.append(device) or torch.get_rng_state()
    )
    with determinism(1), torch_seeded(0), generators_kept("cpu"):
        assert read == []
    with torch_seeded(0, "cuda:1"):
        assert [torch.device("cuda", one).index for one in read] == [1]


def test_precision_is_told_as_it_is(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert precision("cuda:1") == "bf16 training, fp32 unlearning and evaluation"
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    assert precision("cuda:1") == precision("cpu") == "fp32"
    found = trained("cuda:1")
    monkeypatch.undo()
    for name, tensor in trained("cpu").module.state_dict().items():
        assert torch.allclose(found.module.state_dict()[name].cpu(), tensor, atol=1e-4), name


def test_letters_tokenizer_clusters_and_balances_on_its_gpu(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codebooks do not leave the GPU to be clustered, and clusters and balanced codes are those of the CPU."""
    config = LetterSidConfig(codes=24, dim=8, hidden=(12,), clusters=4, recluster_epochs=1, clustering="batched")
    monkeypatch.setattr(RqVae, "books", lambda model: pytest.fail("codebooks were copied to the host"))
    distances = torch.rand(40, 24, generator=torch.Generator().manual_seed(0)) ** 3
    found = []
    for device in ("cpu", "cuda:1"):
        model = RqVae(torch.zeros(6), 1.0, config, seed=0).to(device)
        with torch.no_grad():
            for level, book in enumerate(model.codebooks):
                book.copy_(torch.randn(24, 8, generator=torch.Generator().manual_seed(level)).to(device))
        terms = LetterTerms(torch.zeros(4, 8, device=device), config, seed=0, progress=Progress())
        terms.start_epoch(model, 0)
        codes = sinkhorn_codes(distances.to(device), epsilon=0.003, iterations=50)
        parts = [codes, *(level.order for level in terms.clusters)]
        assert {part.device for part in parts} == {torch.device(device)}
        found.append([part.tolist() for part in parts])
    assert found[0] == found[1]


def test_a_gpu_decodes_as_many_histories_as_its_memory_holds(gpus: None) -> None:
    assert (memory_shares(torch.device("cpu")), memory_shares(SECOND)) == (1, 20)


@pytest.mark.matrix
@pytest.mark.parametrize("backbone", backbones())
def test_every_backbone_runs_a_cell_with_tracer(tmp_path: Path, gpus: None, backbone: str) -> None:
    """Soft tokens, ETEGRec's joint training and LETTER's SASRec vectors among what it goes through, in bfloat16."""
    family = load_backbone(backbone)
    run = Bench(tmp_path).run(
        "tracer",
        backbone=backbone,
        scale="smoke",
        device="cuda:1",
        backbone_set=shortened(family.presets["smoke"].model_dump()),
        sid_set=shortened(family.sid_presets["smoke"].model_dump()),
    )
    assert run.record.environment.device == "cuda:1"
    assert all(value.value is None or value.value >= 0 for value in run.record.metrics if value.metric == "hr@10")


@pytest.mark.matrix
def test_the_full_suite_is_measured_there(tmp_path: Path, gpus: None) -> None:
    """All five measurements, on models in bfloat16's rounding: probes, membership, quantisation, attacks …"""
    fields: dict[str, Any] = {"suite": "full", "device": "cuda:1", "measure_set": {"relearning.steps": (0, 5)}}
    run = Bench(tmp_path).run("tracer", **fields)
    found = {value.metric.partition(".")[0] for value in run.record.metrics if value.value is not None}
    assert {"probing", "membership", "forget-quality", "quantisation", "relearning"} <= found, sorted(found)


@pytest.mark.matrix
def test_adapters_are_trained_and_unlearned_there(tmp_path: Path, gpus: None) -> None:
    """A checkpoint with bfloat16 blocks; adapters, embedding and head are float32 and stay so."""
    fields = MiniOneRec.presets["smoke"].model_dump() | {
        "checkpoint": str(qwen_folder(tmp_path / "qwen")),
        "lora": {"rank": 2, "alpha": 4},
        "precision": "bfloat16",
    }
    fields["training"] |= {"weight_decay": 0.0}
    fields = shortened(fields)
    run = Bench(tmp_path).run("tracer", backbone="mor", scale="smoke", device="cuda:1", backbone_set=fields)
    assert run.record.environment.device == "cuda:1"
    (folder,) = {
        path.parent for path in (tmp_path / "cache").rglob("unlearned/**/*.safetensors") if path.parent.name == "model"
    }
    types = {name: str(value.dtype) for path in folder.glob("*.safetensors") for name, value in load_file(path).items()}
    floats = {name for name, kind in types.items() if kind == "torch.float32"}
    assert any("lora_" in name for name in floats)
    assert any("embed_tokens" in name for name in floats)
    assert all(kind == "torch.bfloat16" for name, kind in types.items() if "base_layer" in name)
