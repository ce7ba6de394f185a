"""Faults: every kind becomes words and a stable exit code; nothing but --debug shows a traceback."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
import typer

from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataMissing, ProtocolMismatch, UnknownName
from genrec_unlearn_bench.registry import find_method, load_class
from genrec_unlearn_bench.unlearning.method import UnlearningMethod

CASES: list[tuple[BaseException, int, str]] = [
    (
        BenchError("a cell failed", where="here", hint="try again"),
        1,
        "error: a cell failed\n  where: here\n  hint:  try",
    ),
    (UnknownName("task", "demo-brnd", ["demo-brand"]), 2, "did you mean demo-brand?"),
    (ConfigError(["lr: too large", "epochs: too small"]), 2, "- lr: too large\n  - epochs: too small"),
    (DataMissing("files are not there"), 2, "files are not there"),
    (ProtocolMismatch("two versions"), 3, "two versions"),
    (KeyboardInterrupt(), 130, "run the same command again to go on where it stopped"),
    (OSError(errno.ENOSPC, "No space left on device", "/cache/x"), 1, "the disk is full\n  where: /cache/x"),
    (PermissionError(errno.EACCES, "Permission denied", "/cache/x"), 1, "no permission\n  where: /cache/x"),
    (OSError(errno.ELOOP, "Too many levels of symbolic links", "/x"), 1, "a symbolic link leads back to itself"),
    (RuntimeError("Symlink loop from '/x'"), 1, "a symbolic link leads back to itself\n  where: /x\n"),
    (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 300), 1, "a name in the path is too long"),
    (OSError(errno.EISDIR, "Is a directory", "/x"), 1, "the system refuses a file: Is a directory\n  where: /x\n"),
    (MemoryError(), 1, "memory is exhausted"),
    (OSError(errno.ENOMEM, "Cannot allocate memory"), 1, "memory is exhausted"),
    (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), 1, "memory is exhausted"),
    (ImportError("libtorch.so: failed to map segment from shared object"), 1, "memory is exhausted"),
    (RecursionError("maximum recursion depth exceeded"), 1, "nested too deeply"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), 1, "memory is exhausted: CUDA out of memory"),
    (ValueError("a fault of ours\nwith details"), 1, "ValueError: a fault of ours"),
]


@pytest.mark.parametrize(("fault", "code", "words"), CASES)
def test_faults_become_words_and_a_code(
    fault: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @handled
    def verb(debug: bool = False) -> None:
        raise fault

    with pytest.raises(typer.Exit) as end:
        verb()
    assert end.value.exit_code == code
    told = capsys.readouterr()
    assert words in told.err
    assert "Traceback" not in told.err
    assert told.out == ""
    with pytest.raises(typer.Exit):
        verb(debug=True)
    assert "Traceback" in capsys.readouterr().err


def test_an_unexpected_fault_names_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    @handled
    def verb(debug: bool = False) -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(typer.Exit):
        verb()
    told = capsys.readouterr().err
    assert "test_faults.py:" in told
    assert "--debug" in told
    assert "fault of the suite" in told


METHOD = '''"""A method with a fault."""

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Mine."""

    name = "mine"
    Config = MethodConfig

    def unlearn(self, recommender, request, progress):
        return self.helper(recommender)

    def helper(self, recommender):
        return {}[recommender]
'''


def test_an_exception_in_the_users_method_is_shown_as_the_methods(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "my_method.py"
    path.write_text(METHOD, encoding="utf-8")
    mine: Any = load_class(find_method(str(path)), UnlearningMethod)  # type: ignore[type-abstract]

    @handled
    def verb(debug: bool = False) -> None:
        mine(mine.Config()).unlearn(7, None, None)

    with pytest.raises(typer.Exit) as end:
        verb()
    assert end.value.exit_code == 1
    told = capsys.readouterr().err
    assert "the method failed: my_method.py:16 in helper: KeyError: 7\n" in told
    assert f"where: {path}:16\n" in told
    assert "fault of the suite" not in told


def test_exits_and_results_pass() -> None:
    @handled
    def verb(code: int, debug: bool = False) -> str:
        if code:
            raise typer.Exit(code)
        return "done"

    assert verb(0) == "done"
    with pytest.raises(typer.Exit) as end:
        verb(3)
    assert end.value.exit_code == 3
