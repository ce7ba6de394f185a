"""What CONTRIBUTING shows of a method is what ``bench method new`` writes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from genrec_unlearn_bench.contract.new_method import new_method

GUIDE = Path(__file__).parents[2] / "CONTRIBUTING.md"


def test_the_code_in_the_guide_is_what_a_newcomer_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    written = new_method("my-method", folder=tmp_path / "mine", year=2026)
    text = written.method.read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == 1
    for block in blocks:
        assert block in text
