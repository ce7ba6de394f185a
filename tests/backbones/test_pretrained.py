from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, T5EncoderModel

from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from tests.backbones.checkpoints import qwen_folder, t5_folder


@pytest.mark.parametrize("tied", [True, False])
def test_weights_and_tokenizer_are_those_of_the_folder(tmp_path: Path, tied: bool) -> None:
    folder = qwen_folder(tmp_path / "qwen", tied=tied)
    found = load_pretrained(str(folder), "qwen2")
    saved = load_file(folder / "model.safetensors")
    got = found.model.state_dict()
    assert all(torch.equal(got[name], tensor) for name, tensor in saved.items())
    assert (found.model.lm_head.weight is found.model.model.embed_tokens.weight) == tied
    text = "Below is an item: group 3\n"
    assert found.tokenizer.decode(found.tokenizer(text)["input_ids"]) == text
    assert not found.model.training
    assert load_pretrained(str(t5_folder(tmp_path / "t5")), "t5").model.config.model_type == "t5"


def test_the_type_of_the_weights_is_ours_to_choose(tmp_path: Path) -> None:
    folder = str(qwen_folder(tmp_path / "qwen"))
    assert load_pretrained(folder, "qwen2").model.dtype == torch.float32
    assert load_pretrained(folder, "qwen2", dtype=torch.bfloat16).model.dtype == torch.bfloat16


def test_no_generation_setting_is_taken_over(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen")
    (folder / "generation_config.json").write_text(json.dumps({"do_sample": True, "top_k": 2, "top_p": 0.5}))
    kept = load_pretrained(str(folder), "qwen2").model.generation_config
    assert kept.top_k != 2
    assert not kept.do_sample


def test_shards_are_read_and_missing_ones_named(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen")
    weights = load_file(folder / "model.safetensors")
    names = sorted(weights)
    parts = {"a.safetensors": names[::2], "b.safetensors": names[1::2]}
    for file, part in parts.items():
        save_file({name: weights[name] for name in part}, folder / file, metadata={"format": "pt"})
    (folder / "model.safetensors").unlink()
    index = {"metadata": {}, "weight_map": {name: file for file, part in parts.items() for name in part}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    got = load_pretrained(str(folder), "qwen2").model.state_dict()
    assert all(torch.equal(got[name], tensor) for name, tensor in weights.items())
    (folder / "b.safetensors").unlink()
    with pytest.raises(DataMissing, match=r"b\.safetensors"):
        load_pretrained(str(folder), "qwen2")


@pytest.mark.parametrize("name", ["nobody/no-such-model", "no-such-model"])
def test_a_hub_model_that_cannot_be_had(name: str) -> None:
    with pytest.raises(DataMissing) as caught:
        load_pretrained(name, "qwen2")
    assert caught.value.where == name
    assert "folder" in (caught.value.hint or "")


def test_nothing_is_downloaded_where_downloads_are_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def snapshot(*_: object, local_files_only: bool, **__: object) -> str:
        raise FileNotFoundError("not in the cache" if local_files_only else "downloaded")

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    for switch, what in (("1", "not in the cache"), ("0", "downloaded")):
        monkeypatch.setenv(OFFLINE_VARIABLE, switch)
        with pytest.raises(DataMissing, match=what) as caught:
            load_pretrained("owner/model", "qwen2")
        assert (OFFLINE_VARIABLE in (caught.value.hint or "")) == (switch == "1")


def test_names_that_are_neither_folder_nor_hub_id(tmp_path: Path) -> None:
    for name in (str(tmp_path / "nowhere"), "./nowhere", "a/b/c", "what is this?"):
        with pytest.raises(DataMissing, match="the model cannot be loaded"):
            load_pretrained(name, "t5")


def test_folders_that_lack_a_part(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"config\.json"):
        load_pretrained(str(tmp_path), "qwen2")
    folder = qwen_folder(tmp_path / "qwen")
    for file in folder.glob("tokenizer*"):
        file.rename(tmp_path / file.name)
    with pytest.raises(DataMissing, match="holds none of tokenizer"):
        load_pretrained(str(folder), "qwen2")
    (folder / "model.safetensors").rename(tmp_path / "model.safetensors")
    with pytest.raises(DataMissing, match=r"model\.safetensors"):
        load_pretrained(str(folder), "qwen2")


def test_pickled_weights_are_refused_unopened(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen")
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(b"never opened")
    with pytest.raises(DataMissing) as caught:
        load_pretrained(str(folder), "qwen2")
    assert "pickles are never opened" in (caught.value.hint or "")


def test_another_architecture(tmp_path: Path) -> None:
    folder = tmp_path / "gpt2"
    GPT2LMHeadModel(GPT2Config(vocab_size=50, n_embd=8, n_layer=1, n_head=1)).save_pretrained(folder)
    with pytest.raises(UsageError, match=r"'gpt2'.*'qwen2'"):
        load_pretrained(str(folder), "qwen2")
    with pytest.raises(UsageError, match=r"'qwen2'.*'t5'"):
        load_pretrained(str(qwen_folder(tmp_path / "qwen")), "t5")


def test_weights_that_are_those_of_something_else(tmp_path: Path) -> None:
    folder = t5_folder(tmp_path / "t5")
    T5EncoderModel.from_pretrained(folder).save_pretrained(tmp_path / "encoder")
    (tmp_path / "encoder" / "model.safetensors").replace(folder / "model.safetensors")
    with pytest.raises(CorruptArtefact, match="decoder"):
        load_pretrained(str(folder), "t5")


def test_damaged_and_ill_fitting_files(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen")
    wide = qwen_folder(tmp_path / "wide", hidden_size=64)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes((wide / "model.safetensors").read_bytes())
    with pytest.raises(CorruptArtefact):
        load_pretrained(str(folder), "qwen2")
    (folder / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptArtefact, match="cannot be loaded"):
        load_pretrained(str(folder), "qwen2")
    (folder / "model.safetensors").write_bytes(whole)
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(CorruptArtefact, match="tokenizer"):
        load_pretrained(str(folder), "qwen2")
    (folder / "config.json").write_text("{")
    with pytest.raises(CorruptArtefact, match=r"config\.json"):
        load_pretrained(str(folder), "qwen2")


def test_a_tokenizer_with_more_ids_than_the_embedding_has_rows(tmp_path: Path) -> None:
    folder = qwen_folder(tmp_path / "qwen", rows=100)
    with pytest.raises(CorruptArtefact, match="the embedding has 100 rows"):
        load_pretrained(str(folder), "qwen2")
