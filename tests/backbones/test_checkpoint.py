from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRec
from genrec_unlearn_bench.backbones.minionerec.config import MiniOneRecConfig
from genrec_unlearn_bench.backbones.t5 import T5Recommender, T5Shape
from genrec_unlearn_bench.backbones.transformer import read_checkpoint
from genrec_unlearn_bench.errors import CorruptArtefact
from tests.planted import sids


@pytest.mark.parametrize("name", ["recommender.json", "model.safetensors", "serving.safetensors"])
@pytest.mark.parametrize("damage", ["cut", "gone"])
def test_a_damaged_recommender_says_which_folder(name: str, damage: str, tmp_path: Path) -> None:
    shape = T5Shape(d_model=16, d_kv=4, d_ff=16, layers=1, heads=2)
    T5Recommender.fresh(shape, sids(), seed=0).save(tmp_path)
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:7])
    if damage == "gone":
        file.unlink()
    with pytest.raises(CorruptArtefact) as fault:
        read_checkpoint(tmp_path)
    assert fault.value.where == str(tmp_path)


def test_a_local_checkpoint_counts_by_its_content(tmp_path: Path) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    config = MiniOneRecConfig(checkpoint=str(tmp_path))
    first = MiniOneRec.weights(config)
    assert first == MiniOneRec.weights(config)
    (tmp_path / "README.md").write_text("words")
    assert first == MiniOneRec.weights(config)
    weights.write_bytes(b"two")
    assert first != MiniOneRec.weights(config)
    assert MiniOneRec.weights(MiniOneRecConfig()) is None
    assert MiniOneRec.weights(MiniOneRecConfig(checkpoint="Qwen/Qwen2.5-0.5B")) is None
