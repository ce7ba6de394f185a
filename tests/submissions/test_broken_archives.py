"""Archives that were damaged anywhere: unpacked or refused, and never a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from genrec_unlearn_bench.submissions.bundle import pack, unpack
from genrec_unlearn_bench.submissions.plain_text import Refused


def damaged(content: bytes) -> Iterator[bytes]:
    """Every bit turned, and every length cut to."""
    for place, byte in enumerate(content):
        for bit in range(8):
            yield content[:place] + bytes([byte ^ (1 << bit)]) + content[place + 1 :]
        yield content[:place]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mine", "m\u00e9thode"])
def test_every_bit_and_every_length(tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    (folder / "result.json").write_text('{"a": 1}' * 20)
    (folder / "notes.csv").write_text("x,y\n1,2\n")
    whole, broken = tmp_path / "whole.zip", tmp_path / "broken.zip"
    pack(folder, whole)
    refused = 0
    for number, content in enumerate(damaged(whole.read_bytes())):
        broken.write_bytes(content)
        target = tmp_path / str(number)
        target.mkdir()
        try:
            unpack(broken, target)
        except Refused:
            refused += 1
    assert refused > 1000
