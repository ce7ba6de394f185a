"""What the tampering tests rest on: the honest submission passes, and every check refuses something."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import CHECKS, load, take_inventory
from genrec_unlearn_bench.submissions.publish import publish_results
from genrec_unlearn_bench.submissions.record_checks import published_records
from genrec_unlearn_bench.submissions.verification import verify
from tests.submissions import forging
from tests.submissions.altered_files import FILES
from tests.submissions.altered_results import RESULTS
from tests.submissions.test_attacks import ATTACKS


def test_the_honest_one_passes(folder: Path, leaderboard: Path) -> None:
    found = verify(load(folder, leaderboard))
    assert found.passed, [fault.text() for fault in found.faults]
    assert found.badge is Badge.RE_SCORED
    assert not found.notices


def test_every_check_refuses_something() -> None:
    seen = {check for check, _, _ in (*RESULTS.values(), *FILES.values(), *ATTACKS.values())}
    assert set(CHECKS) == seen


def test_results_are_held_against_the_leaderboards_own(
    folder: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaderboard = Path(shutil.copytree(home / "leaderboard", tmp_path / "leaderboard"))
    publish_results(home / "results", leaderboard / "results")
    assert verify(load(folder, leaderboard)).passed
    for place in (leaderboard / "results" / "industrial-brand").rglob("result.json"):
        content = json.loads(place.read_text(encoding="utf-8"))
        place.write_text(json.dumps({**content, "encoder": "tfidf:64"}), encoding="utf-8")
    faults = verify(load(folder, leaderboard)).faults
    assert len(faults) == 2
    assert "than in leaderboard/results/industrial-brand/tiger/mine/" in faults[0].what
    assert "another encoder" in faults[0].what
    # By a relative path and through a link, as a clone has one.
    (tmp_path / "link").symlink_to("leaderboard")
    monkeypatch.chdir(tmp_path)
    for place in ("leaderboard", "link"):
        assert verify(load(folder, Path(place))).faults == faults


@pytest.mark.parametrize(("task", "backbone"), [("..", "industrial-brand"), ("tiger", "../.."), ("a\0b", "n" * 300)])
def test_names_in_a_record_do_not_lead_out_of_the_leaderboard(home: Path, task: str, backbone: str) -> None:
    inside = home / "results" / "industrial-brand"
    assert [*published_records(home / "results", "industrial-brand", "tiger")]
    assert not [*published_records(inside, task, backbone)]


def test_a_name_that_another_submission_has(folder: Path, home: Path, tmp_path: Path) -> None:
    leaderboard = Path(shutil.copytree(home / "leaderboard", tmp_path / "leaderboard"))
    other = Path(shutil.copytree(folder, leaderboard / "submissions" / "theirs"))
    # The same method submitted by somebody else, on another machine say, is welcome.
    forging.words(other, lambda content: content.update(name="theirs"))
    assert verify(load(folder, leaderboard)).passed
    forging.words(other, lambda content: content["contents"].update({"method.py": "0" * 64}))
    (fault,) = verify(load(folder, leaderboard)).faults
    assert "another submission, theirs, has a method of the name 'mine'" in fault.what


def test_too_many_and_too_deep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = folder / "results"
    for _ in range(40):
        place = place / "x"
    place.mkdir(parents=True)
    (place / "result.json").write_text("{}", encoding="utf-8")
    assert any("too long or too deep" in fault.what for fault in take_inventory(folder)[1])
    monkeypatch.setattr("genrec_unlearn_bench.submissions.bundle.FILES", 3)
    assert any("more than 3 files" in fault.what for fault in take_inventory(folder)[1])
    monkeypatch.setattr("genrec_unlearn_bench.submissions.bundle.TOTAL_BYTES", 10)
    assert any("MiB in all" in fault.what for fault in take_inventory(folder)[1])
