"""What bfloat16 may change: trainings under autocast, and models with bfloat16 weights under TRACER."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.etegrec import joint
from genrec_unlearn_bench.backbones.etegrec.joint import JointTraining, aligned
from genrec_unlearn_bench.backbones.etegrec.recommender import EtegrecRecommender
from genrec_unlearn_bench.backbones.etegrec.tokenizer import LiveTokenizer
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import torch_seeded
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests import planted
from tests.backbones.etegrec.world import CONFIG, SHAPE, data, live
from tests.devices.simulated import simulated_gpus


@pytest.fixture
def gpus() -> Iterator[None]:
    with simulated_gpus():
        yield


def joint_losses(table: SidTable, device: str) -> list[dict[str, float]]:
    """Of four epochs in turns, the last two with the alignment losses."""
    recommender = EtegrecRecommender.fresh(SHAPE, table.freeze(), seed=0, device=device)
    recommender.rescale(0.3)
    tokenizer, progress = LiveTokenizer.of(table, device=device), Progress()
    training = JointTraining(recommender, tokenizer, CONFIG, data().train, 0, device, progress)
    with torch_seeded(0, device):
        for number in range(4):
            training.epoch(number, tokenizer=number % 2 == 0, align=number >= 2)
    kept = ("code", "sia", "psa", "vq", "reconstruction")
    return [{name: value for name, value in step.losses.items() if name in kept} for step in progress.steps]


def test_joint_training_takes_its_losses_in_float32(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under autocast the network's products alone are rounded: distances to codewords and InfoNCE keep their digits."""
    equal = []

    def watched(*given: Any) -> Any:
        found = aligned(*given)
        with torch.autocast("cuda", enabled=False):
            again = aligned(*given)
        equal.append(torch.equal(found[0], again[0]) and all(users.dtype == torch.float32 for users in given[3]))
        return found

    monkeypatch.setattr(joint, "aligned", watched)
    joint_losses(live(), "cuda:1")
    assert equal
    assert all(equal)


JOINT_TOLERANCES = {"vq": 0.03, "reconstruction": 0.03, "code": 0.05, "sia": 0.03, "psa": 0.1}
"""InfoNCE divides the differences of two trainings by its temperature, .07."""


def test_joint_training_rounds_its_network_alone(gpus: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under autocast the tokenizer's losses are the CPU's, the joint ones near them; without it all are the CPU's."""
    table = live()
    on_cpu, rounded = joint_losses(table, "cpu"), joint_losses(table, "cuda:1")
    assert rounded[0] == pytest.approx(on_cpu[0], rel=1e-6), "the tokenizer alone, which never computes in bfloat16"
    assert rounded[1]["code"] != pytest.approx(on_cpu[1]["code"], rel=1e-5)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    for plain, same, near in zip(on_cpu, joint_losses(table, "cuda:1"), rounded, strict=True):
        assert same == pytest.approx(plain, rel=1e-5)
        for name in plain:
            assert near[name] == pytest.approx(plain[name], rel=JOINT_TOLERANCES[name]), name


TOLERANCES = {"retain": 0.03, "coherence": 0.03, "soft_forget": 0.01, "phi": 0.03, "phi_gradient": 0.1, "entropy": 0.01}


def soft_phase(precision: Literal["float32", "bfloat16"], device: str) -> list[dict[str, float]]:
    """Losses of TRACER's soft phase on a causal model."""
    network = NetworkShape(hidden=32, ffn=48, layers=2, heads=4, groups=2)
    shape = CausalShape(network=network, history_limit=4, precision=precision)
    table, marked = planted.sids(), planted.concept()
    model = CausalRecommender.fresh(shape, table, seed=0)
    with torch.no_grad():
        # Weights that bfloat16 holds exactly, large enough for peaked predictions.
        for weight in model.module.parameters():
            weight.copy_((4 * weight).bfloat16())
    model.module.to(device)
    model = model.clone()  # Its codes follow the network.
    train, valid = (planted.examples(planted.sequences(60, 7, seed)) for seed in (1, 2))
    parts: dict[str, Any] = {"train": planted.groups(train, marked), "valid": planted.groups(valid, marked)}
    pairs = np.zeros((0, 2), dtype=np.int64)
    about: dict[str, Any] = {
        "catalogue": planted.catalogue(),
        "kind": ConceptKind.BRAND,
        "features": planted.features(table),
    }
    request = ForgetRequest(items=marked, pairs=pairs, seed=0, **parts, **about)
    progress = Progress()
    config = TracerConfig(epochs=4, hard_epochs=1, batch_size=32, phi_lr=0.1)
    Tracer(config).unlearn(model, request, progress)
    return [dict(step.losses) for step in progress.steps if step.stage == "soft"]


def test_tracers_soft_phase_on_bfloat16_weights(gpus: None) -> None:
    """φ, its distances and its distributions stay float32 whatever the weights: φ moves as far, q sharpens as much, and
    the losses follow those on float32 weights."""
    exact, rounded = soft_phase("float32", "cpu"), soft_phase("bfloat16", "cuda:1")
    assert len(rounded) == len(exact) >= 3
    assert rounded[-1]["phi"] > 0.5
    for one, other in zip(exact, rounded, strict=True):
        for name, tolerance in TOLERANCES.items():
            assert other[name] == pytest.approx(one[name], rel=tolerance), name
