"""``bench run --requests``: a stream of requests from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from tests.cli.test_run import words


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stream")


@pytest.mark.slow
def test_the_command_shows_the_whole_and_says_where_its_requests_are(root: Path) -> None:
    asked = words(root, "filter", "--oracle-seeds", "0")
    shown = CliRunner().invoke(app, [*asked, "--requests", "2"])
    assert shown.exit_code == 0, shown.output
    assert "bench leaderboard --layout streams" in shown.stdout
    assert "beam 10 · 2 requests" in shown.stdout
    told = CliRunner().invoke(app, [*asked, "--requests", "2", "--json"])
    documents = json.loads(told.stdout)
    assert [document["record"]["cell"]["method"] for document in documents] == ["original", "filter"]
    for document in documents:
        assert document["record"]["cell"]["requests"] == 2
        assert "--requests 2" in document["record"]["command"]


def test_too_many_requests_end_with_the_number_there_is(root: Path) -> None:
    refused = CliRunner().invoke(app, words(root, "filter", "--requests", "3"))
    assert refused.exit_code == 2
    assert "has 2 brands with train interactions" in refused.stderr
    assert "--requests 2 at most" in refused.stderr
