"""Altered results are refused, each with a message of its own that names the place and the mend.

The forger renews every digest that can be renewed by hand, so that nothing is caught by a digest alone unless the
alteration is one of a digest.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.verification import verify
from tests.submissions.altered_results import RESULTS
from tests.submissions.forging import fields, is_refused, places, record


@pytest.mark.parametrize("what", RESULTS)
def test_is_refused(what: str, folder: Path, leaderboard: Path) -> None:
    check, message, alter = RESULTS[what]
    alter(folder)
    is_refused(folder, leaderboard, check=check, message=message)


def test_a_checkpoint_in_a_folder_is_refused_with_what_to_do(folder: Path, leaderboard: Path) -> None:
    """Publishing takes no path out of settings: another machine cannot load it."""
    place, local = places(folder)[0], "checkpoint=/models/q"
    command = json.loads((place / "result.json").read_text(encoding="utf-8"))["command"]
    record(place, fields(backbone_config={"checkpoint": "/models/q"}, command=f"{command} --set-backbone {local}"))
    faults = verify(load(folder, leaderboard)).checks["texts"]
    assert [fault.where.rpartition(" ")[2] for fault in faults] == ["backbone_config.checkpoint", "command"]
    assert all("'/models/q'" in fault.what and "a name on the Hub" in fault.hint for fault in faults)


@pytest.mark.parametrize(("protocol", "held"), [(2, True), (1, False)])
def test_a_published_recommender_counts_under_its_own_protocol_alone(
    folder: Path, leaderboard: Path, tmp_path: Path, protocol: int, held: bool
) -> None:
    known = Path(shutil.copytree(leaderboard, tmp_path / "leaderboard"))
    published = known / "results" / "industrial-brand" / "tiger" / "other" / "small-seed0"
    published.mkdir(parents=True)
    content = json.loads((places(folder)[0] / "result.json").read_text(encoding="utf-8"))
    change = {"backbone_config": {"layers": 1}, "protocol_version": protocol}
    (published / "result.json").write_text(json.dumps({**content, **change}), encoding="utf-8")
    found = verify(load(folder, known))
    assert found.passed is not held, [fault.text() for fault in found.faults]
    assert any("leaderboard/results/industrial-brand" in fault.what for fault in found.checks["recommenders"]) is held
