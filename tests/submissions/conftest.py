"""One honest submission a session; every test that alters something gets a copy of its own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from genrec_unlearn_bench.submissions.submit import submit
from tests.submissions.honest import known_leaderboard, prepared, request


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with raw ``results``, ``mine.py``, ``leaderboard`` and the honest ``submissions/mine``."""
    root = prepared(tmp_path_factory.mktemp("honest"))
    known_leaderboard(root)
    submit(**request(root))
    return root


@pytest.fixture(scope="session")
def leaderboard(home: Path) -> Path:
    """A leaderboard that knows the tasks."""
    return home / "leaderboard"


@pytest.fixture
def folder(home: Path, tmp_path: Path) -> Path:
    """A copy of the honest submission."""
    return Path(shutil.copytree(home / "submissions" / "mine", tmp_path / "submissions" / "mine"))
