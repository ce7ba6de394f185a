"""The store under faults: damaged files, processes side by side, full disks, processes killed at any moment."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.pipeline import files
from genrec_unlearn_bench.store.inventory import stage_folders
from genrec_unlearn_bench.store.orphans import orphans, remove_orphan
from genrec_unlearn_bench.store.stage_manifest import verified
from genrec_unlearn_bench.store.store import StageStore
from tests.store.small_store import KINDS, Saying, compute, content, done, ended, in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


@pytest.fixture
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here pulls the plug, so whether files have reached the disk is not the question."""
    monkeypatch.setattr(files, "sync", lambda path: None)


CASES = 200
KILLS = 50
STAGES = 25


def test_every_flipped_or_cut_file_is_found_repaired_and_never_served(tmp_path: Path, no_fsync: None) -> None:
    generator = random.Random(7)
    root, log = tmp_path / "cache", tmp_path / "log"
    whole = {}
    for number, kind in enumerate(KINDS):
        stored = StageStore(root).stage(kind, content(number), compute(number, log))
        whole[number] = (stored.digest, tree(stored.path))
    hit: Counter[str] = Counter()
    for case in range(CASES):
        number = generator.randrange(len(KINDS))
        kind = KINDS[number]
        folder = StageStore(root).folder(kind, StageStore.key(kind, content(number)))
        path = generator.choice([one for one in sorted(folder.rglob("*")) if one.is_file()])
        hit[path.name] += 1
        damage(path, generator)
        said = Saying()
        found = StageStore(root, said).stage(kind, content(number), compute(number, log))
        assert not found.cached, f"case {case}: {path.name} was served damaged"
        assert "damaged" in said.lines[0], case
        assert found.digest == whole[number][0]
        assert tree(found.path) == whole[number][1]
    assert len(done(log)) == len(KINDS) + CASES
    assert set(hit) == {"weights.bin", "values.json", "stage.json", "key.json"}
    assert len(list((root / "quarantine").iterdir())) == CASES


def damage(path: Path, generator: random.Random) -> None:
    """One bit turned, or the end cut off."""
    before = path.read_bytes()
    at = generator.randrange(len(before))
    if generator.random() < 0.5:
        path.write_bytes(before[:at])
    else:
        path.write_bytes(before[:at] + bytes([before[at] ^ (1 << generator.randrange(8))]) + before[at + 1 :])


def tree(folder: Path) -> dict[str, bytes]:
    """The computed files; manifests hold times."""
    names = [path for path in folder.rglob("*") if path.is_file() and path.name not in ("stage.json", "key.json")]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in names}


def test_a_damage_is_found_in_the_process_that_has_read_the_stage_before(tmp_path: Path) -> None:
    store, log = StageStore(tmp_path / "cache"), tmp_path / "log"
    stored = store.stage("original", content(0), compute(0, log))
    assert store.stage("original", content(0), compute(0, log)).cached
    weights = stored.path / "model" / "weights.bin"
    weights.write_bytes(bytes([weights.read_bytes()[0] ^ 1]) + weights.read_bytes()[1:])
    assert not store.stage("original", content(0), compute(0, log)).cached
    assert done(log) == [0, 0]


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_side_by_side_compute_each_stage_once(tmp_path: Path, processes: int) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"

    def work(own: int) -> None:
        order = list(range(12))
        random.Random(own).shuffle(order)
        for number in order:
            StageStore(root).stage("original", content(number), compute(number, log, pause=lambda: time.sleep(0.01)))

    children = [in_child(lambda own=own: work(own)) for own in range(processes)]
    assert [ended(child) for child in children] == [0] * processes
    assert sorted(done(log)) == list(range(12))


def test_a_process_killed_at_any_moment_loses_nothing_that_was_done(tmp_path: Path, no_fsync: None) -> None:
    generator = random.Random(11)
    root, log, finished = tmp_path / "cache", tmp_path / "log", tmp_path / "finished"

    def work() -> None:
        for number in range(STAGES):
            stage = StageStore(root).stage(
                "original", content(number), compute(number, log, pause=lambda: time.sleep(0.001))
            )
            if not stage.cached:
                with finished.open("a") as handle:
                    handle.write(f"{number}\n")

    killed = 0
    for _ in range(KILLS):
        child = in_child(work)
        time.sleep(generator.uniform(0.0, 0.03))
        os.kill(child, signal.SIGKILL)
        killed += ended(child) == -signal.SIGKILL
        for name, folder in stage_folders(root):
            verified(folder, name, folder.name)
    assert killed >= KILLS // 2
    work()
    assert len(list(stage_folders(root))) == STAGES
    begun, complete = Counter(done(log)), done(finished)
    assert len(complete) == len(set(complete)), "none computed twice in a completed state"
    assert sum(begun.values()) <= STAGES + killed
    for orphan in list(orphans(root)):
        assert remove_orphan(orphan)
    assert [path for path in root.rglob(".*") if path.name.startswith(".draft")] == []


def test_a_file_over_the_limit_is_an_error_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match="limit for files"):
            StageStore(tmp_path).stage("original", content(0), compute(0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert leftovers(tmp_path) == []
    assert not StageStore(tmp_path).stage("original", content(0), compute(0)).cached


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    options = ["-t", "tmpfs", "-o", "size=256k,nr_inodes=200", "tmpfs", str(place)]
    done_ = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done_.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {done_.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_an_error_and_goes_on_when_there_is_room(tiny_disk: Path) -> None:
    store = StageStore(tiny_disk / "cache")
    store.stage("sids", content(0), compute(0))

    def large(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(b"0" * 400_000)

    with pytest.raises(StorageError, match="the disk is full") as told:
        store.stage("original", content(1), large)
    assert str(tiny_disk) in str(told.value.where)
    assert "--cache-dir" in str(told.value.hint)
    assert [path.name for path in tiny_disk.rglob("*") if path.name.startswith(".draft")] == []
    assert store.find("original", content(1)) is None
    assert StageStore(tiny_disk / "cache").stage("sids", content(0), compute(0)).cached, "what was there still is"
    # Filled to the last byte, even a stage of a few bytes is refused, or stored whole.
    (tiny_disk / "filler").write_bytes(b"0" * max(0, free(tiny_disk) - 4096))
    with pytest.raises(StorageError, match="the disk is full"):
        store.stage("original", content(2), compute(2))
    (tiny_disk / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    assert not store.stage("original", content(1), large).cached
    assert not store.stage("original", content(2), compute(2)).cached


def free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def leftovers(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk read-only needs root")
def test_a_read_only_store_serves_what_it_has_and_refuses_the_rest(tiny_disk: Path) -> None:
    stored = StageStore(tiny_disk / "cache").stage("sids", content(0), compute(0))
    weights = stored.path / "model" / "weights.bin"
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert StageStore(tiny_disk / "cache").stage("sids", content(0), compute(0)).cached
    with pytest.raises(StorageError, match="read-only"):
        StageStore(tiny_disk / "cache").stage("original", content(1), compute(1))
    subprocess.run(["mount", "-o", "remount,rw", str(tiny_disk)], check=True)
    weights.write_bytes(b"damaged")
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(CorruptArtefact, match="cannot be moved aside"):
        StageStore(tiny_disk / "cache").stage("sids", content(0), compute(0))
