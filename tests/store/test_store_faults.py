"""The store under faults: damaged files, processes side by side, full disks, processes killed at any moment."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from genrec_unlearn_bench import files
from genrec_unlearn_bench.errors import CorruptArtefact, StorageError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import leftovers, remove, verify_store
from genrec_unlearn_bench.store.manifest import MANIFEST, read_recipe, verified
from genrec_unlearn_bench.store.store import StageStore, stage_folders
from tests.store.small_store import KINDS, Lines, compute, done, ended, in_child, key, make

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
        stored = make(root, number, kind, compute(number, log))
        whole[number] = (stored.digest, tree(stored.path))
    hit: Counter[str] = Counter()
    for case in range(CASES):
        number = generator.randrange(len(KINDS))
        kind = KINDS[number]
        folder = StageStore(root).folder(kind, key(number, kind))
        path = generator.choice([one for one in sorted(folder.rglob("*")) if one.is_file()])
        hit[path.name] += 1
        damage(path, generator)
        said = Lines()
        found = make(StageStore(root, said), number, kind, compute(number, log))
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
    stored = make(store, 0, "original", compute(0, log))
    assert make(store, 0, "original", compute(0, log)).cached
    weights = stored.path / "model" / "weights.bin"
    weights.write_bytes(bytes([weights.read_bytes()[0] ^ 1]) + weights.read_bytes()[1:])
    assert not make(store, 0, "original", compute(0, log)).cached
    assert done(log) == [0, 0]


@pytest.mark.parametrize("processes", [2, 4])
def test_processes_side_by_side_compute_each_stage_once(tmp_path: Path, processes: int) -> None:
    root, log = tmp_path / "cache", tmp_path / "log"

    def work(own: int) -> None:
        order = list(range(12))
        random.Random(own).shuffle(order)
        for number in order:
            make(root, number, "original", compute(number, log, pause=lambda: time.sleep(0.01)))

    children = [in_child(partial(work, own)) for own in range(processes)]
    assert [ended(child) for child in children] == [0] * processes
    assert sorted(done(log)) == list(range(12))


@pytest.mark.slow
def test_a_process_killed_at_any_moment_loses_nothing_that_was_done(tmp_path: Path, no_fsync: None) -> None:
    generator = random.Random(11)
    root, log, finished = tmp_path / "cache", tmp_path / "log", tmp_path / "finished"

    def work() -> None:
        for number in range(STAGES):
            stage = make(root, number, work=compute(number, log, pause=lambda: time.sleep(0.001)))
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
    assert killed >= KILLS // 3
    work()
    assert len(list(stage_folders(root))) == STAGES
    begun, complete = Counter(done(log)), done(finished)
    assert len(complete) == len(set(complete)), "none computed twice in a completed state"
    assert sum(begun.values()) <= STAGES + killed
    for leftover in list(leftovers(root)):
        assert remove(leftover)
    assert [path for path in root.rglob(".*") if path.name.startswith(".draft")] == []


def test_a_file_over_the_limit_is_an_error_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(StorageError, match="limit for files"):
            make(tmp_path, 0, "original", compute(0))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert files_of(tmp_path) == []
    assert not make(tmp_path, 0, "original", compute(0)).cached


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
    make(store, 0, "sids", compute(0))

    def large(folder: Path) -> None:
        (folder / "weights.bin").write_bytes(b"0" * 400_000)

    with pytest.raises(StorageError, match="the disk is full") as told:
        make(store, 1, "original", large)
    assert str(tiny_disk) in str(told.value.where)
    assert "--cache-dir" in str(told.value.hint)
    assert [path.name for path in tiny_disk.rglob("*") if path.name.startswith(".draft")] == []
    assert store.find("original", key(1)) is None
    assert make(tiny_disk / "cache", 0, "sids", compute(0)).cached, "what was there still is"
    # Filled to the last byte, even a stage of a few bytes is refused, or stored whole.
    (tiny_disk / "filler").write_bytes(b"0" * max(0, free(tiny_disk) - 4096))
    with pytest.raises(StorageError, match="the disk is full"):
        make(store, 2, "original", compute(2))
    (tiny_disk / "filler").unlink()
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    assert not make(store, 1, "original", large).cached
    assert not make(store, 2, "original", compute(2)).cached


def free(place: Path) -> int:
    found = os.statvfs(place)
    return found.f_bavail * found.f_frsize


def files_of(root: Path) -> list[str]:
    return [path.name for path in root.rglob("*") if path.is_file() and not path.name.endswith(".lock")]


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a disk read-only needs root")
def test_a_read_only_store_serves_what_it_has_and_refuses_the_rest(tiny_disk: Path) -> None:
    stored = make(tiny_disk / "cache", 0, "sids", compute(0))
    weights = stored.path / "model" / "weights.bin"
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    assert make(tiny_disk / "cache", 0, "sids", compute(0)).cached
    with pytest.raises(StorageError, match="read-only"):
        make(tiny_disk / "cache", 1, "original", compute(1))
    subprocess.run(["mount", "-o", "remount,rw", str(tiny_disk)], check=True)
    weights.write_bytes(b"damaged")
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    with pytest.raises(CorruptArtefact, match="cannot be moved aside"):
        make(tiny_disk / "cache", 0, "sids", compute(0))


def as_user(user: int, work: Callable[[], None]) -> int:
    """Run something in a process of another user; returns its exit status."""

    def become() -> None:
        os.setgroups([])
        os.setgid(user)
        os.setuid(user)
        work()

    return ended(in_child(become))


@pytest.fixture
def public_folder() -> Iterator[Path]:
    """A folder that every user may enter; those of pytest are private."""
    place = Path(tempfile.mkdtemp(prefix="public-store-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place)


def private_weights(folder: Path) -> None:
    """As safetensors writes: through a temporary file, private whatever the umask."""
    handle, name = tempfile.mkstemp(dir=folder)
    os.write(handle, b"weights")
    os.close(handle)
    Path(name).rename(folder / "model.safetensors")
    (folder / "ids").mkdir(mode=0o700)


@pytest.mark.parametrize(("mask", "file_mode", "folder_mode"), [(0o022, 0o644, 0o755), (0o077, 0o600, 0o700)])
def test_stored_files_have_the_permissions_of_the_umask(
    tmp_path: Path, mask: int, file_mode: int, folder_mode: int
) -> None:
    before = os.umask(mask)
    try:
        stored = make(tmp_path, 0, work=private_weights)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [stored.path, *stored.path.iterdir()]}
    assert modes.pop(stored.path.name) == modes.pop("ids") == folder_mode
    assert set(modes.values()) == {file_mode}, modes


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_another_user_reads_what_the_umask_lets_them(public_folder: Path) -> None:
    make(public_folder / "cache", 0, work=private_weights)

    def other() -> None:
        assert make(public_folder / "cache", 0, work=private_weights).cached

    assert as_user(5001, other) == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
@pytest.mark.parametrize("private", ["model/weights.bin", "stage.json", "."])
def test_a_file_that_may_not_be_read_is_no_damage(public_folder: Path, private: str) -> None:
    root = public_folder / "cache"
    stored = make(root, 0)
    for folder in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        folder.chmod(0o777)
    (stored.path / private).chmod(0)

    def other() -> None:
        store = StageStore(root)
        with pytest.raises(StorageError, match="no permission") as caught:
            make(store, 0)
        assert private.strip(".") in str(caught.value.where)
        assert caught.value.hint
        assert store.quarantined == []
        _, [found] = verify_store(root, Progress())
        assert "no permission" in found.what
        assert not found.moved

    assert as_user(5001, other) == 0
    (stored.path / private).chmod(0o755 if private == "." else 0o644)
    assert make(root, 0).cached, "nothing was moved"


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming another user needs root")
def test_a_complete_cache_of_another_user_serves_without_a_write(public_folder: Path) -> None:
    root = public_folder / "cache"
    for number in range(3):
        os.utime(make(root, number).path, (1, 1))

    def other() -> None:
        store = StageStore(root)
        assert all(make(store, number).cached for number in range(3))
        with pytest.raises(StorageError, match="no permission"):
            make(store, 3)

    assert as_user(5001, other) == 0


def test_links_that_lead_to_themselves_and_long_names_are_errors_for_users(tmp_path: Path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for root, words in ((loop / "cache", "symbolic link"), (tmp_path / ("x" * 300), "too long")):
        store = StageStore(root)
        with pytest.raises(StorageError, match=words) as caught:
            make(store, 0)
        assert caught.value.where
        assert caught.value.hint
        with pytest.raises(StorageError, match=words):
            store.contains("original", key(0))
    weights = make(tmp_path / "cache", 0).path / "model" / "weights.bin"
    weights.unlink()
    weights.symlink_to(weights)
    store = StageStore(tmp_path / "cache")
    assert not make(store, 0).cached
    assert len(store.quarantined) == 1


def test_deeply_nested_json_is_damage(tmp_path: Path) -> None:
    stored = make(tmp_path, 0)
    nested = "[" * 100_000 + "]" * 100_000
    (stored.path / "key.json").write_text('{"config": ' + nested + "}")
    with pytest.raises(CorruptArtefact, match="recipe"):
        read_recipe(stored.path)
    assert list(StageStore(tmp_path).recipes("original")) == []
    (stored.path / MANIFEST).write_text('{"facts": ' + nested + "}")
    assert StageStore(tmp_path).manifest("original", key(0)) is None
    assert not make(tmp_path, 0).cached


def test_a_process_that_may_open_no_more_files_sees_no_damage(tmp_path: Path) -> None:
    make(tmp_path, 0)

    def starved() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8))
        taken = []
        with suppress(OSError):
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        store = StageStore(tmp_path)
        try:
            with pytest.raises(StorageError, match="too many"):
                make(store, 0)
            assert store.quarantined == []
        finally:
            for handle in taken:
                os.close(handle)

    assert ended(in_child(starved)) == 0
    assert make(tmp_path, 0).cached
