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

from genrec_unlearn_bench import files
from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.store import manifest, store
from genrec_unlearn_bench.store.manifest import KEY_VERSION, differences
from genrec_unlearn_bench.store.store import StageStore, default_cache
from tests.store.small_store import Lines, compute, done, key, make, recipe


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
    first = make(tmp_path, 0, "sids", work)
    again = make(tmp_path, 0, "sids", work)
    assert work.times == 1
    assert (first.cached, again.cached) == (False, True)
    assert (first.digest, first.seconds, first.path) == (again.digest, again.seconds, again.path)
    assert again.facts == {"steps": 3}
    assert first.path == tmp_path / "stages" / "sids" / key(0, "sids")[:2] / key(0, "sids")
    stored = json.loads((first.path / "key.json").read_text())
    assert stored == {"key_version": KEY_VERSION, **recipe(0, "sids")}


def test_plans_ask_for_stages_manifests_and_recipes_without_reading_files(tmp_path: Path) -> None:
    store = StageStore(tmp_path)
    assert not store.contains("sids", key(0, "sids"))
    assert store.manifest("sids", key(0, "sids")) is None
    assert list(store.recipes("sids")) == []
    for number in (0, 1):
        make(store, number, "sids", Work())
    (store.folder("sids", key(0, "sids")) / "table.json").write_text("[]")
    assert store.contains("sids", key(0, "sids"))
    found = store.manifest("sids", key(0, "sids"))
    assert found is not None
    assert (found.facts, found.size > 0) == ({"steps": 3}, True)
    assert dict(store.recipes("sids")) == {key(number, "sids"): recipe(number, "sids") for number in (0, 1)}
    assert store.quarantined == []


def test_a_recipe_of_another_key_version_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, 0, "sids", Work())
    stored = key(0, "sids")
    monkeypatch.setattr(manifest, "KEY_VERSION", KEY_VERSION + 1)
    found = dict(StageStore(tmp_path).recipes("sids")).get(stored)
    assert found is not None
    assert list(differences(found, recipe(0, "sids"))) == ["key_version"]


def test_unfinished_work_goes_once_the_stage_is_stored(tmp_path: Path) -> None:
    store = StageStore(tmp_path)
    work = store.work("original", key(0))
    work.mkdir(parents=True)
    (work / "snapshot").write_text("step 3")
    make(store, 0, "original", Work())
    assert not work.exists()


def test_another_recipe_is_another_stage(tmp_path: Path) -> None:
    here = StageStore(tmp_path)
    work = Work()
    assert make(here, 0, "sids", work).path != make(here, 1, "sids", work).path
    assert make(here, 0, "sids", work).path != make(here, 0, "original", work).path
    assert work.times == 3


def test_digest_is_of_the_content_not_of_the_key_or_the_clock(tmp_path: Path) -> None:
    here = StageStore(tmp_path)
    assert make(here, 0, "a", Work()).digest == make(here, 0, "b", Work()).digest
    assert make(here, 0, "c", Work("other")).digest != make(here, 0, "a", Work()).digest


@pytest.mark.parametrize("fault", ["flipped", "shorter", "missing", "manifest", "manifest-missing", "swapped"])
def test_a_damaged_stage_is_quarantined_and_computed_again(tmp_path: Path, fault: str) -> None:
    work, said = Work(), Lines()
    stored = make(tmp_path, 0, "original", work)
    weights, sealed = stored.path / "model" / "weights.txt", stored.path / "stage.json"
    if fault == "flipped":
        weights.write_text("weightS")
    elif fault == "shorter":
        weights.write_text("wei")
    elif fault == "missing":
        weights.unlink()
    elif fault == "manifest":
        sealed.write_text(sealed.read_text()[:40])
    elif fault == "manifest-missing":
        sealed.unlink()
    else:
        other = make(tmp_path, 9, "original", Work("another model"))
        sealed.write_bytes((other.path / "stage.json").read_bytes())
    store = StageStore(tmp_path, said)
    again = make(store, 0, "original", work)
    assert work.times == 2
    assert again.digest == stored.digest
    assert weights.read_text() == "weights"
    assert len(list((tmp_path / "quarantine").iterdir())) == 1, "kept for whoever wants to know why"
    assert "damaged" in said.lines[0]
    assert "quarantine" in said.lines[0]
    assert len(store.quarantined) == 1, "a sweep tells of it in the end"
    assert "'original' was damaged" in store.quarantined[0]


def test_a_failing_computation_leaves_nothing(tmp_path: Path) -> None:
    def half(folder: Path) -> None:
        (folder / "weights.txt").write_text("half")
        raise ValueError("diverged")

    with pytest.raises(ValueError, match="diverged"):
        make(tmp_path, 0, "original", half)
    assert leftovers(tmp_path) == []
    assert make(tmp_path, 0, "original", Work()).cached is False


def test_an_interrupt_leaves_nothing_and_a_rerun_goes_on(tmp_path: Path) -> None:
    here, done = StageStore(tmp_path), Work()
    make(here, 0, "features", done)

    def interrupted(folder: Path) -> None:
        (folder / "weights.txt").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        make(here, 0, "original", interrupted)
    assert not list(tmp_path.rglob(".draft-*"))
    assert make(here, 0, "features", done).cached
    assert make(here, 0, "original", Work()).cached is False


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
        make(tmp_path, 0, "original", refused)
    assert told.value.where
    assert "--cache-dir" in (told.value.hint or "")
    assert leftovers(tmp_path) == []


def test_a_disk_that_fills_up_at_the_rename_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(files, "sync", full)
    with pytest.raises(StorageError, match="full"):
        make(tmp_path, 0, "original", Work())
    assert leftovers(tmp_path) == []


def test_faults_that_are_not_the_disk_pass_unchanged(tmp_path: Path) -> None:
    def missing(folder: Path) -> None:
        (folder / "nothing").read_text()

    with pytest.raises(FileNotFoundError):
        make(tmp_path, 0, "original", missing)


def test_a_cache_that_is_a_file_or_cannot_be_made_says_so(tmp_path: Path) -> None:
    place = tmp_path / "file"
    place.write_text("not a folder")
    with pytest.raises(StorageError, match="not a folder"):
        make(place, 0, "original", Work())


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_read_only_cache_is_still_read(tmp_path: Path) -> None:
    stored = make(tmp_path, 0, "original", Work())
    folders = [tmp_path, *(path for path in tmp_path.rglob("*") if path.is_dir())]
    for folder in folders:
        folder.chmod(0o500)
    try:
        assert make(tmp_path, 0, "original", Work()).digest == stored.digest
        with pytest.raises(StorageError, match="permission"):
            make(tmp_path, 0, "retrain", Work())
    finally:
        for folder in folders:
            folder.chmod(0o700)


def test_a_hit_takes_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, 0, "original", Work())

    def no_lock(*arguments: object) -> None:
        raise AssertionError("a hit must not write")

    monkeypatch.setattr(store, "held", no_lock)
    assert make(tmp_path, 0, "original", Work()).cached


def test_damage_that_cannot_be_moved_aside_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = make(tmp_path, 0, "original", Work())
    (stored.path / "table.json").write_text("[]")

    def refuse(path: Path, target: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CorruptArtefact, match="cannot be moved aside"):
        make(tmp_path, 0, "original", Work())


WORKER = """
import sys, time
from pathlib import Path
from tests.store.small_store import make

root, mode = Path(sys.argv[1]), sys.argv[2]

def compute(folder):
    (folder / "weights.txt").write_text("weights")
    with (root / "computed").open("a") as handle:
        handle.write("x")
    print("computing", flush=True)
    if mode == "hang":
        sys.stdin.read()
    sys.stdin.readline()

stored = make(root / "cache", 0, "original", compute)
print("cached" if stored.cached else "computed", stored.digest, flush=True)
"""


ROOT = Path(__file__).parents[2]


def worker(root: Path, mode: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, str(root), mode],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
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
    assert make(tmp_path / "cache", 0, "original", work).cached is False
    assert work.times == 1
    assert not list((tmp_path / "cache").rglob(".draft-*")), "the next one sweeps"


def test_threads_of_one_process_compute_a_stage_once(tmp_path: Path) -> None:
    gate, work, found = threading.Barrier(4), Work(), []

    def run() -> None:
        gate.wait()
        found.append(make(tmp_path, 0, "original", work).digest)

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


def test_what_the_store_below_holds_is_read_there_and_the_rest_computed_in_ones_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    below = make(tmp_path / "below", 0, work=compute(0, log))
    before = sorted(path for path in (tmp_path / "below").rglob("*"))
    own = StageStore(tmp_path / "own", shared=tmp_path / "below")
    found = make(own, 0, work=compute(0, log))
    assert (found.cached, found.path) == (True, below.path)
    assert own.contains("original", key(0))
    assert dict(own.recipes("original")).get(key(0)) == recipe(0)
    made = make(own, 0, "retrain", compute(0, log))
    assert made.path.is_relative_to(tmp_path / "own")
    assert done(log) == [0, 0]
    assert sorted(path for path in (tmp_path / "below").rglob("*")) == before, "nothing is written below"


def test_a_damaged_stage_below_is_said_not_used_and_left_alone(tmp_path: Path) -> None:
    below = make(tmp_path / "below", 0)
    (below.path / "values.json").write_text("{}")
    said = Lines()
    own = StageStore(tmp_path / "own", said, shared=tmp_path / "below")
    found = make(own, 0)
    assert not found.cached
    assert found.digest == below.digest
    assert "in the shared store is not used" in said.lines[0]
    assert below.path.is_dir()
    said.lines.clear()
    assert make(own, 0).cached
    assert said.lines == [], "one's own goes first from now on"


def test_the_store_below_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = make(tmp_path / "below", 0)
    monkeypatch.setenv(store.SHARED_VARIABLE, str(tmp_path / "below"))
    assert make(tmp_path / "own", 0).path == below.path
