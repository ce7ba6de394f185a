"""Progress as rare lines or bars that go away; errors as a message and a stable exit code."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator
from itertools import pairwise

import pytest
import typer
from rich.console import Console
from rich.progress import Progress as RichBars
from rich.table import Table

from genrec_unlearn_bench import progress_display
from genrec_unlearn_bench.cli.command import Output, as_command, card, describe, print_json, sheet, stdout
from genrec_unlearn_bench.errors import BenchError, ConfigError, DataMissing, ProtocolMismatch, UnknownName
from genrec_unlearn_bench.progress_display import BarProgress, LineProgress, duration, print_line, progressing


class Clock:
    """Stands in for the monotonic clock."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_lines_are_rare_and_rarer_the_longer_it_takes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress_display, "time", clock)
    passed = []
    for part in LineProgress().track("train", range(1000), total=1000):
        passed.append(part)
        clock.now += 1.0
    lines = capsys.readouterr().err.splitlines()
    assert passed == list(range(1000))
    assert lines[0] == "  train: 5/1000 (0%), 5 s, 17 min left"
    assert lines[-1].endswith(" left")
    steps = [int(line.split()[1].partition("/")[0]) for line in lines]
    gaps = [later - earlier for earlier, later in pairwise(steps)]
    assert min(gaps) >= 5
    assert gaps[-1] > 100
    assert len(lines) < 30, "a loop of a thousand seconds is a page of lines at most"


def test_a_quick_loop_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(LineProgress().track("quick", iter("abc"))) == ["a", "b", "c"]
    assert capsys.readouterr().err == ""


@pytest.fixture
def bars() -> Iterator[BarProgress]:
    with RichBars(console=Console(stderr=True), transient=True) as shown:
        yield BarProgress(shown)


def test_bars_nest_and_go_away(bars: BarProgress, capsys: pytest.CaptureFixture[str]) -> None:
    seen = [(outer, inner) for outer in bars.track("outer", range(2)) for inner in bars.track("inner", "ab")]
    assert seen == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert bars._bars.tasks == []
    bars.info("[red] is text, not markup")
    assert "[red] is text, not markup" in capsys.readouterr().err


def test_bars_go_away_when_the_loop_fails(bars: BarProgress) -> None:
    def fails() -> None:
        for _ in bars.track("fails", range(3)):
            raise ValueError("fails")

    with pytest.raises(ValueError, match="fails"):
        fails()
    assert bars._bars.tasks == []


def test_piped_output_gets_lines() -> None:
    with progressing() as progress:
        assert isinstance(progress, LineProgress)


def test_brackets_in_what_is_printed_are_text(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_row("pip install 'genrec-unlearn-bench[minilm]'")
    stdout().print(table)
    stdout().print("a [title]", style="bold")
    assert "[minilm]" in (printed := capsys.readouterr().out)
    assert "a [title]" in printed


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0 s"), (99.4, "99 s"), (100, "2 min"), (7200, "2.0 h")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


EVIL = "a\x1b[31m\u202eb\x9b"


def test_control_and_bidi_characters_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table()
    table.add_row(EVIL)
    stdout().print(table)
    stdout().print(EVIL, soft_wrap=True)
    print_line(f"{EVIL}\nnext")
    LineProgress().info(EVIL)
    BarProgress(RichBars(console=Console(stderr=True))).info(EVIL)
    card(EVIL, {}, EVIL, sheets=[sheet([[EVIL]])]).show(as_json=False)
    found = capsys.readouterr()
    assert not any(char in found.out + found.err for char in "\x1b\u202e\x9b")
    assert "a\\x1b[31m\\u202eb\\x9b\nnext\n" in found.out
    print_json({EVIL: [EVIL]})
    text = capsys.readouterr().out
    assert text.isprintable() or set(text) - {"\n"} == {char for char in text if char.isprintable()}
    assert json.loads(text) == {EVIL: [EVIL]}


CASES: list[tuple[BaseException, int, str]] = [
    (
        BenchError("a cell failed", where="here", hint="try again"),
        1,
        "error: a cell failed\n  where: here\n  hint:  try",
    ),
    (UnknownName("task", "demo-brnd", ["demo-brand"]), 2, "did you mean demo-brand?"),
    (UnknownName("method", "?", map(str, range(20))), 2, "see `bench ls methods`"),
    (UnknownName("row", "?", map(str, range(20))), 2, "known: 0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 2, 3"),
    (UnknownName("cell", "?", map(str, range(100, 200))), 2, "138, 139 … and 60 more"),
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
    (SystemError("error return without exception set"), 1, "memory is exhausted"),
    (ImportError("libtorch.so: failed to map segment from shared object"), 1, "memory is exhausted"),
    (RecursionError("maximum recursion depth exceeded"), 1, "nested too deeply"),
    (RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"), 1, "memory is exhausted: CUDA out of memory"),
    (ValueError("a fault of ours\nwith details"), 1, "ValueError: a fault of ours"),
]


@pytest.mark.parametrize(("fault", "code", "words"), CASES)
def test_faults_become_words_and_a_code(
    fault: BaseException, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @as_command
    def verb() -> None:
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
    @as_command
    def verb() -> None:
        raise ZeroDivisionError("division by zero")

    with pytest.raises(typer.Exit):
        verb()
    told = capsys.readouterr().err
    assert "test_console.py:" in told
    assert "--debug" in told
    assert "fault of the suite" in told


def test_output_is_shown_and_ends_with_its_code(capsys: pytest.CaptureFixture[str]) -> None:
    @as_command
    def verb(code: int) -> Output:
        return Output({"code": code}, ["done"], code, ["a fault"])

    verb(code=0)
    assert capsys.readouterr() == ("done\n", "a fault\n")
    with pytest.raises(typer.Exit) as end:
        verb(code=3, as_json=True)
    assert end.value.exit_code == 3
    assert json.loads(capsys.readouterr().out) == {"code": 3}


def test_a_list_of_mappings_is_a_table_of_all_their_fields() -> None:
    (table,) = describe({"vary": [{"where": "npo", "fields": 1}, {"fields": 2, "plain": True}]})
    assert [str(column.header) for column in table.columns] == ["where", "fields", "plain"]
    assert [[*column.cells] for column in table.columns] == [["npo", "–"], ["1", "2"], ["–", "True"]]
