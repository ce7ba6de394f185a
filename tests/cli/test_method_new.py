"""``bench method new``: two files that pass, names that will do, nothing overwritten."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.contract import new_method as scaffold
from genrec_unlearn_bench.registry import find_method

ROOT = Path(__file__).parents[2]


def new(*words: str) -> Result:
    return CliRunner().invoke(app, ["method", "new", *words])


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Something that looks like a clone of the suite."""
    root = tmp_path / "clone"
    (root / "tests" / "methods").mkdir(parents=True)
    # Its rules about tests hold for folders below the file.
    shutil.copy(ROOT / "pyproject.toml", root)
    monkeypatch.setattr(scaffold, "clone_root", lambda: root)
    return root


def clean(*paths: Path, house: Path | None = None) -> None:
    """Neither ruff nor ruff format has anything to say, under the house's rules or, elsewhere, its usual ones."""
    call = [str(Path(sys.executable).with_name("ruff"))]
    rules = [] if house else ["--isolated"]
    chosen = [] if house else ["--select", "E,F,I,B,UP,SIM,RUF", "--ignore", "RUF002"]
    for words in (["check", *rules, *chosen], ["format", "--check", *rules]):
        done = subprocess.run([*call, *words, *map(str, paths)], capture_output=True, text=True, check=False, cwd=house)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", ["my-method", "x", "a-method-with-a-long-name"[:24]])
def test_elsewhere_both_files_go_into_the_folder(tmp_path: Path, name: str) -> None:
    done = new(name)
    assert done.exit_code == 0, done.output
    module = name.replace("-", "_")
    method, test = tmp_path / f"{module}.py", tmp_path / f"test_{module}.py"
    clean(method, test)
    entry = find_method(str(method))
    assert entry.name == name
    assert f"bench method check {module}.py" in done.stdout


def test_a_folder_may_be_named_and_is_made(tmp_path: Path) -> None:
    done = new("my-method", "--out", "a/b", "--json")
    assert json.loads(done.stdout) == {
        "method": "a/b/my_method.py",
        "test": "a/b/test_my_method.py",
        "option": "a/b/my_method.py",
    }
    assert (tmp_path / "a/b/test_my_method.py").is_file()


def test_in_a_clone_they_go_where_such_files_are(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    done = new("my-method", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["option"] == "my-method"
    method, test = clone / "methods/my_method.py", clone / "tests/methods/test_my_method.py"
    assert [Path(found[part]) for part in ("method", "test")] == [method, test]
    clean(method, test, house=clone)
    # What tests share in the clone is not written again.
    assert "pytest.fixture" not in test.read_text(encoding="utf-8")
    assert "from genrec_unlearn_bench.methods.my_method import" in test.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_types_hold(clone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone)
    new("my-method")
    call = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*call, str(clone / "methods/my_method.py")], capture_output=True, text=True, check=False, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout


def test_the_clone_is_found_from_inside_it_alone(clone: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(clone / "tests")
    assert json.loads(new("one", "--json").stdout)["option"] == "one"
    monkeypatch.chdir(tmp_path)
    assert json.loads(new("two", "--json").stdout)["option"] == "two.py"


def test_this_repository_is_a_clone() -> None:
    assert scaffold.clone_root() == ROOT


@pytest.mark.parametrize("words", [["my-method"], ["my-method", "--out", "."]])
def test_nothing_is_overwritten(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "test_my_method.py").write_text("mine", encoding="utf-8")
    done = new(*words)
    assert done.exit_code == 2
    assert "nothing is overwritten" in done.output
    assert not (tmp_path / "my_method.py").exists()
    assert (tmp_path / "test_my_method.py").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MyMethod", "for example my-method"),
        ("my_method", "for example my-method"),
        ("my--method", "for example my-method"),
        ("../mine", "for example mine"),
        ("1st", "small letters, digits and single hyphens"),
        ("Méthode", "small letters"),
        ("a" * 25, "has 25 characters"),
        ("tracer", "there is a method 'tracer' already"),
        ("tracer-no-mask", "already"),
        ("retrain", "already"),
        ("class", "class.py would hide"),
        ("match", "match.py would hide"),
        ("random", "random.py would hide an installed module"),
        ("torch", "torch.py would hide an installed module"),
        ("recommender", "which the file imports"),
        ("unlearning-method", "which the file imports"),
        ("descent", "which the file imports"),
    ],
)
def test_names_that_will_not_do(tmp_path: Path, name: str, said: str) -> None:
    done = new(name)
    assert done.exit_code == 2
    assert said in done.output
    assert list(tmp_path.iterdir()) == []
