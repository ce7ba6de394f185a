from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from genrec_unlearn_bench.backbones.minionerec.backbone import LoraShape
from genrec_unlearn_bench.backbones.minionerec.recommender import serving_weights
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.errors import ConfigError, UsageError
from tests.backbones.checkpoints import qwen_folder
from tests.backbones.minionerec.models import histories, pretrained

TARGETS = np.array([5, 0, 17, 33, 12, 39])
LORA = LoraShape(rank=3, alpha=6)


def shaken(model, names: str) -> None:
    draw = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            if names in name:
                parameter.add_(0.2 * torch.randn(parameter.shape, generator=draw))


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_text_tokens_keep_their_rows_and_sids_get_rows_of_their_own(tmp_path: Path, tied: bool) -> None:
    model = pretrained(tmp_path / "qwen", tied=tied)
    plain = load_pretrained(str(tmp_path / "qwen"), "qwen2").model
    count = model.shape.text_tokens
    assert model.vocabulary.offsets[0] == count < plain.config.vocab_size
    ids = torch.randint(0, count, (3, 9), generator=torch.Generator().manual_seed(0))
    ours, theirs = model.model(input_ids=ids).logits, plain(input_ids=ids).logits
    torch.testing.assert_close(ours[..., :count], theirs[..., :count])
    rows = model.model.model.embed_tokens.weight[count:]
    assert len(rows.unique(dim=0)) == len(rows) == 18


@pytest.mark.parametrize("tied", [True, False])
def test_adapters_that_are_switched_off_leave_the_base_model(tmp_path: Path, tied: bool) -> None:
    base = pretrained(tmp_path / "qwen", tied=tied)
    model = pretrained(tmp_path / "qwen", tied=tied, lora=LORA)
    before = base.target_log_probs(histories(), TARGETS)
    assert torch.equal(model.target_log_probs(histories(), TARGETS), before)  # B is zero at the start
    shaken(model, "lora_")
    assert not torch.allclose(model.target_log_probs(histories(), TARGETS), before, atol=1e-2)
    for part in model.module.modules():
        if isinstance(part, BaseTunerLayer):
            part.enable_adapters(False)
    assert torch.equal(model.target_log_probs(histories(), TARGETS), before)
    assert torch.equal(*(torch.from_numpy(m.recommend(histories(), 5).items) for m in (model, base)))


@pytest.mark.parametrize("tied", [True, False])
def test_served_lists_have_the_adapters_in_them(tmp_path: Path, tied: bool) -> None:
    model = pretrained(tmp_path / "qwen", tied=tied, lora=LORA)
    shaken(model, "lora_")
    found = model.recommend(histories(), 8, exact=True)
    for place in (0, 4, 7):
        scores = model.target_log_probs(histories(), found.items[:, place]).sum(1)
        np.testing.assert_allclose(found.log_probs[:, place], scores, atol=1e-4)


@pytest.mark.parametrize("tied", [True, False])
def test_only_adapters_and_sid_rows_learn_also_in_copies(tmp_path: Path, tied: bool) -> None:
    model = pretrained(tmp_path / "qwen", tied=tied, lora=LORA).clone()
    before = {name: parameter.detach().clone() for name, parameter in model.module.named_parameters()}
    optimizer = torch.optim.AdamW(model.module.parameters(), lr=1e-2, weight_decay=0.0)
    for _ in range(3):
        optimizer.zero_grad()
        (-model.forward(histories(), TARGETS).token_log_probs().mean()).backward()
        optimizer.step()
    count = model.shape.text_tokens
    for name, parameter in model.module.named_parameters():
        if "lora_" in name:
            assert not torch.equal(parameter, before[name])
        elif "embed_tokens" in name or "lm_head" in name:
            assert torch.equal(parameter[:count], before[name][:count])
            assert not torch.equal(parameter[count:], before[name][count:])
        else:
            assert torch.equal(parameter, before[name])


def test_a_saved_model_with_adapters_needs_nothing_but_its_folder(tmp_path: Path) -> None:
    model = pretrained(tmp_path / "qwen", lora=LORA, precision="bfloat16")
    shaken(model, "lora_")
    model.save(tmp_path / "saved")
    (tmp_path / "qwen").rename(tmp_path / "gone")
    again = type(model).load(tmp_path / "saved")
    ours, theirs = (m.module.state_dict() for m in (again, model))
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == theirs[name].dtype for name in ours)
    assert torch.equal(again.target_log_probs(histories(), TARGETS), model.target_log_probs(histories(), TARGETS))
    assert np.array_equal(again.recommend(histories(), 5).items, model.recommend(histories(), 5).items)
    learned = {name for name, parameter in again.module.named_parameters() if parameter.requires_grad}
    assert learned == {name for name, parameter in model.module.named_parameters() if parameter.requires_grad}


@pytest.mark.parametrize("tied", [True, False])
@torch.no_grad()
def test_the_head_beside_adapters_stays_in_float32_in_training_and_serving(tmp_path: Path, tied: bool) -> None:
    """A head that is rounded to bfloat16 gives other probabilities, and tied ones."""
    model = pretrained(tmp_path / "qwen", tied=tied, lora=LORA, precision="bfloat16")
    shaken(model, "lora_")
    shaken(model, "lm_head" if not tied else "embed_tokens")
    blocks = {parameter.dtype for name, parameter in model.module.named_parameters() if "base_layer" in name}
    assert (model.model.lm_head.weight.dtype, blocks) == (torch.float32, {torch.bfloat16})
    assert serving_weights(model.model).head(torch.ones(1, 32)).dtype == torch.float32
    served = model.recommend(histories(), 10, exact=True)
    for items, values in zip(served.items, served.log_probs, strict=True):
        assert len(np.unique(values)) == len(np.unique(model.sids.codes[items], axis=0)), "only equal SIDs tie"
    model.model.lm_head.weight.data = model.model.lm_head.weight.bfloat16().float()
    rounded = model.recommend(histories(), 10, exact=True)
    assert not np.array_equal(rounded.log_probs, served.log_probs)


def test_checkpointed_gradients_are_plain_ones(tmp_path: Path) -> None:
    found = []
    for on in (False, True):
        model = pretrained(tmp_path / "qwen", checkpointing=on)
        model.module.train()
        (-model.forward(histories(), TARGETS).token_log_probs().mean()).backward()
        found.append([parameter.grad for parameter in model.module.parameters()])
    torch.testing.assert_close(*found)


def test_generation_settings_of_a_checkpoint_change_nothing(tmp_path: Path) -> None:
    plain = qwen_folder(tmp_path / "plain")
    other = qwen_folder(tmp_path / "other")
    settings = {"do_sample": True, "top_k": 2, "top_p": 0.3, "temperature": 0.1, "repetition_penalty": 5.0}
    (other / "generation_config.json").write_text(json.dumps(settings))
    lists = [pretrained(folder).recommend(histories(), 10, beam=12) for folder in (plain, other)]
    assert np.array_equal(lists[0].items, lists[1].items)
    assert np.array_equal(lists[0].log_probs, lists[1].log_probs)


def test_faults_of_a_configuration_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"name linear layers, of .*q_proj"):
        pretrained(tmp_path / "qwen", lora=LoraShape(targets=("q_proj", "no_such_proj")))
    config = json.loads((tmp_path / "qwen" / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "linear", "factor": 2.0, "rope_theta": 1e4}
    config["layer_types"] = ["sliding_attention"] * config["num_hidden_layers"]
    (tmp_path / "qwen" / "config.json").write_text(json.dumps(config))
    with pytest.raises(UsageError, match="sliding-window attention"):
        pretrained(tmp_path / "qwen")
