"""``bench run`` from outside: a table, results on disk, an interrupt that costs nothing, failures that stop nobody."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.pipeline.results import read_record

TINY = {
    "training.epochs": 1,
    "training.evaluations": 1,
    "training.valid_rows": 50,
    "training.batch_size": 512,
    "shape.layers": 1,
    "shape.d_model": 32,
    "shape.d_ff": 64,
    "shape.history_limit": 5,
}


def words(root: Path, method: str, *more: str, task: str = "demo-brand", **changes: object) -> list[str]:
    settings = [word for name, value in {**TINY, **changes}.items() for word in ("--set-backbone", f"{name}={value}")]
    places = ["--cache-dir", str(root / "cache"), "--results-dir", str(root / "results"), "--threads", "1"]
    return ["run", "--task", task, "--method", method, *settings, *places, *more]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("run")


def test_it_ends_with_a_table_and_says_where_the_results_are(root: Path) -> None:
    result = CliRunner().invoke(app, words(root, "filter,popularity"))
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    rows = [line.split()[0] for line in lines if line.startswith((" original", " retrain", " filter", " popularity"))]
    # Long times widen the table, which then goes on below.
    assert list(dict.fromkeys(rows)) == ["original", "retrain", "filter", "popularity"]
    folders = sorted(path.parent for path in (root / "results").rglob("result.json"))
    assert len(folders) == 4
    for folder in folders:
        assert str(folder) in result.stdout
        assert read_record(folder).cell.task == "demo-brand"
    assert "original: " in result.stderr, "progress goes to stderr"


def test_json_is_all_there_is_on_stdout_and_a_rerun_reads_the_same_results(root: Path) -> None:
    first = CliRunner().invoke(app, words(root, "filter", "--json"))
    result = CliRunner().invoke(app, words(root, "filter", "--json"))
    content = json.loads(result.stdout)
    assert [entry["record"]["cell"]["method"] for entry in content] == ["original", "retrain", "filter"]
    assert content == json.loads(first.stdout)
    assert result.stderr.count("result: from ") == 3


FAILING = """
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Failing(UnlearningMethod[MethodConfig]):
    name = "failing"

    def unlearn(self, recommender, request, progress):
        raise BenchError("it cannot be done")
"""


def test_a_method_that_fails_does_not_stop_the_others(root: Path, tmp_path: Path) -> None:
    (tmp_path / "failing.py").write_text(FAILING)
    result = CliRunner().invoke(app, words(root, f"{tmp_path / 'failing.py'}:Failing,popularity"))
    assert result.exit_code == 1
    assert " popularity " in result.stdout
    assert "it cannot be done" in result.stderr
    assert "Traceback" not in result.output


def test_a_request_that_a_method_does_not_serve_is_refused_before_any_work(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, words(tmp_path, "popularity,filter", task="demo-interaction"))
    assert result.exit_code == 2
    assert "does not serve requests of the kind 'interaction'" in result.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.slow
def test_an_interrupt_keeps_what_is_finished_and_leaves_nothing_half_done(tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("bench")),
        *words(tmp_path, "original", **{"training.epochs": 10_000}),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        # A shell's background job ignores interrupts, and so would every process that it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("sids: "):
            break
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=120)
    assert process.returncode == 130, rest
    assert "run the same command again" in rest
    assert "Traceback" not in rest
    assert out == ""
    assert not list(tmp_path.rglob(".draft-*"))
    assert not (tmp_path / "results").exists()
    result = CliRunner().invoke(app, words(tmp_path, "original", "--oracle-seeds", "0"))
    assert result.exit_code == 0, result.output
    assert "features: from the cache" in result.stderr
    assert "sids: from the cache" in result.stderr


def test_a_full_disk_is_told_and_costs_no_finished_stage(
    root: Path, tmp_path: Path, full_disk: Callable[[str], None]
) -> None:
    full_disk("result.json")
    result = CliRunner().invoke(app, words(root, "original", "--results-dir", str(tmp_path / "elsewhere")))
    assert result.exit_code == 1
    assert "the disk is full" in result.stderr
    assert "--results-dir" in result.stderr
    assert not list(tmp_path.rglob("result.json"))
    assert not list(tmp_path.rglob(".draft-*"))


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writing a file of some name meets a full disk, as the system reports it."""
    import errno

    write = Path.write_text

    def fill(name: str) -> None:
        def refuse(path: Path, *arguments: object, **options: object) -> int:
            if path.name == name:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return write(path, *arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(Path, "write_text", refuse)

    return fill


def test_options_of_one_backbone_are_refused_for_several(root: Path) -> None:
    result = CliRunner().invoke(app, [*words(root, "filter"), "--backbone", "tiger,tigger"])
    assert result.exit_code == 2
    assert "--set-backbone" in result.output
    assert "one call for each backbone" in result.output


MINE = """
import torch

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class {name}(UnlearningMethod[MethodConfig]):
    name = "{name}"

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        {line}
        return model
"""


def test_an_exception_in_ones_own_method_is_shown_where_it_was_raised(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "dividing.py"
    path.write_text(MINE.format(name="dividing", line="1 / 0"), encoding="utf-8")
    result = CliRunner().invoke(app, words(root, str(path)))
    assert result.exit_code == 1
    assert "dividing.py:12 in unlearn: ZeroDivisionError: division by zero" in result.stderr
    assert "fault of the suite" not in result.stderr


@pytest.mark.parametrize("code", [0, 3])
def test_a_method_that_ends_the_process_has_failed_and_does_not_stop_the_others(
    root: Path, tmp_path: Path, code: int
) -> None:
    path = tmp_path / "leaving.py"
    path.write_text(MINE.format(name="leaving", line=f"raise SystemExit({code})"), encoding="utf-8")
    result = CliRunner().invoke(app, words(root, f"{path},popularity"))
    assert result.exit_code == 1
    assert f"ended the process (exit code {code})" in result.stderr
    assert " popularity " in result.stdout


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (", progress)", ")", "does not take unlearn(self, recommender, request, progress)"),
        ("def unlearn(", "def unlern(", "defines no unlearn(self, recommender, request, progress)"),
        ('    name = "lacking"', '    name = "lacking"\n    Config = dict', "has a Config that is no MethodConfig"),
    ],
)
def test_what_a_class_lacks_to_be_a_method_is_said_before_any_work(
    tmp_path: Path, before: str, after: str, said: str
) -> None:
    path = tmp_path / "lacking.py"
    path.write_text(MINE.format(name="lacking", line="pass").replace(before, after), encoding="utf-8")
    result = CliRunner().invoke(app, words(tmp_path, str(path)))
    assert result.exit_code == 2
    assert f"the method 'lacking' {said}" in result.stderr
    assert not (tmp_path / "results").exists()


def test_weights_that_are_not_finite_are_a_diverged_row_and_exit_1(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "lost.py"
    line = "next(model.module.parameters()).data.fill_(float('nan'))"
    path.write_text(MINE.format(name="lost", line=line), encoding="utf-8")
    result = CliRunner().invoke(app, words(root, str(path)))
    assert "lost (diverged)" in result.stdout
    assert "diverged: tiger, lost, seed 0" in result.stderr
    assert result.exit_code == 1


def test_a_results_folder_that_cannot_be_made_is_told_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for folder, told in ((tmp_path / "file" / "results", "is a file"), (tmp_path / ("x" * 300), "too long")):
        result = CliRunner().invoke(app, [*words(tmp_path, "original"), "--results-dir", str(folder)])
        assert result.exit_code == 1
        assert told in result.stderr
        assert "--results-dir" in result.stderr
        assert not (tmp_path / "cache" / "stages").exists()


@pytest.mark.parametrize(
    ("given", "part"),
    [(["--seed", "0-4"], "0-4"), (["--seed", "0,x"], "x"), (["--seed=1,-2"], "-2"), (["--seed", "-1"], "-1")],
)
def test_what_is_no_seed_is_named_with_the_syntax(tmp_path: Path, given: list[str], part: str) -> None:
    result = CliRunner().invoke(app, words(tmp_path, "npo", *given))
    assert result.exit_code == 2
    assert f"'{part}' is no seed; whole numbers from 0 up, several with commas: --seed 0,1,2,3,4" in result.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("value", ["inf", "nan", "1e999"])
def test_a_number_that_is_not_finite_is_refused(tmp_path: Path, value: str) -> None:
    result = CliRunner().invoke(app, words(tmp_path, "npo", "--set", f"lr={value}"))
    assert result.exit_code == 2
    assert f"lr: {value} is not a finite number" in result.stderr


LIBRARIES = "import typer, typer.main, rich.console, pydantic, yaml, numpy"
HEAVY = ("torch", "transformers", "sklearn", "pandas", "scipy", "pyarrow", "matplotlib", "accelerate")
PROGRAM = """
import resource, sys
try:
    {work}
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print("MEASURED", used.ru_utime + used.ru_stime, *[name for name in {heavy} if name in sys.modules])
"""


def measured(work: str, *call: str) -> tuple[float, list[str], list[str]]:
    """Processor seconds of a fresh interpreter that does this, the heavy modules it imported, the lines it printed."""
    program = PROGRAM.format(work=work, heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", program, *call], capture_output=True, text=True, check=True)
    *lines, last = done.stdout.splitlines()
    _, seconds, *heavy = last.split()
    return float(seconds), heavy, lines


def test_a_result_that_is_there_needs_no_torch_and_few_times_its_libraries(root: Path) -> None:
    call = words(root, "filter")
    before = CliRunner().invoke(app, call)
    ours, theirs = [], []
    for _ in range(3):
        seconds, heavy, table = measured("from genrec_unlearn_bench.cli.start import run; run()", *call)
        assert heavy == []
        assert [line.split() for line in table] == [line.split() for line in before.stdout.splitlines()]
        ours.append(seconds)
        theirs.append(measured(LIBRARIES)[0])
    ratio = min(ours) / min(theirs)
    print(f"bench run, result there: {min(ours):.2f} s of processor time, {ratio:.1f} times its libraries")
    assert ratio < 5
