"""A wide terminal for all verbs."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and digests in one line: a worker of pytest-xdist has a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "160")
