"""The table of a stream: a row a request, narrow enough, a dash for what was not measured."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.cli.run import stream_rows, stream_table
from genrec_unlearn_bench.pipeline.record import Cell, RunRecord
from tests.cli.test_run import words
from tests.pipeline.stream_world import COLUMNS

ROWS = [
    [
        *(1, "Acme; Bolt & Co", 2, 9, 1234, 0.25, 0.75, 0.25, 0.75, None, None, 0.3125, 0.175),
        *(1234.56, 1234.56, None, 40, 40, 0, 1091),
    ],
    [
        *(2, "Cargo", 1, 4, 98, 0.0, 0.5, 0.125, 0.625, 0.5, 0.875, 0.3, 0.17),
        *(2.04, 1236.6, 12.345, 42, 82, 40, 1091),
    ],
]


def finished(folder: Path, record_of: Callable[..., RunRecord], method: str, **cell: Any) -> tuple[RunRecord, Path]:
    place = folder / f"{method}-{cell.get('seed', 0)}"
    (place / "measurements").mkdir(parents=True)
    pd.DataFrame(ROWS, columns=list(COLUMNS)).to_csv(place / "measurements" / "stream.csv", index=False)
    fields = {"task": "demo-brand", "backbone": "tiger", "seed": 0, "scale": "smoke", "suite": "core", "requests": 2}
    return record_of(method, cell=Cell(method=method, **(fields | cell))), place


def drawn(done: list[Any]) -> list[str]:
    out = io.StringIO()
    table = stream_table(done)
    assert table is not None
    Console(file=out, width=120).print(table)
    return out.getvalue().splitlines()


def test_every_request_has_its_row_in_120_columns(tmp_path: Path, record_of: Callable[..., RunRecord]) -> None:
    lines = drawn([finished(tmp_path, record_of, "tracer-no-regulariser"), finished(tmp_path, record_of, "npo")])
    assert lines[0].split(" · ")[-1].strip() == "2 requests, one after the other"
    assert max(map(len, lines)) <= 120
    assert not any("…" in line for line in lines)
    [first] = [line.split() for line in lines if "tracer-no-regulariser" in line]
    assert " ".join(first) == "tracer-no-regulariser 1 1234 .2500 .7500 .2500 .7500 – – .1750 1234.6 –"
    second = [" ".join(line.split()) for line in lines if line.split()[:2] == ["2", "98"]]
    assert second == ["2 98 .0000 .5000 .1250 .6250 .5000 .8750 .1700 2.0 12.35"] * 2


def test_seeds_and_backbones_are_told_apart(tmp_path: Path, record_of: Callable[..., RunRecord]) -> None:
    lines = drawn([finished(tmp_path, record_of, "npo", seed=seed) for seed in (0, 1)])
    assert [line.split()[:3] for line in lines if "npo" in line] == [["npo", "seed", "0"], ["npo", "seed", "1"]]


def test_nothing_is_shown_where_nothing_was_a_stream(tmp_path: Path, record_of: Callable[..., RunRecord]) -> None:
    assert stream_table([(record_of("npo"), tmp_path)]) is None
    assert stream_rows(tmp_path) == []


def test_rows_are_plain_values(tmp_path: Path, record_of: Callable[..., RunRecord]) -> None:
    rows = stream_rows(finished(tmp_path, record_of, "npo")[1])
    assert [list(row.values()) for row in rows] == ROWS
    assert all(list(row) == list(COLUMNS) for row in rows)
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stream")


@pytest.mark.slow
def test_the_command_shows_it_and_json_carries_it(root: Path) -> None:
    asked = words(root, "filter", "--oracle-seeds", "0")
    shown = CliRunner().invoke(app, [*asked, "--requests", "2"])
    assert shown.exit_code == 0, shown.output
    assert "2 requests, one after the other" in shown.stdout
    assert "beam 10 · 2 requests" in shown.stdout
    told = CliRunner().invoke(app, [*asked, "--requests", "2", "--json"])
    documents = json.loads(told.stdout)
    assert [document["record"]["cell"]["method"] for document in documents] == ["original", "filter"]
    for document in documents:
        assert [row["request"] for row in document["stream"]] == [1, 2]
        assert document["record"]["cell"]["requests"] == 2
        assert "--requests 2" in document["record"]["command"]


def test_too_many_requests_end_with_the_number_there_is(root: Path) -> None:
    refused = CliRunner().invoke(app, words(root, "filter", "--requests", "3"))
    assert refused.exit_code == 2
    assert "has 2 brands with train interactions" in refused.stderr
    assert "--requests 2 at most" in refused.stderr
