"""The command line that users learn: every verb's help as it was last agreed upon, and answers to older names.

After a meant change: ``python -m tests.cli.test_help`` writes help.txt again; read its difference.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import EXAMPLES, VERBS, app
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline import cells
from genrec_unlearn_bench.pipeline.request import RunRequest

FILE = Path(__file__).with_name("help.txt")


def parameters(words: str) -> Iterator[str]:
    command = typer.main.get_command(app)
    for word in words.split():
        command = command.commands[word] if isinstance(command, TyperGroup) else command
    for parameter in command.params:
        names = "/".join([*parameter.opts, *parameter.secondary_opts])
        default = "" if parameter.default is None or callable(parameter.default) else f" = {parameter.default}"
        yield f"  {names}{default}: {getattr(parameter, 'help', None)}"


def frozen() -> str:
    """Purpose and options of every verb, without the terminal's layout."""
    command = typer.main.get_command(app)
    parts = []
    for words in VERBS:
        found = command
        for word in words.split():
            assert isinstance(found, TyperGroup)
            found = found.commands[word]
        parts.append("\n".join([f"bench {words}: {found.help}", *parameters(words)]))
    return "\n\n".join(parts) + "\n"


def test_help_is_what_was_agreed_upon() -> None:
    assert frozen() == FILE.read_text(encoding="utf-8"), __doc__


@pytest.mark.parametrize("words", VERBS)
def test_every_help_has_examples_of_its_verb(words: str) -> None:
    done = CliRunner().invoke(app, [*words.split(), "--help"])
    assert done.exit_code == 0
    assert f"$ bench {words}" in done.stdout


@pytest.mark.parametrize("words", ["", *VERBS])
def test_every_help_fits_on_one_screen(words: str) -> None:
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*words.split(), "--help"])
    lines = done.stdout.rstrip().splitlines()
    assert len(lines) <= 40
    assert all(len(line) <= 80 or line.startswith("    $ bench") for line in lines)


def test_rare_options_are_named_and_explained_on_demand() -> None:
    usual, whole = (CliRunner().invoke(app, ["run", name]).stdout for name in ("--help", "--help-all"))
    assert "--oracle-seeds" in usual
    assert "Retrained models for the gap" not in usual
    assert "Retrained models for the gap" in whole
    assert "(default: 1)" in whole


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("bench run --task demo-b", {"demo-brand"}),
        ("bench run --method tracer,np", {"tracer,npo"}),
        ("bench run --backbone lett", {"letter"}),
        ("bench leaderboard --method simn", {"simnpo", "simnpo-tofu"}),
        ("bench data sids --backbone tig", {"tiger"}),
    ],
)
def test_names_are_completed_without_torch(words: str, found: set[str]) -> None:
    program = (
        "import sys; sys.argv = ['bench']\nfrom genrec_unlearn_bench.cli.main import app\n"
        "import atexit, resource; atexit.register(lambda: print('torch' in sys.modules, 'numpy' in sys.modules, "
        "resource.getrusage(resource.RUSAGE_SELF).ru_utime, file=sys.stderr))\napp(prog_name='bench')"
    )
    env = {**os.environ, "_BENCH_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
    assert set(done.stdout.split()) == found
    assert done.stderr.split()[:2] == ["False", "False"]


def test_every_example_is_of_a_verb() -> None:
    calls = [f"{line} " for line in EXAMPLES.strip().splitlines()]
    assert all(any(line.startswith(f"bench {words} ") for words in VERBS) for line in calls)


def test_seeds_may_have_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def run_cells(requests: Sequence[RunRequest], *_: object) -> tuple[list[object], list[object]]:
        asked.extend(one.seed for one in requests)
        raise UsageError("far enough")

    monkeypatch.setattr(cells, "run_cells", run_cells)
    run = ["run", "--task", "demo-brand", "--method", "original", "--oracle-seeds", "0"]
    for words in (["--seed", "0,2", "--seed", "5"], ["--seed=0,2", "--seed=5"]):
        asked.clear()
        CliRunner().invoke(app, [*run, *words])
        assert asked == [0, 2, 5]
    assert "Invalid value for '--seed'" in CliRunner().invoke(app, [*run, "--seed", "1,x"]).stderr


def test_the_entries_are_those_of_the_specification() -> None:
    entries = ["run", "tune", "ls", "show", "data", "method", "grid", "results"]
    entries += ["leaderboard", "submission", "cache", "doctor"]
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    assert command.list_commands(typer.Context(command)) == entries


@pytest.mark.parametrize("columns", [60, 80])
@pytest.mark.parametrize("kind", ["tasks", "methods", "datasets", "metrics", "grids"])
def test_lists_break_at_words_on_narrow_terminals(kind: str, columns: int) -> None:
    narrow, wide = (
        CliRunner(env={"COLUMNS": str(width)}).invoke(app, ["ls", kind]).stdout for width in (columns, 1000)
    )
    known = {word for line in wide.splitlines() for word in line.split()}
    assert max(map(len, narrow.splitlines())) <= columns
    assert {word for line in narrow.splitlines()[3:] for word in line.split() if word.isalpha()} <= known


def test_a_comparison_says_where_it_looked_and_what_would_have_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a clone that has run the demo, and nothing else."""
    root = Path(__file__).parents[2]
    shutil.copytree(root / "leaderboard/results/demo-brand", tmp_path / "results/demo-brand", ignore=other_methods)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["results", "compare", "tracer", "npo"])
    assert done.exit_code == 2
    assert "where: results\n" in done.stderr
    assert "--published" in done.stderr


def other_methods(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if Path(folder).name == "tiger" and name not in ("original", "retrain", "tracer")]


if __name__ == "__main__":
    FILE.write_text(frozen(), encoding="utf-8")
