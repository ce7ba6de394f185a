"""What RMU changes, and that it misdirects what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.methods.rmu import Rmu, RmuConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.steering import Steering
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.backbones.minionerec.models import pretrained
from tests.planted import Planted, examples
from tests.small import causal, changed, hooks, interaction_request, small_request, t5

SHORT = RmuConfig(epochs=2, lr=1e-2, batch_size=16)


@pytest.mark.parametrize("make", [t5, causal])
def test_nothing_but_the_chosen_value_matrices_changes(make) -> None:
    original = make()
    before = {name: p.detach().clone() for name, p in original.module.named_parameters()}
    original.module.train()
    model = Rmu(SHORT).unlearn(original, small_request(), Progress())
    names = (
        {f"decoder.block.{i}.layer.2.DenseReluDense.wo.weight" for i in (0, 1, 2)}
        if make is t5
        else {f"model.layers.{i}.mlp.down_proj.weight" for i in (0, 1)}
    )
    assert changed(model.module, original.module) == names
    assert all(torch.equal(p, before[name]) for name, p in original.module.named_parameters())
    assert original.module.training
    assert all(p.requires_grad and p.grad is None for p in model.module.parameters())
    assert hooks(model.module) == hooks(original.module) == 0


def test_in_two_plus_two_blocks_one_matrix_is_trained() -> None:
    original = t5(2)
    model = Rmu(SHORT).unlearn(original, small_request(), Progress())
    assert changed(model.module, original.module) == {"decoder.block.0.layer.2.DenseReluDense.wo.weight"}


def test_each_brand_can_have_a_vector_of_its_own() -> None:
    asked, model = branded(), t5()
    brands = asked.brand_numbers
    assert set(brands[asked.items].tolist()) == {0, 1}
    made = [
        Steering(model, asked, where="decoder", depth=None, kappa=1.0, per_brand=own).vectors[0]
        for own in (False, True)
    ]
    assert [len(vectors) for vectors in made] == [1, 2]
    torch.testing.assert_close(made[1].norm(dim=1), made[0].norm().expand(2))
    steered = Rmu(SHORT.model_copy(update={"per_brand": True, "alpha": 0.0, "epochs": 8})).unlearn(
        model, asked, Progress()
    )
    found = Steering(model, asked, where="decoder", depth=None, kappa=2.0, per_brand=True)
    caught = found.states(steered, asked.train.forget)[0]
    numbers = brands[asked.train.forget.targets]
    means = [caught.states[numbers == brand][:, :3].flatten(0, 1).mean(0) for brand in (0, 1)]
    for brand in (0, 1):
        gaps = [float((means[brand] - vector).detach().norm()) for vector in found.vectors[0]]
        assert gaps[brand] < gaps[1 - brand], "each brand's states go to its own vector"


def branded() -> ForgetRequest:
    """Concept items of even groups are of one brand, those of odd groups of another."""
    asked = small_request()
    names = tuple("even" if item // 8 % 2 == 0 else "odd" for item in range(len(asked.items)))
    return replace(asked, catalogue=replace(asked.catalogue, brands=names))


def test_the_encoder_site_changes_the_encoder_alone() -> None:
    original = t5()
    model = Rmu(SHORT.model_copy(update={"site": "encoder"})).unlearn(original, small_request(), Progress())
    assert changed(model.module, original.module) == {
        f"encoder.block.{i}.layer.1.DenseReluDense.wo.weight" for i in (0, 1, 2)
    }


def test_matrices_are_found_by_name_because_the_sixth_parameter_is_another() -> None:
    model = causal()
    found = Steering(model, small_request(), where="decoder", depth=None, kappa=1.0).parameters(model)
    block = model.model.model.layers[1]
    names = [name for name, _ in block.named_parameters()]
    assert names[6] == "self_attn.o_proj.weight"
    assert any(p is block.mlp.down_proj.weight for p in found)
    assert not any(p is list(block.parameters())[6] for p in found)
    assert len(found) == 2


def test_adapters_are_trained_where_there_are_any(tmp_path: Path) -> None:
    request = small_request()
    few = [[item % 40 for item in walk] for walk in ([1, 2, 3], [9, 3], [4, 5, 6, 7])]
    part = examples(few)
    request = replace(request, items=np.arange(40) == 3, train=Groups(part, part), valid=Groups(part, part))
    original = pretrained(tmp_path / "qwen", lora={"rank": 2, "alpha": 4})
    model = Rmu(SHORT).unlearn(original, request, Progress())
    assert {name.partition(".down_proj.")[2].split(".")[0] for name in changed(model.module, original.module)} <= {
        "lora_A",
        "lora_B",
    }
    assert changed(model.module, original.module)
    without = pretrained(tmp_path / "qwen", lora={"rank": 2, "alpha": 4, "targets": ("q_proj",)})
    with pytest.raises(BenchError, match="nothing trainable"):
        Rmu(SHORT).unlearn(without, request, Progress())


@pytest.mark.parametrize("site", ["decoder", "both"])
@pytest.mark.parametrize("make", [t5, causal])
def test_states_go_where_they_are_sent_and_interaction_requests_run(make, site: str) -> None:
    progress = Progress()
    config = SHORT.model_copy(update={"site": site, "alpha": 1.0, "epochs": 6})
    Rmu(config).unlearn(make(), interaction_request(), progress)
    assert not progress.diverged
    assert progress.steps[0].losses["retain"] == pytest.approx(0.0, abs=1e-8)
    assert progress.steps[-1].losses["forget"] < 0.9 * progress.steps[0].losses["forget"]


def test_on_the_planted_set_the_concept_becomes_less_likely(planted: Planted) -> None:
    """Little: a model of one block has no middle, and the paper's own table has RMU last."""
    part = planted.test.forget
    nll = []
    model = Rmu(RmuConfig(alpha=1.0, kappa=5.0, epochs=10, batch_size=64)).unlearn(
        planted.original, planted.request, Progress()
    )
    for one in (planted.original, model):
        nll.append(-one.target_log_probs(part.histories(4), part.targets).sum(1).mean())
    assert nll[1] > nll[0] + 0.05
