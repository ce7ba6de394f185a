"""Progress: plain lines now and then, bars that go away, and every element passed on."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from rich.table import Table

from genrec_unlearn_bench.cli import console
from genrec_unlearn_bench.cli.console import (
    BarProgress,
    Card,
    LineProgress,
    Sheet,
    duration,
    print_json,
    print_line,
    progressing,
    stdout,
)


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
    monkeypatch.setattr(console, "time", clock)
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


def test_bars_nest_and_go_away(capsys: pytest.CaptureFixture[str]) -> None:
    bars = BarProgress()
    seen = [(outer, inner) for outer in bars.track("outer", range(2)) for inner in bars.track("inner", "ab")]
    assert seen == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]
    assert bars._bars is None
    bars.info("[red] is text, not markup")
    assert "[red] is text, not markup" in capsys.readouterr().err


def test_bars_go_away_when_the_loop_is_left_or_fails() -> None:
    bars = BarProgress()
    for _ in bars.track("left", range(3)):
        break
    assert bars._bars is None

    def fails() -> None:
        for _ in bars.track("fails", range(3)):
            raise ValueError("fails")

    with pytest.raises(ValueError, match="fails"):
        fails()
    bars.close()
    assert bars._bars is None


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
    BarProgress().info(EVIL)
    Card(EVIL, {}, EVIL, (Sheet("", ((EVIL,),)),)).draw(stdout())
    found = capsys.readouterr()
    assert not any(char in found.out + found.err for char in "\x1b\u202e\x9b")
    assert "a\\x1b[31m\\u202eb\\x9b\nnext\n" in found.out
    print_json({EVIL: [EVIL]})
    text = capsys.readouterr().out
    assert text.isprintable() or set(text) - {"\n"} == {char for char in text if char.isprintable()}
    assert json.loads(text) == {EVIL: [EVIL]}
