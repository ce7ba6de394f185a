"""The verbs from outside: help, lists, cards, and faults that are told in words with a stable exit code."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.registry import REFERENCE_ROWS


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_OFFLINE", "1")
    monkeypatch.delenv("GENREC_UNLEARN_BENCH_DATA", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def told(result: Result, code: int) -> str:
    """stderr of a call that failed in an orderly way."""
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    assert not isinstance(result.exception, Exception) or isinstance(result.exception, SystemExit)
    return result.stderr


@pytest.mark.parametrize("kind", ["tasks", "methods", "backbones", "datasets", "metrics", "grids", "task"])
def test_lists_read_as_json_and_as_tables(kind: str) -> None:
    records = json.loads(bench("ls", kind, "--json").stdout)
    assert records
    names = {record["name"] for record in records}
    table = bench("ls", kind).stdout
    assert all(name in table for name in names)


def test_the_overview_counts_every_kind() -> None:
    found = json.loads(bench("ls", "--json").stdout)
    assert set(found) == {"tasks", "methods", "backbones", "datasets", "measurements", "metrics", "grids"}
    assert set(REFERENCE_ROWS) <= set(found["methods"])
    assert {"demo-brand", "demo-price", "demo-item", "demo-interaction"} <= set(found["tasks"])
    assert f"tasks ({len(found['tasks'])})" in bench("ls").stdout


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("ls", "metods"), "did you mean methods"),
        (("show", "demo-brnd"), "did you mean demo-brand"),
        (("show", "tracre"), "did you mean tracer"),
        (("run", "--task", "demo-brnd", "--method", "tracer"), "did you mean demo-brand"),
        (("run", "--task", "demo-brand", "--method", "tracre"), "did you mean tracer"),
        (("run", "--task", "demo-brand", "--method", "tracer", "--backbone", "tigr"), "did you mean tiger"),
        (("run", "--task", "demo-brand", "--method", "tracer", "--scale", "smal"), "did you mean small"),
        (("run", "--task", "demo-brand", "--method", "tracer", "--suite", "cor"), "did you mean core"),
        (("run", "--task", "demo-brand", "--method", "tracer", "--encoder", "tfidff"), "did you mean tfidf"),
        (("run", "--task", "demo-brand", "--method", "tracer", "--device", "abacus"), "unknown device 'abacus'"),
        (("run", "--task", "demo-brand", "--method", "absent.py:Mine"), "no method file 'absent.py'"),
        (("data", "prepare", "dem"), "did you mean demo"),
        (("data", "import", "nowhere", "--name", "mine"), "no such folder"),
        (("data", "import", "nowhere", "--name", "mine", "--format", "foldr"), "did you mean folder"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_wrong_name_is_exit_code_2_with_the_nearest_one(words: tuple[str, ...], expected: str) -> None:
    assert expected in told(bench(*words), 2)


def test_all_faults_of_a_configuration_are_told_at_once() -> None:
    message = told(
        bench(
            *("run", "--task", "demo-brand", "--method", "tracer"),
            *("--set", "learning_rat=1", "--set", "lr=fast", "--set", "epochs=-1"),
        ),
        2,
    )
    assert "learning_rat: unknown key" in message
    assert "lr: " in message
    assert "epochs: " in message
    assert "--set" in message


def test_presets_are_overridden_by_dotted_names_or_refused() -> None:
    message = told(bench("run", "--task", "demo-brand", "--method", "tracer", "--set-backbone", "training.epoch=3"), 2)
    assert "training.epoch: unknown key; did you mean" in message
    message = told(bench("run", "--task", "demo-brand", "--method", "tracer", "--set-sid", "codes=1"), 2)
    assert "codes" in message
    assert "--set-sid" in message


def test_settings_of_a_reference_row_and_of_two_methods_are_refused() -> None:
    message = told(bench("run", "--task", "demo-brand", "--method", "retrain", "--set", "lr=1"), 2)
    assert "one method's configuration" in message
    message = told(bench("run", "--task", "demo-brand", "--method", "tracer,filter", "--set", "lr=1"), 2)
    assert "one method's configuration" in message


def test_missing_data_says_which_files_where_from_and_where_to() -> None:
    message = told(bench("run", "--task", "sports-brand", "--method", "tracer"), 2)
    assert "Sports_and_Outdoors" in message
    assert "http" in message, "where to get them"
    assert "--data-dir" in message, "where to put them"
    assert "demo-brand" in message, "what works without them"
    assert not Path("results").exists()


def test_debug_shows_the_traceback() -> None:
    result = bench("run", "--task", "demo-brnd", "--method", "tracer", "--debug")
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "did you mean demo-brand" in result.stderr


@pytest.mark.parametrize("name", ["demo-brand", "tracer", "retrain", "demo", "sports", "tiger", "hr@10"])
def test_cards_read_as_json_and_as_tables(name: str) -> None:
    assert name in bench("show", name).stdout
    content = json.loads(bench("show", name, "--json").stdout)
    assert content["kind"] in ("task", "method", "reference", "dataset", "backbone", "metric")


def test_a_task_at_hand_shows_what_it_resolves_to() -> None:
    content = json.loads(bench("show", "demo-brand", "--json").stdout)
    manifest = content["manifest"]
    assert manifest["counts"]["train_forget"] > 0
    assert abs(manifest["train_share"] - 0.1) <= 0.011
    assert manifest["digest"] in bench("show", "demo-brand").stdout


def test_a_method_shows_every_field_with_its_meaning() -> None:
    content = json.loads(bench("show", "tracer", "--json").stdout)
    assert all(field["doc"] for field in content["config"]), "every field is documented"
    assert {"lr", "hard_epochs", "mask"} <= {field["name"] for field in content["config"]}


def test_data_prepare_says_what_is_in_a_dataset_and_keeps_it() -> None:
    first = json.loads(bench("data", "prepare", "demo", "--json").stdout)
    assert first["items"] > 100
    again = bench("data", "info", "demo")
    assert first["digest"] in again.stdout
    assert "from the cache" in again.stderr


def test_a_folder_of_ones_own_becomes_a_dataset_with_tasks(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    rows = [{"item_id": f"i{n}", "title": f"thing {n}", "brand": f"brand {n % 20}"} for n in range(60)]
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [f"u{n % 30}\ti{(n * 7 + n // 30) % 60}\t{n}\n" for n in range(600)]
    (folder / "interactions.tsv").write_text("user\titem\ttimestamp\n" + "".join(lines))
    result = bench("data", "import", str(folder), "--name", "shop")
    assert result.exit_code == 0, result.output
    assert "bench run --task shop-brand" in result.stdout
    shown = json.loads(bench("show", "shop-brand", "--data-dir", str(folder), "--json").stdout)
    assert shown["manifest"]["dataset"] == "shop"
    assert "shop" in bench("ls", "datasets", "--data-dir", str(folder)).stdout


def test_broken_input_is_told_with_its_line(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    folder.mkdir()
    (folder / "items.jsonl").write_text('{"item_id": "a"}\n{"item_id": \n')
    (folder / "interactions.tsv").write_text("user\titem\ttimestamp\nu\ta\t1\n")
    result = bench("data", "import", str(folder), "--name", "shop")
    assert result.exit_code in (1, 2)
    assert "items.jsonl" in result.stderr
    assert "Traceback" not in result.output
    assert not (folder / "dataset.yaml").exists()


def test_doctor_looks_and_changes_nothing(tmp_path: Path) -> None:
    result = bench("doctor", "--json")
    found = {finding["subject"]: finding for finding in json.loads(result.stdout)}
    assert result.exit_code == 0, result.output
    assert found["torch"]["state"] == "ok"
    assert found["data demo"]["state"] == "ok"
    assert found["data sports"]["state"] == "note"
    assert "hub" not in found, "the network is asked only when told to"
    assert not (tmp_path / "cache").exists()


def test_doctor_passes_over_what_a_running_job_removes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draft, look = tmp_path / "cache" / "stages" / ".draft-0", os.scandir
    (draft / "model").mkdir(parents=True)

    def moved(place: Any) -> Any:
        found = look(place)
        if str(place) == str(draft):
            draft.rename(tmp_path / "stored")
        return found

    monkeypatch.setattr(os, "scandir", moved)
    assert bench("doctor", "--json").exit_code == 0
    assert (tmp_path / "stored").is_dir()
