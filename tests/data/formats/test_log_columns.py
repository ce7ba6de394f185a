"""Logs read as columns: what the line-by-line reader reads, or nothing at all."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.data.formats import folder, log_columns
from genrec_unlearn_bench.data.formats.lines import read_lines
from genrec_unlearn_bench.data.formats.log_columns import NotPlain
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

ROWS = {"a": 0, "b": 1, "\xe9": 2, '"q"': 3}

_plain = st.sampled_from(["u1", "u2", " u1", "a", "b ", "\xe9", "\u2003u3", '"q"', "x", "1.0"])
_odd = st.sampled_from(["", " ", "\x1f", "u\rv", "\0", '"', "a\x0bb"])
_time = st.sampled_from(["1", "-7", "007", "12.0", "1e3", " 5", str(2**61), "9" * 18])
_odd_time = st.sampled_from(["", "0x10", "1.5", "+3", "1_0", str(2**63), "\u0663", "nan"])


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    strange = draw(st.booleans())
    cell = _plain | _odd if strange else _plain
    time = _time | _odd_time if strange else _time
    lines = [
        "\t".join([draw(cell), draw(cell), draw(time), *draw(st.lists(cell, max_size=1 if strange else 0))])
        for _ in range(draw(st.integers(0, 12)))
    ]
    if strange:
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(["", "  ", "\t\t", "only", "\r"])))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    return end.join(["user\titem\ttime", *lines, *draw(st.sampled_from([[], [""]]))]).encode()


def by_lines(path: Path) -> tuple[list[list[int]], int] | str:
    try:
        log, unknown = folder._by_lines(path, (0, 1, 2), ROWS, Progress())
    except DataFault as fault:
        return str(fault)
    return [log.users.tolist(), log.items.tolist(), log.times.tolist()], unknown


@given(logs(), st.integers(1, 64), st.booleans())
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_are_the_lines_or_nothing(tmp_path_factory, content: bytes, block: int, zipped: bool) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("log") / "interactions.tsv"
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_columns, "BLOCK", block)
        try:
            log, unknown = folder._by_columns(path, 1, (0, 1, 2), ROWS, Progress())
        except NotPlain:
            return
    assert by_lines(path) == ([log.users.tolist(), log.items.tolist(), log.times.tolist()], unknown)


@pytest.mark.parametrize("zipped", [False, True])
def test_an_ordinary_log_is_read_as_columns(zipped: bool, tmp_path: Path) -> None:
    content = b"".join(b"u%d\t%s\t%d\textra\n" % (n % 40, b"ab"[n % 2 : n % 2 + 1], 10**9 + n) for n in range(500))
    path = tmp_path / "interactions.tsv"
    path.write_bytes((gzip.compress if zipped else bytes)(b"\xef\xbb\xbfuser\titem\ttime\textra\r\n" + content))
    assert next(read_lines(path))[1].startswith("user")
    log, unknown = folder._by_columns(path, 1, (0, 1, 2), ROWS, Progress())
    assert by_lines(path) == ([log.users.tolist(), log.items.tolist(), log.times.tolist()], unknown)
    assert len(log) == 500
    assert log.users.dtype == log.items.dtype == log.times.dtype == np.int64


def test_a_damaged_file_is_left_to_the_line_reader(tmp_path: Path) -> None:
    path = tmp_path / "interactions.tsv"
    whole = gzip.compress(b"user\titem\ttime\n" + b"u\ta\t1\n" * 1000)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(NotPlain):
        folder._by_columns(path, 1, (0, 1, 2), ROWS, Progress())
    with pytest.raises(DataFault, match="damaged or cut-off"):
        folder._by_lines(path, (0, 1, 2), ROWS, Progress())
