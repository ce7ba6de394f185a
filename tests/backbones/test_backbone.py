"""What a request is resolved from follows from configuration alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from genrec_unlearn_bench.backbones import backbones, load_backbone
from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRec, MiniOneRecConfig
from genrec_unlearn_bench.progress import Progress
from tests.backbones.test_letter import data
from tests.planted import sids

PROGRAM = """
import sys
from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.backbones import load_backbone
found = load_backbone(sys.argv[1])
for scale in Scale:
    config, sid_config = found.presets[scale], found.sid_presets[scale]
    found.label(config, sid_config), found.capabilities(config, sid_config), found.weights(config)
    found.collaborative(config, sid_config), found.reads_interactions(sid_config)
print([name for name in ("torch", "transformers", "sklearn") if name in sys.modules])
"""


@pytest.mark.parametrize("name", list(backbones()))
def test_a_request_is_resolved_without_torch(name: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM, name], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_one_that_trains_its_tokenizer_declares_it() -> None:
    """For ETEGRec itself see ``etegrec/test_tokenizer.py``: the table of ``tokenise`` is not frozen."""
    assert [name for name in backbones() if load_backbone(name).joint] == ["etegrec"]


@pytest.mark.parametrize("name", list(backbones()))
def test_the_configuration_of_another_backbone_is_refused(name: str) -> None:
    found, other = load_backbone(name), load_backbone("mor" if name == "tiger" else "tiger")
    with pytest.raises(TypeError, match=found.Config.__name__):
        found.fit(other.presets[Scale.SMOKE], data=data(), sids=sids(), seed=0, device="cpu", progress=Progress())


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
