"""Altered files are refused, each with a message of its own that names the place and the mend.

The forger renews every digest that can be renewed by hand, so that nothing is caught by a digest alone unless the
alteration is one of a digest.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.submissions.altered_files import FILES
from tests.submissions.forging import is_refused

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("what", FILES)
def test_is_refused(what: str, folder: Path, leaderboard: Path) -> None:
    check, message, alter = FILES[what]
    alter(folder)
    is_refused(folder, leaderboard, check=check, message=message)
