"""The whole line: counts add up, the outcome is the same to the byte, everything that matters is in the digest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.data.catalogue import DatasetSpec, FileSpec, find_dataset
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.locate import source_digests
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress
from tests.data.formats.files import write
from tests.data.shops import ITEMS, USERS, shop_spec, write_shop


def prepared(folder: Path, spec: DatasetSpec | None = None) -> Dataset:
    return prepare(spec or shop_spec(), folder, Progress())


def test_manifest(tmp_path: Path) -> None:
    dataset = prepared(write_shop(tmp_path))
    manifest = dataset.manifest
    assert (manifest.items, manifest.users, manifest.interactions) == (ITEMS, USERS, USERS * 6)
    assert (manifest.train, manifest.valid, manifest.test) == (80, 10, 10)
    assert (manifest.with_brand, manifest.with_price) == (ITEMS - 1, ITEMS - 1)
    assert manifest.dropped == {"negative price (price left out)": 1, "repeated line (same user, item and time)": 1}
    assert [source.name for source in manifest.sources] == ["items.jsonl", "interactions.tsv"]
    assert manifest.notes == (
        "1 items occur in no interaction and stay in the catalogue",
        "1 items have no text at all; their id stands in for it",
    )
    assert set(dataset.items.brands) == {"Acme", "Zeta", ""}


def test_time_runs_forward_across_the_parts(tmp_path: Path) -> None:
    dataset = prepared(write_shop(tmp_path))
    assert dataset.train.times.max() <= dataset.valid.times.min()
    assert dataset.valid.times.max() <= dataset.test.times.min()


def test_same_bytes_same_digest_whatever_the_folder(tmp_path: Path) -> None:
    first, second = prepared(write_shop(tmp_path / "a")), prepared(write_shop(tmp_path / "b" / "shop").parent)
    assert first.manifest == second.manifest


@pytest.mark.parametrize("change", ["title", "price", "time", "k", "split"])
def test_digest_covers_everything(tmp_path: Path, change: str) -> None:
    before = prepared(write_shop(tmp_path)).manifest.digest
    spec = shop_spec()
    items, log = tmp_path / "items.jsonl", tmp_path / "interactions.tsv"
    if change == "title":
        items.write_text(items.read_text().replace("Thing 7", "Thing seven"))
    elif change == "price":
        items.write_text(items.read_text().replace("$7.50", "$7.51"))
    elif change == "time":
        lines = log.read_text().splitlines()
        user, item, time = lines[3].split("\t")
        lines[3] = f"{user}\t{item}\t{int(time) + 1}"
        log.write_text("\n".join(lines))
    elif change == "k":
        spec = shop_spec(k_core=2)
    else:
        spec = shop_spec("leave-one-out")
    assert prepared(tmp_path, spec).manifest.digest != before


def test_sequences(tmp_path: Path) -> None:
    dataset = prepared(write_shop(tmp_path, sequences=True), shop_spec("leave-one-out", log="sequences"))
    assert (len(dataset.train), len(dataset.valid), len(dataset.test)) == (USERS * 3, USERS, USERS)
    assert (dataset.test.history_lengths() == 5).all()


def test_rows_as_given(tmp_path: Path) -> None:
    header = "user_id,history_item_id,item_id\n"
    for part, rows in (("train", 'A9,"[0, 1]",2\nA3,[1],0\n'), ("valid", "A3,[0],1\n"), ("test", "A7,[2],2\n")):
        write(tmp_path / part / "x.csv", header + rows)
    write(tmp_path / "index" / "x.item.json", json.dumps({str(n): {"title": f"T{n}"} for n in range(3)}))
    names = {part: f"{part}/x.csv" for part in ("train", "valid", "test")} | {"items": "index/x.item.json"}
    spec = DatasetSpec(
        name="given",
        title="Given",
        format="minionerec",
        split="as-given",
        files=tuple(FileSpec(role=role, names=(name,)) for role, name in names.items()),
    )
    dataset = prepared(tmp_path, spec)
    assert dataset.train.users.tolist() == [0, 1]
    assert dataset.valid.users.tolist() == [1]
    assert dataset.test.users.tolist() == [2]
    assert dataset.test.histories().items.tolist() == [[2]]
    assert (dataset.manifest.users, dataset.manifest.interactions) == (3, 4)


def test_demo_needs_no_files(tmp_path: Path) -> None:
    spec = find_dataset("demo")
    first, second = prepare(spec, None, Progress()), prepare(spec, tmp_path, Progress())
    assert first.manifest == second.manifest
    assert first.manifest.sources == source_digests(spec, None)
    assert first.manifest.with_brand > 0.9 * first.manifest.items
    assert np.isfinite(first.items.prices).sum() == first.manifest.with_price


def test_source_digests_follow_the_files(tmp_path: Path) -> None:
    write_shop(tmp_path)
    before = source_digests(shop_spec(), tmp_path)
    assert before == prepared(tmp_path).manifest.sources
    (tmp_path / "items.jsonl").write_text('{"item_id": "other"}\n')
    after = source_digests(shop_spec(), tmp_path)
    assert after[0] != before[0]
    assert after[1] == before[1]


def test_too_small_to_split(tmp_path: Path) -> None:
    write(tmp_path / "items.jsonl", '{"item_id": "a"}\n')
    write(tmp_path / "interactions.tsv", "user\titem\ttimestamp\nu\ta\t1\nu\ta\t2\n")
    with pytest.raises(DataFault, match="the train part is empty"):
        prepared(tmp_path)


def test_contradicting_specification(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without dates, sequences"):
        prepared(write_shop(tmp_path, sequences=True), shop_spec(log="sequences"))
