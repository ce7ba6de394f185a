from __future__ import annotations

import pytest
import torch

from genrec_unlearn_bench.methods.theta_only import ThetaOnly, ThetaOnlyConfig
from genrec_unlearn_bench.methods.tracer import Tracer, TracerConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.suppression import UnlearningLossConfig
from tests.unlearning.losses.test_suppression import setting


def test_it_is_tracer_without_reassignment_bit_for_bit() -> None:
    model, request = setting()
    tracer = TracerConfig(reassign=False, epochs=3, hard_epochs=1, batch_size=16, lr=1e-3)
    alone = ThetaOnlyConfig(epochs=3, batch_size=16, lr=1e-3)
    logs = Progress(), Progress()
    one = Tracer(tracer).unlearn(model, request, logs[0])
    two = ThetaOnly(alone).unlearn(model, request, logs[1])
    assert [step.losses for step in logs[0].steps] == [step.losses for step in logs[1].steps]
    state = two.module.state_dict()
    for name, value in one.module.state_dict().items():
        assert torch.equal(value, state[name]), name
    assert any(not torch.equal(value, state[name]) for name, value in model.module.state_dict().items())
    assert two.sids.digest == model.sids.digest


def test_its_defaults_are_tracers() -> None:
    tracer, alone = TracerConfig(), ThetaOnlyConfig()
    assert alone.epochs == tracer.epochs == sum(tracer.phases)
    for name in UnlearningLossConfig.model_fields:
        assert getattr(alone, name) == getattr(tracer, name), name


def test_it_needs_no_codebooks() -> None:
    assert not ThetaOnly.requires
    with pytest.raises(ValueError, match="Extra inputs"):
        ThetaOnlyConfig.model_validate({"phi_lr": 0.1})
