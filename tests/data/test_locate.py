"""Where files are looked for, and what the error says if they are nowhere."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE, DatasetSpec, FileSpec
from genrec_unlearn_bench.data.locate import OFFLINE_VARIABLE, file_digest, locate, model_digest, source_digests
from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import write
from tests.data.http_server import serve


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    monkeypatch.delenv(OFFLINE_VARIABLE, raising=False)


def shop(url: str | None = None, name: str = "shop") -> DatasetSpec:
    return DatasetSpec(
        name=name,
        title="A shop",
        format="folder",
        split="leave-one-out",
        aliases=("old-shop",),
        where="Ask the owner.",
        files=(
            FileSpec(role="items", names=("items.jsonl", "items.jsonl.gz")),
            FileSpec(role="sequences", names=("sequences.tsv",), url=url),
        ),
    )


def fill(folder: Path, *names: str) -> Path:
    for name in names or ("items.jsonl", "sequences.tsv"):
        write(folder / name, "x\n")
    return folder


def test_order_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = fill(tmp_path / "home" / "genrec-unlearn-bench" / "data" / "shop")
    assert locate(shop(), None, Progress()).folder == home
    env = fill(tmp_path / "env" / "old-shop", "items.jsonl.gz", "sequences.tsv")
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "env"))
    located = locate(shop(), None, Progress())
    assert located.folder == env
    assert located.parts["items"][0].name == "items.jsonl.gz"
    above = fill(tmp_path / "given" / "shop")
    assert locate(shop(), tmp_path / "given", Progress()).folder == above
    own = fill(tmp_path / "given")
    assert locate(shop(), tmp_path / "given", Progress()).folder == own


def test_sources(tmp_path: Path) -> None:
    sources = locate(shop(), fill(tmp_path), Progress()).sources()
    assert [source.name for source in sources] == ["items.jsonl", "sequences.tsv"]
    assert {source.size for source in sources} == {2}
    assert len({source.digest for source in sources}) == 1


def test_missing_says_everything(tmp_path: Path) -> None:
    with pytest.raises(DataMissing) as caught:
        locate(shop(), tmp_path / "nowhere", Progress())
    text = caught.value.render()
    for part in (
        "2 of 2 files of the dataset 'shop'",
        "items.jsonl or items.jsonl.gz",
        "sequences.tsv",
        f"{tmp_path / 'nowhere' / 'shop'} (no such folder)",
        str(tmp_path / "home"),
        "Ask the owner.",
        "--data-dir",
        DATA_VARIABLE,
        "demo-brand",
    ):
        assert part in text
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("given", "target"), [("data", "data/shop"), ("shop", "shop"), ("old-shop", "old-shop"), (None, "home/x/data/shop")]
)
def test_a_folder_of_the_dataset_s_name_is_where_its_files_go(tmp_path: Path, given: str | None, target: str) -> None:
    with pytest.raises(DataMissing) as caught:
        locate(shop(), tmp_path / given if given else None, Progress())
    place = tmp_path / target.replace("/x/", "/genrec-unlearn-bench/")
    assert f"put the files into {place}:\n" in caught.value.render()
    fill(place)
    assert locate(shop(), tmp_path / given if given else None, Progress()).folder == place


def test_folder_of_another_dataset_is_not_read(tmp_path: Path) -> None:
    # Plain folders share their file names; --data-dir …/toys-2014 for another dataset must not work by accident.
    fill(tmp_path / "toys-2014")
    with pytest.raises(DataMissing):
        locate(shop(), tmp_path / "toys-2014", Progress())
    fill(tmp_path / "imported")
    spec = "name: other\ntitle: T\nformat: letter\nsplit: leave-one-out\nfiles: [{role: sequences, names: [x]}]\n"
    write(tmp_path / "imported" / "dataset.yaml", spec)
    with pytest.raises(DataMissing):
        locate(shop(), tmp_path / "imported", Progress())


def test_download_beside_what_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    fill(tmp_path / "shop", "items.jsonl")
    with serve(b"u\ta b\n") as site:
        located = locate(shop(site.url), tmp_path, Progress())
        assert located.parts["sequences"] == (tmp_path / "shop" / "sequences.tsv",)
        locate(shop(site.url), tmp_path, Progress())
        assert len(site.requests) == 1


def test_looking_only_downloads_nothing(tmp_path: Path) -> None:
    fill(tmp_path / "shop", "items.jsonl")
    with serve(b"u\ta b\n") as site:
        with pytest.raises(DataMissing, match="nothing is downloaded"):
            source_digests(shop(site.url), tmp_path, download=False)
        assert not site.requests
    fill(tmp_path / "shop", "sequences.tsv")
    assert len(source_digests(shop(), tmp_path, download=False)) == 2


def test_refused_download_and_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "shop", "items.jsonl")
    with serve(b"") as site:
        site.statuses = [404]
        with pytest.raises(DataMissing, match=r"1 of 2 files .* the server answered 404") as caught:
            locate(shop(site.url), tmp_path, Progress())
        assert site.url in caught.value.render()
        monkeypatch.setenv(OFFLINE_VARIABLE, "1")
        with pytest.raises(DataMissing, match="switched off by GENREC_UNLEARN_BENCH_OFFLINE"):
            locate(shop(site.url), tmp_path, Progress())
        assert len(site.requests) == 1


def test_a_change_that_hides_its_time_and_size_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "reviews.json"
    path.write_bytes(b"first")
    before = path.stat()
    assert file_digest(path) == hashlib.blake2b(b"first", digest_size=16).hexdigest()
    time.sleep(0.05)  # Change times have the kernel's tick.
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_digest(path) == hashlib.blake2b(b"other", digest_size=16).hexdigest()


def test_a_model_counts_by_names_and_contents(tmp_path: Path) -> None:
    for name in ("config.json", "sub/model.safetensors"):
        (tmp_path / "model" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "model" / name).write_text(name)
    before = model_digest(tmp_path / "model")
    (tmp_path / "model" / "README.md").write_text("read me")
    (tmp_path / "model" / "onnx").mkdir()
    (tmp_path / "model" / "onnx" / "model.onnx").write_text("the same weights")
    assert model_digest(tmp_path / "model") == before
    (tmp_path / "model" / "sub" / "model.safetensors").write_text("other")
    assert model_digest(tmp_path / "model") != before
