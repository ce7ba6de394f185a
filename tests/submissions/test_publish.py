"""Publishing: users and targets are left out, everything that can be scored stays, and the bytes are few."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.evaluation.per_user import read_per_user, recompute
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import read_record
from genrec_unlearn_bench.submissions.publish import (
    FAMILIES,
    plain_command,
    plain_platform,
    publish_results,
    published_bytes,
    read_table,
    rests_on,
)
from tests.submissions.honest import demo_manifest, other_manifest, per_user

EVERYTHING = tuple(FAMILIES)


@pytest.fixture
def frame() -> pd.DataFrame:
    return per_user(other_manifest(), "publishing")


def test_users_are_numbered_anew_and_targets_are_gone(frame: pd.DataFrame) -> None:
    published, withheld = read_table(published_bytes(frame), "table")
    assert withheld == frozenset()
    assert (published["target"] == -1).all()
    assert published["example"].equals(frame["example"])
    for _, rows in frame.groupby(["group", "beam"]):
        again = published.loc[rows.index, "user"]
        # The same users stay together, and are numbered in order of their first row.
        assert rows.groupby("user").ngroup().nunique() == again.nunique()
        assert pd.DataFrame({"then": rows["user"], "now": again}).drop_duplicates().shape[0] == again.nunique()
        assert (again.drop_duplicates().to_numpy() == np.arange(again.nunique())).all()


def test_every_score_stays(frame: pd.DataFrame) -> None:
    published, _ = read_table(published_bytes(frame), "table")
    assert recompute(published) == recompute(frame)


def test_withheld_families_are_null_and_named(frame: pd.DataFrame) -> None:
    published, withheld = read_table(published_bytes(frame, ["influence", "similarity"]), "table")
    assert withheld == {"influence", "similarity"}
    for family, columns in FAMILIES.items():
        assert published[list(columns)].isna().all().all() == (family in withheld)
    told = {(v.metric, v.group, v.beam): v for v in recompute(frame)}
    for value in recompute(published):
        if rests_on(value.metric) not in withheld:
            assert value == told[value.metric, value.group, value.beam]
        else:
            assert value.value is None
    with pytest.raises(UnknownName, match="similarty"):
        published_bytes(frame, ["similarty"])


def test_the_bytes_are_fixed_and_few(frame: pd.DataFrame) -> None:
    assert published_bytes(frame, EVERYTHING) == published_bytes(frame.copy(), EVERYTHING)
    demo = per_user(demo_manifest(), "publishing")
    # 2,402 rows with random ranks, which are dearer than real ones.
    assert len(published_bytes(demo, EVERYTHING)) < 15_000
    assert len(published_bytes(demo, ["similarity"])) < 0.7 * len(published_bytes(demo))


def test_a_tree_is_published_whole(home: Path, tmp_path: Path) -> None:
    records = publish_results(home / "results", tmp_path / "one", withhold=EVERYTHING)
    assert len(records) == 4
    files = {path.relative_to(tmp_path / "one"): path for path in (tmp_path / "one").rglob("*") if path.is_file()}
    assert {path.name for path in files} == {
        "result.json",
        "per_user.parquet",
        "demo-brand.json",
        "industrial-brand.json",
    }
    for path in files.values():
        if path.name == "result.json":
            published = read_record(path.parent)
            before = read_record(home / "results" / path.parent.relative_to(tmp_path / "one"))
            kept = RunRecord.model_fields.keys() - {"command", "environment", "per_user_digest"}
            assert all(getattr(published, name) == getattr(before, name) for name in kept)
            assert published.environment.platform == "Linux-x86_64-glibc2.36"
            assert "/home" not in published.command
            assert "/tmp" not in published.command
            assert "--data-dir data" in published.command
            frame, withheld = read_table((path.parent / "per_user.parquet").read_bytes(), "table")
            assert withheld == set(EVERYTHING)
            # Whoever reads tables in the usual way can read this one, too.
            assert read_per_user(path.with_name("per_user.parquet")).equals(frame)
    publish_results(home / "results", tmp_path / "two", withhold=EVERYTHING)
    publish_results(home / "results", tmp_path / "two", withhold=EVERYTHING)
    for relative, path in files.items():
        assert (tmp_path / "two" / relative).read_bytes() == path.read_bytes()
    assert publish_results(tmp_path / "two", tmp_path / "three") == [], "what is published already is passed over"


def test_drafts_are_not_published(home: Path, tmp_path: Path) -> None:
    complete = next((home / "results").rglob("manifest.json")).parent
    shutil.copytree(complete, tmp_path / "results" / ".draft-smoke-seed0-aa")
    assert publish_results(tmp_path / "results", tmp_path / "tree") == []


@pytest.mark.parametrize(
    ("command", "plain"),
    [
        ("bench run --task a --data-dir /x/y --seed 0", "bench run --task a --data-dir y --seed 0"),
        ("bench run --task a --data-dir / --tuned-dir=/t", "bench run --task a --data-dir data --tuned-dir=t"),
        ("bench run --method /home/me/mine.py:Mine", "bench run --method mine.py:Mine"),
        ("bench run --method '/my files/mine.py'", "bench run --method mine.py"),
        ("bench run --method C:\\\\me\\\\mine.py", "bench run --method mine.py"),
        ("bench run --encoder ~/minilm --set lr=1e-4", "bench run --encoder minilm --set lr=1e-4"),
        ("bench run --method methods/mine.py", "bench run --method methods/mine.py"),
    ],
)
def test_a_plain_command(command: str, plain: str) -> None:
    assert plain_command(command) == plain
    assert plain_command(plain) == plain


@pytest.mark.parametrize(
    ("platform", "plain"),
    [
        ("Linux-6.1.0-13-amd64-x86_64-with-glibc2.36", "Linux-x86_64-glibc2.36"),
        ("Linux-5.15.0-1-aarch64-with-musl1.2", "Linux-aarch64-musl1.2"),
        ("macOS-14.2.1-arm64-arm-64bit", "macOS-arm64"),
        ("Windows-10-10.0.19045-SP0", "Windows"),
    ],
)
def test_a_plain_platform(platform: str, plain: str) -> None:
    assert plain_platform(platform) == plain
    assert plain_platform(plain) == plain
