"""The store: complete stages or none, whatever happens in the middle."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.pipeline import files, store
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.keys import content_key
from genrec_unlearn_bench.store.store import StageStore, default_cache

CONTENT = {"seed": 0, "config": {"lr": 0.1}}


class Saying(Progress):
    """Keeps what was said."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def info(self, text: str) -> None:
        self.lines.append(text)


class Work:
    """Counts how often it is done."""

    def __init__(self, text: str = "weights") -> None:
        self.text = text
        self.times = 0

    def __call__(self, folder: Path) -> dict[str, Any]:
        self.times += 1
        (folder / "model").mkdir()
        (folder / "model" / "weights.txt").write_text(self.text)
        (folder / "table.json").write_text("{}")
        return {"steps": 3}


def everything(root: Path) -> list[str]:
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())


def leftovers(root: Path) -> list[str]:
    return [name for name in everything(root) if not name.endswith(".lock")]


def test_a_stage_is_computed_once_and_found_again(tmp_path: Path) -> None:
    work = Work()
    first = StageStore(tmp_path).stage("sids", CONTENT, work)
    again = StageStore(tmp_path).stage("sids", CONTENT, work)
    assert work.times == 1
    assert (first.cached, again.cached) == (False, True)
    assert (first.digest, first.seconds, first.path) == (again.digest, again.seconds, again.path)
    assert again.account == {"steps": 3}
    key = content_key("sids", CONTENT)
    assert first.path == tmp_path / "sids" / key[:2] / key
    explained = json.loads((first.path / "key.json").read_text())
    assert explained == {"key_version": 1, "stage": "sids", "content": CONTENT}


def test_other_content_is_another_stage(tmp_path: Path) -> None:
    here = StageStore(tmp_path)
    work = Work()
    assert here.stage("sids", CONTENT, work).path != here.stage("sids", {**CONTENT, "seed": 1}, work).path
    assert here.stage("sids", CONTENT, work).path != here.stage("original", CONTENT, work).path
    assert work.times == 3


def test_digest_is_of_the_content_not_of_the_key_or_the_clock(tmp_path: Path) -> None:
    here = StageStore(tmp_path)
    assert here.stage("a", CONTENT, Work()).digest == here.stage("b", CONTENT, Work()).digest
    assert here.stage("c", CONTENT, Work("other")).digest != here.stage("a", CONTENT, Work()).digest


@pytest.mark.parametrize("fault", ["flipped", "shorter", "missing", "manifest", "manifest-missing", "swapped"])
def test_a_damaged_stage_is_set_aside_and_computed_again(tmp_path: Path, fault: str) -> None:
    work, said = Work(), Saying()
    stored = StageStore(tmp_path).stage("original", CONTENT, work)
    weights, manifest = stored.path / "model" / "weights.txt", stored.path / "stage.json"
    if fault == "flipped":
        weights.write_text("weightS")
    elif fault == "shorter":
        weights.write_text("wei")
    elif fault == "missing":
        weights.unlink()
    elif fault == "manifest":
        manifest.write_text(manifest.read_text()[:40])
    elif fault == "manifest-missing":
        manifest.unlink()
    else:
        other = StageStore(tmp_path).stage("original", {**CONTENT, "seed": 9}, Work("another model"))
        manifest.write_bytes((other.path / "stage.json").read_bytes())
    again = StageStore(tmp_path, said).stage("original", CONTENT, work)
    assert work.times == 2
    assert again.digest == stored.digest
    assert weights.read_text() == "weights"
    assert len(list((tmp_path / "quarantine").iterdir())) == 1, "kept for whoever wants to know why"
    assert "damaged" in said.lines[0]
    assert "quarantine" in said.lines[0]


def test_a_failing_computation_leaves_nothing(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "weights.txt").write_text("half")
        raise ValueError("diverged")

    with pytest.raises(ValueError, match="diverged"):
        StageStore(tmp_path).stage("original", CONTENT, half)
    assert leftovers(tmp_path) == []
    assert StageStore(tmp_path).stage("original", CONTENT, Work()).cached is False


def test_an_interrupt_leaves_nothing_and_a_rerun_goes_on(tmp_path: Path) -> None:
    here, done = StageStore(tmp_path), Work()
    here.stage("features", CONTENT, done)

    def interrupted(folder: Path) -> None:
        (folder / "weights.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        here.stage("original", CONTENT, interrupted)
    assert not list(tmp_path.rglob(".draft-*"))
    assert here.stage("features", CONTENT, done).cached
    assert here.stage("original", CONTENT, Work()).cached is False


@pytest.mark.parametrize(
    ("raised", "word"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "full"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "quota"),
        (OSError(errno.EROFS, "Read-only file system"), "read-only"),
        (PermissionError(errno.EACCES, "Permission denied"), "permission"),
        (RuntimeError("Error while serializing: I/O error: No space left on device (os error 28)"), "full"),
    ],
)
def test_a_refusing_disk_is_an_error_for_users_and_leaves_nothing(tmp_path: Path, raised: Exception, word: str) -> None:
    def refused(folder: Path) -> None:
        (folder / "weights.txt").write_text("half")
        raise raised

    with pytest.raises(StorageError, match=word) as told:
        StageStore(tmp_path).stage("original", CONTENT, refused)
    assert told.value.where
    assert "--cache-dir" in (told.value.hint or "")
    assert leftovers(tmp_path) == []


def test_a_disk_that_fills_up_at_the_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(StorageError, match="full"):
        StageStore(tmp_path).stage("original", CONTENT, Work())
    assert leftovers(tmp_path) == []


def test_faults_that_are_not_the_disk_pass_unchanged(tmp_path: Path) -> None:
    def missing(folder: Path) -> None:
        (folder / "nothing").read_text()

    with pytest.raises(FileNotFoundError):
        StageStore(tmp_path).stage("original", CONTENT, missing)


def test_a_cache_that_is_a_file_or_cannot_be_made_says_so(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    with pytest.raises(StorageError, match="not a folder"):
        StageStore(place).stage("original", CONTENT, Work())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_is_still_read(tmp_path: Path) -> None:
    stored = StageStore(tmp_path).stage("original", CONTENT, Work())
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert StageStore(tmp_path).stage("original", CONTENT, Work()).digest == stored.digest
        with pytest.raises(StorageError, match="permission"):
            StageStore(tmp_path).stage("retrain", CONTENT, Work())
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_a_hit_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    StageStore(tmp_path).stage("original", CONTENT, Work())

    def no_lock(*arguments: object) -> None:
        raise AssertionError("a hit must not write")

    monkeypatch.setattr(store, "held", no_lock)
    assert StageStore(tmp_path).stage("original", CONTENT, Work()).cached


def test_damage_that_cannot_be_moved_aside_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = StageStore(tmp_path).stage("original", CONTENT, Work())
    (stored.path / "table.json").write_text("[]")

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CorruptArtefact, match="cannot be moved aside"):
        StageStore(tmp_path).stage("original", CONTENT, Work())


WORKER = """
import sys, time
from pathlib import Path
from genrec_unlearn_bench.store.store import StageStore

root, mode = Path(sys.argv[1]), sys.argv[2]

def compute(folder):
    (folder / "weights.txt").write_text("weights")
    with (root / "computed").open("a") as handle:
        handle.write("x")
    print("computing", flush=True)
    if mode == "hang":
        sys.stdin.read()
    sys.stdin.readline()

stored = StageStore(root / "cache").stage("original", {"seed": 0}, compute)
print("cached" if stored.cached else "computed", stored.digest, flush=True)
"""


def worker(root: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root), mode], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def test_two_processes_compute_a_stage_once(tmp_path: Path) -> None:
    one = worker(tmp_path, "wait")
    assert one.stdout is not None
    assert one.stdout.readline() == "computing\n", "the first holds the lock and computes"
    two = worker(tmp_path, "wait")
    assert one.stdin is not None
    one.stdin.write("\n")
    one.stdin.flush()
    answers = [process.communicate(timeout=60)[0].split() for process in (one, two)]
    assert [answer[0] for answer in answers] == ["computed", "cached"]
    assert answers[0][1] == answers[1][1]
    assert (tmp_path / "computed").read_text() == "x"


def test_a_killed_process_leaves_neither_lock_nor_half_a_stage(tmp_path: Path) -> None:
    process = worker(tmp_path, "hang")
    assert process.stdout is not None
    assert process.stdout.readline() == "computing\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    drafts = list((tmp_path / "cache").rglob(".draft-*"))
    assert drafts, "a kill cannot be cleaned up after by its victim"
    work = Work()
    assert StageStore(tmp_path / "cache").stage("original", {"seed": 0}, work).cached is False
    assert work.times == 1
    assert not list((tmp_path / "cache").rglob(".draft-*")), "the next one sweeps"


def test_threads_of_one_process_compute_a_stage_once(tmp_path: Path) -> None:
    gate, work, found = threading.Barrier(4), Work(), []

    def run() -> None:
        gate.wait()
        found.append(StageStore(tmp_path).stage("original", CONTENT, work).digest)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.times == 1
    assert len(set(found)) == 1
    assert len(found) == 4


def test_cache_place_comes_from_the_variable_then_from_the_platform(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(store.CACHE_VARIABLE, str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv(store.CACHE_VARIABLE)
    assert "genrec-unlearn-bench" in str(default_cache())
