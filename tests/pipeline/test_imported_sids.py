"""Semantic IDs of an index file in place of a tokenizer, on data without a single text."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.formats import FormatName
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.errors import BenchError, CapabilityMissing, DataFault, DataMissing, UsageError
from genrec_unlearn_bench.grid.expand import expand, read_grid
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.results import FinishedRun, find_finished, read_record, remember_finished
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.imported import imported_table
from genrec_unlearn_bench.sids.kmeans import surrogate_codebooks
from genrec_unlearn_bench.sids.table import from_index, load_table
from genrec_unlearn_bench.store.store import StageStore
from tests.pipeline.conftest import TINY, Bench

PUBLISHED = Path(__file__).parents[2] / "leaderboard/results"
ITEMS = 210
LETTER: FormatName = "letter"
TOKENS = {str(item): [f"<a_{item // 15}>", f"<b_{item % 15}>", f"<c_{item % 7}>"] for item in range(ITEMS)}


def write_world(folder: Path, tokens: dict[str, Any] = TOKENS) -> Path:
    """LETTER's two files: users walk up the catalogue from different places; returns the index."""
    folder.mkdir(parents=True, exist_ok=True)
    walks = {str(user): [(11 * user + step) % ITEMS for step in range(8)] for user in range(210)}
    (folder / "World.inter.json").write_text(json.dumps(walks))
    index = folder / "World.index.json"
    index.write_text(json.dumps(tokens))
    return index


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "300")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    place = write_world(tmp_path / "world")
    import_folder(place.parent, "world", Progress(), format_name=LETTER)
    return place


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return import_folder(write_world(tmp_path / "w").parent, "w", Progress(), format_name=LETTER)[1]


def table_of(path: Path, dataset: Dataset, tokens: str, **config: Any) -> Any:
    path.write_text(tokens)
    return imported_table(path, dataset, SidConfig(**config))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"3": None}, "item '3': None is no semantic ID like <a_1><b_2><c_3>"),
        ({"4": ["<a_1>", "<b_2>"]}, "item '4': its ID has 2 tokens, and most have 3"),
        ({"5": ["<a_1>", "<c_2>", "<b_3>"]}, "item '5': ['<a_1>', '<c_2>', '<b_3>'] is no semantic ID"),
        ({"6": ["1", "2", "3"]}, "item '6': ['1', '2', '3'] is no semantic ID"),
        ({"7": ["<a_-1>", "<b_1>", "<c_1>"]}, "item '7'"),
        ({"999": ["<a_1>", "<b_1>", "<c_1>"]}, "it names 211 items, and the catalogue has 210"),
    ],
)
def test_what_is_wrong_with_an_index_is_said_with_its_item(
    dataset: Dataset, tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(DataFault) as raised:
        table_of(tmp_path / "i.json", dataset, json.dumps(TOKENS | change))
    assert said in str(raised.value)
    assert raised.value.where == str(tmp_path / "i.json")
    assert raised.value.hint


def test_an_item_that_stands_twice_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    text = json.dumps(TOKENS)
    with pytest.raises(DataFault, match="1 names stand twice, '3' among them"):
        table_of(tmp_path / "i.json", dataset, f'{text[:-1]}, "3": ["<a_1>", "<b_1>", "<c_1>"]}}')


def test_items_with_one_id_are_told_apart_or_stay_together(dataset: Dataset, tmp_path: Path) -> None:
    text = json.dumps(TOKENS | {"9": TOKENS["8"]})
    told = table_of(tmp_path / "i.json", dataset, text)
    assert told.codes[8:10].tolist() == [[0, 8, 1, 0], [0, 8, 1, 1]]
    assert (told.levels, told.quantised_levels) == (4, 3)
    assert (
        table_of(tmp_path / "i.json", dataset, text, collision_token=False).codes[8:10, :].tolist() == [[0, 8, 1]] * 2
    )
    assert table_of(tmp_path / "i.json", dataset, json.dumps(TOKENS)).levels == 3, "nothing to tell apart"


def stages(index: Path | None, **fields: Any) -> tuple[Stage, Stage]:
    """SIDs and original of a request."""
    _, sids, original, _ = recommender_stages(
        resolve(RunRequest(task="world-item", method="original", sids=index, **fields))
    )
    return sids, original


def test_the_content_of_the_index_is_in_the_keys_and_nothing_else_about_it(index: Path, tmp_path: Path) -> None:
    sids, original = stages(index)
    copy = tmp_path / "elsewhere.json"
    copy.write_bytes(index.read_bytes())
    assert stages(copy)[1].key == original.key
    assert stages(index, seed=1)[0].key == stages(index, backbone="letter")[0].key == sids.key
    assert "sasrec" not in stages(index, backbone="letter")[1].inputs
    copy.write_text(json.dumps(TOKENS | {"0": ["<a_0>", "<b_0>", "<c_6>"]}))
    assert stages(copy)[1].key != original.key
    assert stages(None)[0].key != sids.key
    # A path is outside every key; the digest is what tells two blocks of results apart.
    config = resolve(RunRequest(task="world-item", method="original", sids=index)).sid_config
    assert len(config.model_dump()["index"]) == 64
    assert "index" not in SidConfig().model_dump()


@pytest.mark.parametrize(
    ("fields", "fault", "said"),
    [
        ({"backbone": "p5sid"}, CapabilityMissing, "takes none from a file"),
        ({"backbone": "etegrec"}, CapabilityMissing, "takes none from a file"),
        ({"method": "retrain-full"}, CapabilityMissing, "makes semantic IDs anew"),
        ({"method": "tracer"}, CapabilityMissing, "has_codebooks"),
        ({"sids": Path("nowhere.json")}, DataMissing, "No such file"),
        ({"sid_set": {"index": "0" * 64}}, UsageError, "another content than the one recorded"),
        ({"sids": None, "sid_set": {"index": "0" * 64}}, UsageError, "came from an index file"),
    ],
)
def test_what_cannot_be_run_on_an_index_is_said_before_any_work(
    index: Path, fields: dict[str, Any], fault: type[BenchError], said: str
) -> None:
    with pytest.raises(fault, match=said):
        resolve(RunRequest(**{"task": "world-item", "method": "original", "sids": index, **fields}))


def test_the_command_that_an_import_prints_runs_and_is_repeated(tmp_path: Path) -> None:
    index = write_world(tmp_path / "my world")
    told = CliRunner().invoke(app, ["data", "import", str(index.parent), "--name", "mine", "--format", "letter"])
    words = shlex.split(told.stdout.partition("Try: bench ")[2].partition("\n")[0])
    assert words[-2:] == ["--sids", str(index)]
    places = ["--results-dir", str(tmp_path / "results"), "--cache-dir", str(tmp_path / "cache")]
    quick = [word for name, value in TINY.items() for word in ("--set-backbone", f"{name}={value}")]
    more = ["--scale", "smoke", "--device", "cpu", "--set", "epochs=1", "--set", "hard_epochs=1", "--json"]
    done = CliRunner().invoke(app, [*words, *places, *quick, *more])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)[-1]["record"]
    assert f"--sids {shlex.quote(str(index))}" in record["command"]
    similar = [one["value"] for one in record["metrics"] if one["metric"].startswith("similarity")]
    assert similar
    assert set(similar) == {None}, "without texts nothing is similar, rather than all"

    (stored,) = (tmp_path / "cache" / "stages" / "sids").glob("*/*/sids.json")
    expected = [[int(token[3:-1]) for token in TOKENS[str(item)]] for item in range(ITEMS)]
    np.testing.assert_array_equal(load_table(stored.parent).codes, expected)

    folder = str(next((tmp_path / "results").rglob("tracer*/*/result.json")).parent)
    again = ["submission", "reproduce", folder, "--cache-dir", str(tmp_path / "cache")]
    lacking = CliRunner().invoke(app, again)
    assert (lacking.exit_code, "say where it lies: --sids" in lacking.output) == (2, True)
    repeated = CliRunner().invoke(app, [*again, "--sids", str(index)])
    assert "the record holds" in repeated.stdout, repeated.output


def test_without_texts_and_index_a_tokenizer_says_what_there_is_instead(
    tmp_path: Path, bench_at: Callable[[str], Bench]
) -> None:
    index = write_world(tmp_path / "world")
    index.unlink()
    told = CliRunner().invoke(app, ["data", "import", str(index.parent), "--name", "world", "--format", "letter"])
    assert "bench run --task world-item --method tracer --backbone etegrec" in told.stdout
    with pytest.raises(DataFault, match="no texts that semantic IDs") as raised:
        bench_at("b").run("original", task="world-item", scale="smoke")
    assert "--sids" in str(raised.value.hint)
    with pytest.raises(DataFault, match="no texts that distances"):
        surrogate_codebooks(from_index(np.zeros((4, 2), dtype=np.int64)), np.zeros((4, 1), dtype=np.float32))


def test_a_grid_names_its_index_beside_itself(index: Path) -> None:
    place = index.parent / "grid.yaml"
    place.write_text(
        "name: g\naxes: {task: world-item, method: original}\nsettings: {sids: World.index.json}\n", encoding="utf-8"
    )
    (cell,) = expand(read_grid(str(place)), data_dir=None, results_dir=place, tuned_dir=place, device=None)
    assert cell.request.sids == index


def test_no_earlier_run_stands_for_other_files(index: Path, tmp_path: Path) -> None:
    """Task, dataset's specification, semantic IDs: a change of either is a change of the run."""
    task = tmp_path / "mine.yaml"
    task.write_text("name: mine\ndataset: world\ntitle: Mine\nconcept: {kind: item, target_share: 0.1}\n")
    folder = tmp_path / "results" / "a-run"
    shutil.copytree(next(PUBLISHED.glob("demo-brand/tiger/original/*")), folder)
    request = RunRequest(task=str(task), method="original", sids=index, results_dir=tmp_path / "results")
    store = StageStore(tmp_path / "cache")
    remember_finished(request, store, FinishedRun(read_record(folder), folder))
    assert find_finished(request, store) is not None
    (spec,) = tmp_path.rglob("dataset.yaml")
    for path, old, new in (
        (task, "0.1", "0.2"),
        (spec, "split: leave-one-out", "k_core: 3\nsplit: leave-one-out"),
        (index, "<a_1>", "<a_77>"),
    ):
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new, 1))
        assert find_finished(request, store) is None, path
        path.write_text(text)
