"""What the tampering tests rest on: the honest submission passes, and no two alterations share a message."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.verification import Badge
from genrec_unlearn_bench.submissions.verify import TITLES, verify
from tests.submissions.altered_archives import ARCHIVES
from tests.submissions.altered_files import FILES
from tests.submissions.altered_results import RESULTS


def test_the_honest_one_passes(folder: Path, leaderboard: Path) -> None:
    found = verify(load(folder, leaderboard))
    assert found.passed, [fault.text() for fault in found.faults]
    assert found.badge is Badge.RESCORED
    assert not found.notices


def test_each_alteration_has_a_message_of_its_own() -> None:
    messages = [message for _, message, _ in (*RESULTS.values(), *FILES.values())]
    messages += [message for message, _ in ARCHIVES.values()]
    assert len(messages) >= 24
    for one in messages:
        assert [other for other in messages if one in other] == [one]


def test_every_check_refuses_something() -> None:
    seen = {check for check, _, _ in (*RESULTS.values(), *FILES.values())}
    assert set(TITLES) == seen
