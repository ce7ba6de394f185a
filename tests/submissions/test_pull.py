"""Pulling from folders and from web servers of every temper."""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing, UsageError
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.results import record_text, result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions import pull
from genrec_unlearn_bench.submissions.pull import (
    INDEX,
    Place,
    Pulled,
    PullIndex,
    find_place,
    index_of,
    pull_results,
    site_index,
)
from tests.reporting.boards import make_records


class Server(http.server.SimpleHTTPRequestHandler):
    """A folder behind http, with faults by path."""

    broken: ClassVar[dict[str, str]] = {}
    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        type(self).asked.append(self.path)
        fault = next((kind for part, kind in self.broken.items() if part in self.path), "")
        if fault == "404":
            self.send_error(404)
        elif fault == "503":
            self.send_error(503)
        elif fault in ("cut", "cut once"):
            if fault == "cut once":
                type(self).broken = {part: kind for part, kind in self.broken.items() if kind != fault}
            body = Path(self.translate_path(self.path)).read_bytes()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: len(body) // 2])
        elif fault in ("other", "endless"):
            body = b"0" * (10 if fault == "other" else 5_000_000)
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)
        else:
            super().do_GET()

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pull, "TIMEOUT", 5.0)
    monkeypatch.setattr(pull.time, "sleep", lambda seconds: None)
    Server.broken, Server.asked = {}, []


RECORDS = functools.cache(make_records)


def published(root: Path, number: int = 4) -> Path:
    """A folder with some results as they are published."""
    for record in RECORDS()[:number]:
        table = b"per user " + record.key.encode()
        (root / "scratch").parent.mkdir(parents=True, exist_ok=True)
        (root / "scratch").write_bytes(table)
        record = record.model_copy(update={"per_user_digest": file_digest(root / "scratch")})
        folder = result_folder(root / "results", record)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(record_text(record), encoding="utf-8")
        (root / "scratch").rename(folder / "per_user.parquet")
    return root


@pytest.fixture
def offered(tmp_path: Path) -> Path:
    root = published(tmp_path / "published")
    (root / INDEX).write_text(index_of(root).text())
    return root


@pytest.fixture
def served(offered: Path) -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(offered)))
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def pulled(place: str, into: Path) -> dict[str, int]:
    found = find_place(place)
    return counted(pull_results(found, found.index.results, into, Progress()))


def counted(pulled: tuple[Pulled, ...]) -> dict[str, int]:
    out: dict[str, int] = {}
    for one in pulled:
        out[one.outcome] = out.get(one.outcome, 0) + 1
    return out


def tree(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_results_come_from_a_folder_and_from_a_server_alike(offered: Path, served: str, tmp_path: Path) -> None:
    assert pulled(str(offered), tmp_path / "one") == {"new": 4}
    assert pulled(served, tmp_path / "two") == {"new": 4}
    assert tree(tmp_path / "one") == tree(tmp_path / "two") == tree(offered / "results")


def test_a_second_pull_fetches_nothing_but_the_index(served: str, tmp_path: Path) -> None:
    pulled(served, tmp_path / "own")
    Server.asked.clear()
    assert pulled(served, tmp_path / "own") == {"here already": 4}
    assert Server.asked == [f"/{INDEX}"]


def test_a_folder_without_an_index_is_looked_through_and_a_server_is_not(
    offered: Path, served: str, tmp_path: Path
) -> None:
    (offered / INDEX).unlink()
    assert pulled(str(offered / "results"), tmp_path / "own") == {"new": 4}
    with pytest.raises(DataMissing, match="no index") as told:
        find_place(served)
    assert "--write-index" in str(told.value.hint)
    assert bench("results", "pull", str(offered), "--write-index").exit_code == 0
    assert pulled(served, tmp_path / "web") == {"new": 4}


def test_the_index_in_a_site_stands_for_the_folder_above(offered: Path, served: str, tmp_path: Path) -> None:
    (offered / INDEX).unlink()
    (offered / "site").mkdir()
    (offered / "site" / INDEX).write_bytes(site_index([offered / "results"], offered))
    for number, place in enumerate((served, f"{served}/site", f"{served}/site/{INDEX}", str(offered))):
        assert pulled(place, tmp_path / str(number)) == {"new": 4}


def test_a_connection_that_is_cut_is_taken_up_again(served: str, tmp_path: Path) -> None:
    Server.broken = {"per_user.parquet": "cut once"}
    assert pulled(served, tmp_path / "own") == {"new": 4}


@pytest.mark.parametrize("fault", ["404", "503", "cut", "other", "endless"])
def test_a_file_that_cannot_be_had_fails_alone_and_comes_later(
    offered: Path, served: str, tmp_path: Path, fault: str
) -> None:
    bad = index_of(offered).results[1]
    Server.broken = {f"{bad.place}/per_user.parquet": fault}
    own = tmp_path / "own"
    assert pulled(served, own) == {"new": 3, "failed": 1}
    assert not [path for path in own.rglob("*") if path.is_dir() and path.name.startswith(".draft")]
    assert not (own / bad.task / bad.backbone / bad.method / bad.place.rpartition("/")[2]).exists()
    Server.broken = {}
    Server.asked.clear()
    assert pulled(served, own) == {"new": 1, "here already": 3}
    assert all(bad.place in path for path in Server.asked if not path.endswith(INDEX)), "the others are here already"
    assert tree(own) == tree(offered / "results")


def test_a_server_that_dies_midway_is_given_up_and_the_next_pull_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = published(tmp_path / "many", 40)
    (root / INDEX).write_text(index_of(root).text())
    found = find_place(str(root))
    alive = 12

    class Dying(Place):
        def fetch(self, *arguments: Any) -> None:
            nonlocal alive
            alive -= 1
            if alive < 0:
                raise DataMissing("the server cannot be reached")
            found.fetch(*arguments)

    place = Dying(found.index, found.base)
    first = pull_results(place, found.index.results, tmp_path / "own", Progress())
    assert len(first) == 40
    assert counted(first)["failed"] >= 30
    assert any(one.fault == "not tried any more" for one in first)
    assert counted(pull_results(found, found.index.results, tmp_path / "own", Progress())).get("failed") is None
    assert tree(tmp_path / "own") == tree(root / "results")


def test_what_lies_here_is_never_written_over(offered: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    pulled(str(offered), own)
    mine = next(own.rglob("result.json"))
    mine.write_text("mine")
    assert pulled(str(offered), own) == {"here already": 3, "kept": 1}
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    "place", ["../outside", "/etc", "results/../../outside", "C:/windows", "results\\..\\..", "results/.hidden", ""]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(offered: Path, served: str, tmp_path: Path, place: str) -> None:
    index = json.loads((offered / INDEX).read_text())
    index["results"] = [{**index["results"][0], "place": place}]
    (offered / INDEX).write_text(json.dumps(index))
    for source in (served, str(offered)):
        assert pulled(source, tmp_path / "own") == {"failed": 1}
    assert not any(path.is_file() for path in (tmp_path / "own").rglob("*"))
    Server.asked = [path for path in Server.asked if not path.endswith(INDEX)]
    assert Server.asked == [], "such a path is not even asked for"


@pytest.mark.parametrize("field", ["task", "method", "key"])
def test_a_record_of_another_run_than_the_index_says_is_refused(offered: Path, tmp_path: Path, field: str) -> None:
    index = json.loads((offered / INDEX).read_text())
    index["results"] = [{**index["results"][0], field: "../../x" if field == "task" else "another"}]
    (offered / INDEX).write_text(json.dumps(index))
    assert pulled(str(offered), tmp_path / "own") == {"failed": 1}
    assert not list((tmp_path / "own").rglob("result.json"))


def test_files_named_in_a_result_cannot_lead_out_either(offered: Path, tmp_path: Path) -> None:
    index = json.loads((offered / INDEX).read_text())
    first = index["results"][0]
    first["files"]["../../evil.txt"] = first["files"]["result.json"]
    index["results"] = [first]
    (offered / INDEX).write_text(json.dumps(index))
    assert pulled(str(offered), tmp_path / "own") == {"failed": 1}
    assert not list(tmp_path.rglob("evil.txt"))


def test_an_index_that_is_none_says_so(offered: Path) -> None:
    (offered / INDEX).write_text('{"version": 9}')
    with pytest.raises(CorruptArtefact, match="version"):
        find_place(str(offered))
    with pytest.raises(UsageError, match="no address"):
        find_place("ftp://example.org/results")


def test_another_protocol_ends_with_code_3_before_anything_is_fetched(offered: Path, tmp_path: Path) -> None:
    index = PullIndex.model_validate_json((offered / INDEX).read_text())
    other = index.results[0].model_copy(update={"protocol_version": 99})
    (offered / INDEX).write_text(index.model_copy(update={"results": (other, *index.results[1:])}).text())
    done = bench("results", "pull", str(offered), "--results-dir", str(tmp_path / "own"))
    assert done.exit_code == 3, done.output
    assert not (tmp_path / "own").exists()


def test_the_verb_chooses_cells_and_names_what_is_not_there(offered: Path, tmp_path: Path) -> None:
    index = index_of(offered)
    method = index.results[0].method
    own = tmp_path / "own"
    done = bench("results", "pull", str(offered), "--method", method, "--results-dir", str(own), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"] == {"new": sum(one.method == method for one in index.results)}
    assert bench("results", "pull", str(offered), "--method", "no-such", "--results-dir", str(own)).exit_code == 2
    assert bench("results", "pull", str(tmp_path / "nowhere")).exit_code == 2


def test_pulled_rows_stand_in_a_table_beside_ones_own(offered: Path, tmp_path: Path) -> None:
    own = published(tmp_path / "mine", 1) / "results"
    assert bench("results", "pull", str(offered), "--results-dir", str(own)).exit_code == 0
    done = bench("leaderboard", "--results-dir", str(own), "--format", "csv")
    assert done.exit_code == 0, done.output
    assert len(list(own.rglob("result.json"))) == 4


def test_only_files_that_index_and_record_both_name_are_taken(offered: Path, served: str, tmp_path: Path) -> None:
    first = index_of(offered).results[0]
    (offered / first.place / "sitecustomize.py").write_text("print('hello')")
    assert pulled(served, tmp_path / "plain") == {"new": 4}
    assert not list((tmp_path / "plain").rglob("sitecustomize.py")), "a file that nobody listed stays where it is"
    index = json.loads((offered / INDEX).read_text())
    files = index["results"][0]["files"]
    extra = {"digest": file_digest(offered / first.place / "sitecustomize.py"), "size": 14}
    forged = {
        "a file that the record does not name": {**files, "sitecustomize.py": extra},
        "a table that the record has, left out": {"result.json": files["result.json"]},
        "another file in the table's place": {**files, "per_user.parquet": extra},
    }
    for number, listed in enumerate(forged.values()):
        index["results"] = [{**index["results"][0], "files": listed}]
        (offered / INDEX).write_text(json.dumps(index))
        for source in (served, str(offered)):
            own = tmp_path / f"own{number}"
            assert pulled(source, own) == {"failed": 1}
            assert not [path for path in own.rglob("*") if path.is_file()]
