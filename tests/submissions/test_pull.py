"""Pulling published results: from a folder, an archive and a server, checked as a submission is."""

from __future__ import annotations

import functools
import http.server
import json
import shutil
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import BenchError, DataMissing, UsageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions import bundle, result_set  # noqa: F401 - read before the leaderboard is replaced
from genrec_unlearn_bench.submissions.bundle import pack
from genrec_unlearn_bench.submissions.plain_text import Refused
from genrec_unlearn_bench.submissions.publish import publish_results
from genrec_unlearn_bench.submissions.pull import pull
from tests.submissions.forging import first, on_record


@pytest.fixture(autouse=True)
def _known_tasks(leaderboard: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "SHIPPED", leaderboard)


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_results_come_from_a_folder_an_archive_and_a_server_alike(folder: Path, tmp_path: Path) -> None:
    pack(folder, tmp_path / "mine.zip")
    assert set(pull(str(folder), tmp_path / "one", Progress()).values()) == {True}
    assert len(pull(str(tmp_path / "mine.zip"), tmp_path / "two", Progress())) == 4
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}"
        pull(f"{address}/mine.zip", tmp_path / "three", Progress())
        with pytest.raises(DataMissing):
            pull(f"{address}/gone.zip", tmp_path / "four", Progress())
        server.shutdown()
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(tmp_path / "three") == tree(folder / "results")
    assert not (tmp_path / "four").exists()


def test_a_tree_of_results_is_taken_too_and_stands_in_a_table(home: Path, tmp_path: Path) -> None:
    publish_results(home / "results", tmp_path / "tree")
    own = tmp_path / "own"
    done = bench("results", "pull", str(tmp_path / "tree"), "--results-dir", str(own), "--json")
    assert done.exit_code == 0, done.output
    assert len(json.loads(done.stdout)["new"]) == 4
    assert bench("leaderboard", "--results-dir", str(own), "--format", "csv").exit_code == 0


def test_what_lies_here_is_never_written_over(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    pull(str(folder), own, Progress())
    mine = next(own.rglob("result.json"))
    mine.write_text("mine")
    assert set(pull(str(folder), own, Progress()).values()) == {False}
    assert mine.read_text() == "mine"


def test_what_would_not_pass_is_not_taken(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_record(key="../../x")(folder)
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", folder)
    monkeypatch.setattr(
        "genrec_unlearn_bench.submissions.pull.download", lambda source, path, progress: shutil.copy(packed, path)
    )
    with pytest.raises(BenchError, match="checks that fail: 1") as refusal:
        pull("https://example.org/x.zip", tmp_path / "own", Progress())
    assert (refusal.value.hint or "").startswith("download the file")
    with pytest.raises(BenchError, match="checks that fail: 1") as refusal:
        pull(str(folder), tmp_path / "own", Progress())
    assert refusal.value.hint == f"bench submission verify {folder}"
    (first(folder) / "sitecustomize.py").write_text("print('hello')")
    with pytest.raises(BenchError, match="checks that fail: 2"):
        pull(str(folder), tmp_path / "own", Progress())
    (tmp_path / "mine.zip").write_bytes(b"no archive")
    with pytest.raises(Refused, match="cannot be read"):
        pull(str(tmp_path / "mine.zip"), tmp_path / "own", Progress())
    with pytest.raises(UsageError, match="no such submission"):
        pull(str(tmp_path / "gone"), tmp_path / "own", Progress())
    assert not (tmp_path / "own").exists()
