from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.methods.scrub import Rewinding, held_out, nearest_checkpoint
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.unlearning.losses.test_suppression import setting


def test_the_nearest_error_wins_the_earliest_of_equals_and_never_one_that_is_no_number() -> None:
    assert nearest_checkpoint([1.0, 2.1, 5.0], 2.0) == 1
    assert nearest_checkpoint([1.0, 3.0, 5.0], 2.0) == 0
    assert nearest_checkpoint([float("nan"), 9.0, float("inf")], 2.0) == 1


def test_held_out_examples_are_of_the_same_kind_and_never_trained_on() -> None:
    _, request = setting()
    valid = Groups(request.valid.forget.subset(np.arange(5)), request.valid.retain)
    request = replace(request, valid=valid)
    assert held_out(request) is valid.forget
    single = replace(
        request, kind=ConceptKind.INTERACTION, items=np.zeros_like(request.items), pairs=np.array([[0, 10], [4, 20]])
    )
    part = held_out(single)
    assert set(part.targets) == {10, 20}, "not the forget part, which holds trained interactions"
    assert len(part) == np.isin(valid.retain.targets, [10, 20]).sum()


def asked() -> tuple[torch.nn.Module, Rewinding, ForgetRequest]:
    model, request = setting()
    return model.module, Rewinding(model, request), request


def scaled(module: torch.nn.Module, factor: float) -> None:
    with torch.no_grad():
        module.get_parameter("lm_head.weight").mul_(factor)


def test_the_planted_checkpoint_is_put_back() -> None:
    """Forget and held-out examples are the same here, so the last state's own error is the reference: the checkpoint
    that holds the last state's weights is the right one, wherever it stands."""
    module, rewinding, _ = asked()
    states = []
    for factor in (1.0, 40.0, 0.05):
        scaled(module, factor)
        states.append({name: value.clone() for name, value in module.state_dict().items()})
        rewinding.checkpoint()
    module.load_state_dict(states[1])
    progress = Progress()
    rewinding.rewind(progress)
    assert progress.notes["rewound_to"] == 1
    errors = progress.notes["forget_errors"]
    assert isinstance(errors, list)
    assert progress.notes["held_out_error"] == pytest.approx(errors[1])
    scaled(module, 3.0)
    module.load_state_dict(states[0])
    rewinding.rewind(progress)
    assert progress.notes["rewound_to"] == 0
    for name, value in module.state_dict().items():
        assert torch.equal(value, states[0][name]), name


def test_without_held_out_examples_nothing_is_put_back() -> None:
    model, request = setting()
    empty = request.valid.forget.subset(np.zeros(0, dtype=np.int64))
    rewinding = Rewinding(model, replace(request, valid=Groups(empty, request.valid.retain)))
    rewinding.checkpoint()
    scaled(model.module, 2.0)
    before = model.module.get_parameter("lm_head.weight").clone()
    progress = Progress()
    rewinding.rewind(progress)
    assert progress.notes["rewound_to"] is None
    assert torch.equal(model.module.get_parameter("lm_head.weight"), before)
