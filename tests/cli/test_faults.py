"""Faults: every kind becomes words and a stable exit code; nothing but --debug shows a traceback."""

from __future__ import annotations

import errno

import pytest
import typer

from genrec_unlearn_bench.cli.faults import handled
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataMissing, ProtocolMismatch, UnknownName

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
    (PermissionError(errno.EACCES, "Permission denied", "/cache/x"), 1, "no permission to write"),
    (MemoryError(), 1, "memory is exhausted"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), 1, "memory is exhausted: CUDA out of memory"),
    (ValueError("a fault of ours\nwith details"), 1, "ValueError: a fault of ours"),
]


@pytest.mark.parametrize(("fault", "code", "words"), CASES, ids=[type(case[0]).__name__ for case in CASES])
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
