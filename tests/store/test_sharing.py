"""Stores of several users: one laid under another, and one that a group fills together."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.store.sharing import MARKER, SHARED_VARIABLE, is_shared, share
from genrec_unlearn_bench.store.store import StageStore
from tests.store.small_store import Saying, compute, content, done, ended, in_child

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

GROUP = 4321


def test_what_the_store_below_holds_is_read_there_and_the_rest_computed_in_ones_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    below = StageStore(tmp_path / "below").stage("original", content(0), compute(0, log))
    before = sorted(path for path in (tmp_path / "below").rglob("*"))
    own = StageStore(tmp_path / "own", shared=tmp_path / "below")
    found = own.stage("original", content(0), compute(0, log))
    assert (found.cached, found.path) == (True, below.path)
    made = own.stage("retrain", content(0), compute(0, log))
    assert made.path.is_relative_to(tmp_path / "own")
    assert done(log) == [0, 0]
    assert sorted(path for path in (tmp_path / "below").rglob("*")) == before, "nothing is written below"


def test_a_damaged_stage_below_is_said_not_used_and_left_alone(tmp_path: Path) -> None:
    below = StageStore(tmp_path / "below").stage("original", content(0), compute(0))
    (below.path / "values.json").write_text("{}")
    said = Saying()
    own = StageStore(tmp_path / "own", said, shared=tmp_path / "below")
    found = own.stage("original", content(0), compute(0))
    assert not found.cached
    assert found.digest == below.digest
    assert "shared store is damaged" in said.lines[0]
    assert below.path.is_dir()
    said.lines.clear()
    assert own.stage("original", content(0), compute(0)).cached
    assert said.lines == [], "one's own goes first from now on"


def test_the_store_below_is_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = StageStore(tmp_path / "below").stage("original", content(0), compute(0))
    monkeypatch.setenv(SHARED_VARIABLE, str(tmp_path / "below"))
    assert StageStore(tmp_path / "own").stage("original", content(0), compute(0)).path == below.path


def test_a_marker_makes_what_is_stored_writable_for_the_group_whatever_the_umask(tmp_path: Path) -> None:
    root = tmp_path / "cache"
    share(root)
    assert is_shared(root)
    before = os.umask(0o077)
    try:
        stored = StageStore(root).stage("original", content(0), compute(0))
    finally:
        os.umask(before)
    for path in [*root.rglob("*")]:
        mode = path.stat().st_mode
        wanted = 0o2070 if stat.S_ISDIR(mode) else 0o060
        assert mode & wanted == wanted, path
    assert stored.path.is_dir()
    plain = StageStore(tmp_path / "plain").stage("original", content(0), compute(0))
    assert not plain.path.stat().st_mode & 0o2000, "a store of one user is left as the umask says"


def test_a_marker_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / MARKER).write_text('{"shared": "perhaps"}')
    with pytest.raises(StorageError, match="marker"):
        StageStore(tmp_path).stage("original", content(0), compute(0))


@pytest.fixture
def group_folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="group-store-"))
    place.chmod(0o755)
    root = place / "cache"
    share(root)
    os.chown(root, 0, GROUP)
    root.chmod(0o2775)
    yield root
    shutil.rmtree(place)


def as_user(user: int, work: Callable[[], None]) -> int:
    def become() -> None:
        os.setgroups([])
        os.setgid(GROUP)
        os.setuid(user)
        os.umask(0o077)
        work()

    return ended(in_child(become))


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming other users needs root")
def test_users_of_a_group_read_repair_and_collect_each_others_stages(group_folder: Path) -> None:
    root = group_folder

    def first() -> None:
        StageStore(root).stage("original", content(0), compute(0))

    def second() -> None:
        assert StageStore(root).stage("original", content(0), compute(0)).cached
        StageStore(root).stage("original", content(1), compute(1))

    def third() -> None:
        found = StageStore(root).stage("original", content(0), compute(0))
        assert not found.cached, "a damaged stage of somebody else is moved aside and made anew"

    assert as_user(5001, first) == 0
    assert as_user(5002, second) == 0
    stored = StageStore(root).find("original", content(0))
    assert stored is not None
    assert stored.path.stat().st_uid == 5001
    assert stored.path.stat().st_gid == GROUP, "the group is the folder's"
    (stored.path / "values.json").write_text("{}")
    assert as_user(5003, third) == 0
    assert (root / "quarantine").is_dir()


@pytest.mark.skipif(os.geteuid() != 0, reason="becoming other users needs root")
def test_a_damaged_stage_that_cannot_be_moved_is_an_error_that_names_the_way_out(group_folder: Path) -> None:
    root = group_folder
    stored = StageStore(root).stage("original", content(0), compute(0))
    (stored.path / "values.json").write_text("{}")
    for folder in (stored.path, stored.path.parent):
        folder.chmod(0o755)

    def other() -> None:
        from genrec_unlearn_bench.errors import CorruptArtefact

        with pytest.raises(CorruptArtefact, match="cannot be moved aside") as told:
            StageStore(root).stage("original", content(0), compute(0))
        assert SHARED_VARIABLE in str(told.value.hint)
        own = StageStore(root.parent / "own", shared=root)
        own.root.mkdir(exist_ok=True)

    root.parent.chmod(0o777)
    assert as_user(5001, other) == 0
