"""Downloads side by side: the parts of one are made while those of another, in the same folder, are cleared away."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.submissions.pull.bringing import bring_files, clear


class Nothing:
    """A place that nothing is brought from."""

    index: Any = None

    def bring(self, *_: Any) -> None:
        raise AssertionError("there is no file to bring")


def again_and_again(top: Path, number: int) -> int:
    """Makes and clears folders that share all their parents with those of others; returns how often."""
    for turn in range(400):
        parts = top / "task" / "backbone" / "method" / f"{number}-{turn}"
        bring_files(Nothing(), "here", {}, top.parent / "draft", parts)
        assert parts.is_dir()
        clear(parts, top)
    return 400


def test_clearing_up_behind_one_download_does_not_stop_another(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        turns = [pool.submit(again_and_again, tmp_path / "parts", number) for number in range(4)]
        assert sum(turn.result() for turn in turns) == 1600
    assert not (tmp_path / "parts").exists(), "the last one clears the folder they shared"


def test_a_parent_that_goes_away_while_a_folder_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mkdir: Callable[..., None] = Path.mkdir
    gone: list[Path] = []

    def taken_away(path: Path, *words: Any, **more: Any) -> None:
        if path.name == "result" and len(gone) < 3:
            gone.append(path)
            raise FileNotFoundError(path)
        mkdir(path, *words, **more)

    monkeypatch.setattr(Path, "mkdir", taken_away)
    bring_files(Nothing(), "here", {}, tmp_path / "draft", tmp_path / "parts" / "method" / "result")
    assert (tmp_path / "parts" / "method" / "result").is_dir()
    assert len(gone) == 3
