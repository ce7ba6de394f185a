"""The version lock: a stage whose sources changed has a new version, or somebody says that its outcome is the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.pipeline import acknowledge as tool
from tests.pipeline.acknowledge import Locked, digest_of, faults, files_of


def test_no_stage_changed_unnoticed() -> None:
    found = faults(tool.read_lock(), tool.locked_now())
    assert not found, "\n".join(found)


def test_every_stage_has_sources_and_a_place_for_its_version() -> None:
    assert tool.versions_now().keys() == tool.SOURCES.keys() == tool.VERSIONED_IN.keys()
    assert all((tool.ROOT / place.partition(" ")[0]).is_file() for place in tool.VERSIONED_IN.values())


def test_every_source_is_behind_some_stage() -> None:
    behind = {path for patterns in tool.SOURCES.values() for path in files_of(patterns)}
    rest = set(files_of(tool.NO_OUTCOME))
    there = {path for path in files_of(tool.COVERED) if path.stat().st_size}
    assert not sorted(str(path) for path in there - behind - rest), "add these to SOURCES or NO_OUTCOME"
    assert not sorted(str(path) for path in behind & rest)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the sources behind ``popularity``."""
    for path in files_of((*tool.SOURCES["popularity"], *tool.EVERYWHERE)):
        place = tmp_path / path.relative_to(tool.ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)
    return tmp_path


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        ('def numbers(rows: int) -> list[int]:\n    """All of them."""\n', "def numbers(rows):\n", False),
        ("    return list(range(rows))\n", "    # Why.\n    return list(\n        range(rows)\n    )\n", False),
        ("LIMIT: int = 3\n", 'LIMIT = 3\n"""Of rows."""\n', False),
        ("LIMIT: int = 3\n", "LIMIT: int = 4\n", True),
        ("range(rows)", "range(rows + 1)", True),
        ("def numbers(rows: int)", "def numbers(rows: int = 1)", True),
        ('f"{rows} rows"', 'f"{rows:d} rows"', True),
    ],
)
def test_prose_does_not_count_and_code_does(copy: Path, old: str, new: str, counts: bool) -> None:
    text = (
        'LIMIT: int = 3\n\n\ndef numbers(rows: int) -> list[int]:\n    """All of them."""\n'
        '    name = f"{rows} rows"\n    return list(range(rows))\n'
    )
    place = copy / "backbones" / "sasrec.py"
    place.write_text(text)
    before = digest_of(tool.SOURCES["popularity"], copy)
    assert old in text
    place.write_text(text.replace(old, new))
    assert (digest_of(tool.SOURCES["popularity"], copy) != before) is counts


def test_an_edit_of_a_copy_of_the_real_sources_is_noticed(copy: Path) -> None:
    assert digest_of(tool.SOURCES["popularity"], copy) == digest_of(tool.SOURCES["popularity"])
    place = copy / "seeding.py"
    place.write_text(place.read_text() + "\nSTEP = 1\n")
    assert digest_of(tool.SOURCES["popularity"], copy) != digest_of(tool.SOURCES["popularity"])


def test_a_source_that_is_gone_is_named(copy: Path) -> None:
    (copy / "backbones" / "sasrec.py").unlink()
    with pytest.raises(FileNotFoundError, match=r"sasrec\.py is behind a stage"):
        digest_of(tool.SOURCES["popularity"], copy)


def test_what_is_said_and_what_acknowledging_does(tmp_path: Path) -> None:
    path = tmp_path / "lock.json"
    before = {"sids": Locked(2, "a"), "old": Locked(1, "x")}
    assert faults({}, before) == [f"the stage {name} is new: {tool.COMMAND}" for name in ("old", "sids")]
    assert tool.acknowledge(before, path) == ["old", "sids"]
    assert tool.read_lock(path) == before
    assert not faults(before, before)

    assert faults(before, {"sids": Locked(2, "b"), "old": Locked(1, "x")}) == [
        "the sources behind the stage sids changed. Has its outcome changed? Raise its version in "
        f"pipeline/stages/train.py; else acknowledge: {tool.COMMAND}"
    ]
    raised = {"sids": Locked(3, "b")}
    assert faults(before, raised) == [
        f"the stage old is no longer made: {tool.COMMAND}",
        f"the version of the stage sids was raised to 3: {tool.COMMAND}",
    ]
    assert tool.acknowledge(raised, path) == ["sids"]
    assert not faults(tool.read_lock(path), raised)

    lowered = {"sids": Locked(1, "b")}
    assert "was lowered from 3 to 1" in faults(raised, lowered)[0]
    with pytest.raises(SystemExit, match="versions of sids were lowered"):
        tool.acknowledge(lowered, path)
    assert tool.read_lock(path) == raised
