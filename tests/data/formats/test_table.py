"""Tables through a mapping of columns: one digest with the plain folder, ids as text, and what the Hub is asked for."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genrec_unlearn_bench.data.catalogue import DatasetSpec, TableMapping, load_spec, packaged_datasets
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.formats import reader, records
from genrec_unlearn_bench.data.prepare import import_folder, prepare
from genrec_unlearn_bench.errors import ConfigError, DataFault, DataMissing
from genrec_unlearn_bench.progress import Progress
from tests.data.test_spec import spec_of

ITEMS = [
    {"item_id": f"p{row}", "title": f"Thing, {row}", "brand": "Acme" if row % 2 else "Bolt", "price": row + 0.5}
    for row in range(30)
]
LOG = [(f"u{row % 20}", f"p{(row * 7) % 30}", 1000 + row) for row in range(200)]
MAP = {
    "columns": {
        "interactions": {"user": "uid", "item": "iid", "time": "ts"},
        "items": {"id": "iid", "title": "name", "brand": ["maker.Name", "store"], "price": "price"},
        "attributes": {"genres": {"from": "genres", "split": "|"}},
    }
}


def mapping(**changes: object) -> TableMapping:
    return TableMapping.model_validate({**MAP, **changes})


def table(folder: Path, name: str, records: list[dict[str, object]]) -> None:
    """Write records in the form that the name ends with."""
    path = folder / name
    columns = list(records[0])
    plain, ending = path.with_suffix("") if path.suffix == ".gz" else path, name.removesuffix(".gz").rpartition(".")[2]
    if ending in ("parquet", "arrow"):
        content = pa.Table.from_pylist(records)
        if ending == "parquet":
            pq.write_table(content, path)
        else:
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, content.schema) as writer:
                writer.write_table(content)
        return
    if ending == "jsonl":
        lines = [json.dumps(record) for record in records]
    else:
        sep = "\t" if ending == "tsv" else ","
        quote = (lambda cell: f'"{cell}"' if sep in cell else cell) if ending == "csv" else str
        lines = [sep.join(columns), *(sep.join(quote(str(record[name])) for name in columns) for record in records)]
    text = "".join(f"{line}\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if plain != path else text.encode())


def shop(folder: Path, ending: str, *, split: str | None = None) -> tuple[DatasetSpec, Dataset]:
    folder.mkdir()
    table(folder, f"interactions.{ending}", [{"extra": 5, "iid": i, "uid": u, "ts": t} for u, i, t in LOG])
    rows: list[dict[str, object]] = [
        {"iid": one["item_id"], "name": one["title"], "store": one["brand"], "price": one["price"], "genres": "A|B"}
        for one in ITEMS
    ]
    table(folder, f"items.{ending}", rows)
    return import_folder(folder, "my-table", Progress(), format_name="table", mapping=mapping())


def plain(folder: Path) -> Dataset:
    folder.mkdir()
    lines = [json.dumps({**one, "brand": one["brand"]}) + "\n" for one in ITEMS]
    (folder / "items.jsonl").write_text("".join(lines))
    log = "".join(f"{u}\t{i}\t{t}\n" for u, i, t in LOG)
    (folder / "interactions.tsv").write_text("user\titem\ttimestamp\n" + log)
    return import_folder(folder, "my-folder", Progress())[1]


@pytest.mark.parametrize("ending", ["csv", "tsv.gz", "jsonl.gz", "parquet", "arrow"])
def test_every_form_gives_what_the_plain_folder_gives(tmp_path: Path, ending: str) -> None:
    spec, found = shop(tmp_path / "table", ending)
    assert found.items.attributes["genres"] == (("A", "B"),) * 30
    bare = mapping(columns={**MAP["columns"], "attributes": {}})
    again = import_folder(tmp_path / "table", "my-table", Progress(), format_name="table", mapping=bare)[1]
    assert again.manifest.digest == plain(tmp_path / "plain").manifest.digest
    # What the import wrote reads as what it was given.
    shop_again = import_folder(tmp_path / "table", "my-table", Progress(), format_name="table", mapping=mapping())[0]
    assert load_spec(tmp_path / "table" / "dataset.yaml") == shop_again == spec
    assert prepare(spec, tmp_path / "table", Progress()).manifest.digest == found.manifest.digest


def small(folder: Path, log: str | bytes, name: str = "interactions.csv", **changes: object) -> Dataset:
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(log if isinstance(log, bytes) else log.encode())
    columns = {"columns": {"interactions": {"user": "u", "item": "i", "time": "t"}}, **changes}
    chosen = TableMapping.model_validate(columns)
    return import_folder(folder, "small", Progress(), format_name="table", mapping=chosen, split="leave-one-out")[1]


IDS = ["NA", "null", "1e5", "007", "1.0", "True", "nan", "-", "100000"]


def test_ids_are_the_text_that_stands_there(tmp_path: Path) -> None:
    rows = [(user, item, place) for user in IDS for place, item in enumerate(IDS)]
    found = small(tmp_path / "a", "u,i,t\n" + "".join(f"{u},{i},{t}\n" for u, i, t in rows))
    assert found.items.ids == tuple(IDS)
    assert found.manifest.users == len(IDS)
    assert found.manifest.dropped == {}


def test_dates_undated_rows_and_files_of_several_parts(tmp_path: Path) -> None:
    days = "".join(f"u,{item},2020-0{month}-01\n" for item, month in (("c", 3), ("a", 1), ("b", 2), ("d", 4)))
    found = small(tmp_path / "dates", "u,i,t\n" + days)
    assert [found.items.ids[row] for row in found.train.events.tolist()] == ["a", "b", "c", "d"]
    folder = tmp_path / "parts"
    folder.mkdir()
    for part, rows in enumerate((["u,b", "v,b"], ["u,a", "v,a", "u,c", "v,c", "u,d"])):
        (folder / f"log-{part}.csv").write_text("user,item\n" + "\n".join(rows) + "\n")
    chosen = TableMapping.model_validate(
        {
            "columns": {"interactions": {"user": "user", "item": "item"}},
            "files": [{"role": "interactions", "names": ["log-*.csv"]}],
        }
    )
    spec, found = import_folder(folder, "parts", Progress(), format_name="table", mapping=chosen)
    assert spec.split == "leave-one-out"
    assert [found.items.ids[row] for row in found.train.events[:3].tolist()] == ["b", "a", "c"]
    assert [source.name for source in found.manifest.sources] == ["log-0.csv", "log-1.csv"]


def test_rows_that_come_with_their_split(tmp_path: Path) -> None:
    for part, rows in (("train", ["u,c,a b"]), ("valid", ["v,b,a"]), ("test", ["u,b,a c", "v,ghost,a"])):
        (tmp_path / f"{part}.csv").write_text("user_id,item,history\n" + "\n".join(rows) + "\n")
    (tmp_path / "items.csv").write_text("id\na\nb\nc\n")
    asked = {"user": "user_id", "item": "item", "history": {"from": "history", "split": " "}}
    chosen = TableMapping.model_validate({"columns": {"interactions": asked, "items": {"id": "id"}}})
    spec, found = import_folder(tmp_path, "given", Progress(), format_name="table", mapping=chosen)
    assert spec.split == "as-given"
    assert found.train.targets.tolist() == [2]
    assert found.test.events[found.test.starts[0] : found.test.ends[0]].tolist() == [0, 2]
    assert found.manifest.dropped == {"test row with a target that the catalogue does not have": 1}


def test_text_without_a_header_and_with_long_separators(tmp_path: Path) -> None:
    names = {"role": "interactions", "names": ["r.dat"], "header": ["u", "i", "x", "t"], "sep": "::"}
    found = small(tmp_path / "a", "1::é::5::3\n1::b::5::1\n1::b::5::4\n1::é::5::9\n".encode("latin-1"), "r.dat",
                  files=[{**names, "encoding": "latin-1"}])  # fmt: skip
    assert found.items.ids == ("é", "b")
    with pytest.raises(DataFault, match=r"r.dat:2: 3 cells, and 4 columns"):
        small(tmp_path / "b", "1::a::5::3\n1::b::5\n", "r.dat", files=[names])


def test_attributes_make_tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from genrec_unlearn_bench.data.tasks import AttributeConcept, find_task

    shop(tmp_path / "my-table", "csv")
    assert find_task("my-table-genres", tmp_path).concept == AttributeConcept(field="genres")


YAML = """
name: far
title: Far
format: table
split: leave-one-out
hub: {repo: lab/far, revision: 0123456789abcdef0123456789abcdef01234567}
files: [{role: interactions, names: ["data/log-*.csv"]}]
columns: {interactions: {user: u, item: i}}
"""


def test_hub_files_are_fetched_once_and_at_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def fetch(repo: str, *, repo_type: str, revision: str, allow_patterns: list[str], local_dir: Path) -> str:
        assert (repo, repo_type, revision[:4]) == ("lab/far", "dataset", "0123")
        asked.extend(allow_patterns)
        for part in (0, 1):
            path = Path(local_dir) / "data" / f"log-{part}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("u,i\n" + "".join(f"{user},{part}{item}\n" for user in "xy" for item in "ab"))
        return str(local_dir)

    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    spec = spec_of(YAML)
    found = prepare(spec, tmp_path, Progress())
    assert asked == ["data/log-*.csv"]
    assert found.items.ids == ("0a", "0b", "1a", "1b")
    prepare(spec, tmp_path, Progress())
    assert len(asked) == 1
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *args, **kwargs: "")
    with pytest.raises(DataMissing, match=r"lab/far has no file data/log-\*.csv at 0123456789ab"):
        prepare(spec, tmp_path / "b", Progress())
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *args, **kwargs: 1 / 0)
    with pytest.raises(DataMissing, match="lab/far on the Hugging Face Hub: division by zero"):
        prepare(spec, tmp_path / "b", Progress())
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_OFFLINE", "1")
    with pytest.raises(DataMissing, match="switched off"):
        prepare(spec, tmp_path / "b", Progress())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"columns": {"interactions": {"user": "u"}}}, "columns.interactions: item missing"),
        ({"hub": {"repo": "lab/far", "revision": "main"}}, "hub.revision"),
        ({"split": "global-time"}, "split leave-one-out"),
        ({"text_fields": ["title", "genre"]}, "no field of items is called 'genre'"),
        ({"columns": {"interactions": {"user": "u", "item": "i"}, "attributes": {"brand": "b"}}}, "called brand"),
        ({"columns": {"interactions": {"usr": "u", "item": "i"}}}, "usr"),
        ({"files": [{"role": "interactions", "names": ["a.csv"], "encoding": "utf-16"}]}, "utf-16"),
    ],
)
def test_contradictions_are_explained(change: dict[str, object], said: str) -> None:
    import yaml

    with pytest.raises(ConfigError, match=said):
        spec_of(yaml.safe_dump({**yaml.safe_load(YAML), **change}))


def test_neither_datasets_nor_encoders_are_imported_before_they_are_needed() -> None:
    code = (
        "import sys, genrec_unlearn_bench.data.prepare, genrec_unlearn_bench.pipeline.run\n"
        "print([name for name in ('datasets', 'sentence_transformers', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_amazon_2023_as_it_ships(tmp_path: Path) -> None:
    spec = packaged_datasets()["games-2023"].model_copy(update={"k_core": 0})
    meta = [
        {"parent_asin": "P1", "title": "Kite", "details": {"Brand": "Acme"}, "store": "Other", "price": 12.5},
        {
            "parent_asin": "P2",
            "title": "Ball",
            "details": {"Color": "red"},
            "store": "Visit the Zeta Store",
            "price": "—",
        },
        {"parent_asin": "P3", "details": '{"Brand": "Acme"}', "price": "from 3.00", "categories": ["Toys", "Ropes"]},
        {"parent_asin": "P4", "store": None, "price": "—", "details": "not json", "description": ["two", "parts"]},
    ]
    rows = "".join(f"u{row % 5},P{row % 4 + 1},5.0,{1_700_000_000_000 + row}\n" for row in range(60))
    files = {
        role: tmp_path / name for role, name in (("log", spec.files[0].names[0]), ("meta", spec.files[1].names[0]))
    }
    for path in files.values():
        path.parent.mkdir(parents=True)
    files["log"].write_text("user_id,parent_asin,rating,timestamp\n" + rows)
    files["meta"].write_text("".join(f"{json.dumps(one)}\n" for one in meta))
    items = prepare(spec, tmp_path, Progress()).items
    assert items.ids == ("P1", "P2", "P3", "P4")
    assert items.brands == ("Acme", "Zeta", "Acme", "")
    assert [str(price) for price in items.prices.tolist()] == ["12.5", "nan", "3.0", "nan"]
    assert items.categories[2] == ("Toys", "Ropes")
    assert items.descriptions[3] == "two parts"


def large(folder: Path, ending: str = "csv", size: int = 3_000, rest: int = 27_000) -> Path:
    """A 5-core of 3,000 interactions (200 users, 100 items) in a file of ten times as many."""
    folder.mkdir()
    core = [(f"u{row % 200}", f"p{(row * 7 + row // 200) % 100}") for row in range(size)]
    once = [(f"once{row}", f"p{row % 100}" if row % 3 else f"rare{row}") for row in range(rest)]
    mixed = sorted([*enumerate(core), *((row / 9, one) for row, one in enumerate(once))])
    rows = [{"uid": u, "iid": i, "ts": t} for t, (_, (u, i)) in enumerate(mixed)]
    table(folder, f"interactions.{ending}", rows)
    named = [{"iid": i, "name": f"Thing {i}", "store": "Acme"} for i in dict.fromkeys(row["iid"] for row in rows)]
    table(folder, f"items.{ending}", named)
    return folder


def five_core(folder: Path) -> Dataset:
    columns = {
        "interactions": MAP["columns"]["interactions"],
        "items": {"id": "iid", "title": "name", "brand": "store"},
    }
    asked = mapping(columns=columns)
    return import_folder(folder, "large", Progress(), format_name="table", mapping=asked, k_core=5)[1]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_large_file_is_filtered_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    folder = large(tmp_path / "large", ending)
    found = five_core(folder)
    assert (found.manifest.users, len(found.items), found.manifest.interactions) == (200, 100, 3_000)
    assert found.manifest.dropped == {
        "interaction of a user or an item with fewer than 5": 27_000,
        "item outside the 5-core": 9_000,
    }
    # Ids that share a counter stay for the second, exact filter.
    monkeypatch.setattr(reader, "CELLS", 500)
    crowded = five_core(folder)
    assert crowded.manifest.dropped["interaction outside the 5-core"] > 1_000
    monkeypatch.setattr(reader, "TWO_PASSES", 100)
    assert found.manifest.digest == crowded.manifest.digest == five_core(folder).manifest.digest


def test_memory_follows_what_survives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "BATCH", 100)
    monkeypatch.setattr(reader, "CELLS", 1 << 16)
    folders = [large(tmp_path / "core", size=1_500, rest=0), large(tmp_path / "large", size=1_500, rest=13_500)]
    five_core(folders[0])

    def peak(folder: Path) -> int:
        tracemalloc.start()
        five_core(folder)
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    core, twice = map(peak, folders)
    assert twice < 1.2 * core
    monkeypatch.setattr(reader, "TWO_PASSES", 100)
    assert peak(folders[1]) > 4 * core


def test_faults_of_a_large_file_have_their_lines(tmp_path: Path) -> None:
    folder = large(tmp_path / "large")
    path = folder / "interactions.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:40], "once7,p1,noon\n", ",p1,7\n", *lines[40:]]))
    with pytest.raises(DataFault, match="2 faults") as caught:
        five_core(folder)
    assert "interactions.csv:41: the timestamp 'noon'" in str(caught.value)
    assert "interactions.csv:42: the user is empty" in str(caught.value)
    path.write_text("".join([lines[0], *(line for line in lines if line.startswith("once"))]))
    with pytest.raises(DataFault, match="no interactions are left of 27000 after 5-core"):
        five_core(folder)
