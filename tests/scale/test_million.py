"""A catalogue of a million items and a million users, from its files to evaluated lists, within 8 GB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.scale.meter import can_reset
from tests.scale.world import World, write_world

LIMIT = 8 * 1024
"""MiB of resident memory."""


@pytest.mark.huge
@pytest.mark.skipif(not can_reset(), reason="the system does not forget earlier peaks of memory")
def test_a_million_items_and_users_within_eight_gigabytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``SCALE_ITEMS`` sets another size."""
    size = int(os.environ.get("SCALE_ITEMS", "1000000"))
    write_world(World(size, size), tmp_path / "shop")
    out = tmp_path / "stages.json"
    command = [sys.executable, "-m", "tests.scale.line", str(tmp_path / "shop"), "--work", str(tmp_path / "work")]
    with capsys.disabled():
        subprocess.run([*command, "--json", str(out)], check=True, cwd=Path(__file__).parents[2])
    stages = json.loads(out.read_text(encoding="utf-8"))
    worst = max(stages, key=lambda stage: stage["peak"])
    assert worst["peak"] <= LIMIT, f"{worst['stage']}: {worst['peak']:.0f} MiB"
