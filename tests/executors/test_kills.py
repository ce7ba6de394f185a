"""A sweep that is killed at random moments and issued again loses nothing and does nothing twice."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from tests.executors.conftest import ROOT
from tests.executors.light_sweep import METHODS


@dataclass
class Grid:
    """A grid in a folder of its own, and what was seen of it."""

    root: Path
    seeds: int
    seconds: float
    stages: dict[str, bytes] = field(default_factory=dict)
    redone: list[str] = field(default_factory=list)

    def issue(self) -> subprocess.Popen[bytes]:
        words = [str(self.root), "--seeds", str(self.seeds), "--seconds", str(self.seconds)]
        command = [sys.executable, "-m", "tests.executors.light_sweep", *words]
        self.root.mkdir(exist_ok=True)
        with (self.root / "said.txt").open("ab") as said:
            # Its workers import the light work by its name.
            env = {**os.environ, "PYTHONPATH": str(ROOT)}
            return subprocess.Popen(command, cwd=ROOT, env=env, stdout=said, stderr=said, start_new_session=True)

    def look(self) -> None:
        """Note the stages that are complete; one that was and is another now has been computed twice."""
        cache = self.root / "cache"
        # Drafts are removed by workers that outlive their sweep for a moment.
        for path in cache.glob("stages/*/*/[!.]*/stage.json"):
            content = path.read_bytes()
            if self.stages.setdefault(str(path), content) != content:
                self.redone.append(str(path))
        # A stage that was complete never goes again.
        self.redone += [place for place in self.stages if not Path(place).is_file()]

    def records(self) -> dict[str, str]:
        """Records by place, but for the times; drafts, which a job may still be removing, are left aside."""
        found = {}
        for path in sorted((self.root / "results").glob("*/*/*/[!.]*/result.json")):
            content = json.loads(path.read_text())
            del content["created"]
            found[path.relative_to(self.root).as_posix()] = json.dumps(content)
        return found

    def whole(self) -> bool:
        return len(self.records()) == self.seeds * len(METHODS)


def jobs_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Processes that run jobs: the fork server's children."""
    try:
        sweep = psutil.Process(process.pid)
        return [one for child in sweep.children() for one in child.children()]
    except psutil.Error:
        return []


def kill(process: subprocess.Popen[bytes], rng: random.Random, longest: float) -> str:
    """End a sweep at a random moment: its whole group, or first one of its workers and then the rest."""
    what = "group"
    if rng.random() < 0.3:
        # On a busy machine a sweep has no workers for longer than any kill should wait.
        ends = time.monotonic() + 60
        while not jobs_of(process) and process.poll() is None and time.monotonic() < ends:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.0, longest / 2))
        workers = jobs_of(process)
        if workers:
            what = "worker"
            try:
                rng.choice(workers).kill()
            except psutil.NoSuchProcess:
                what = "group"
    time.sleep(rng.uniform(0.0, longest / 2 if what == "worker" else longest))
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        what = "none"
    process.wait()
    return what


def stages(seeds: int) -> int:
    """Stages of a whole grid: dataset and task; IDs, original and retrain of each seed, and one for each method."""
    return 2 + seeds * (3 + len(METHODS) - 1)


def killed_again_and_again(folder: Path, kills: int, *, seeds: int, seconds: float, longest: float) -> dict[str, int]:
    """Kill so many times, in as many grids as that takes; returns what was killed how often, and how many grids."""
    rng = random.Random(7)
    counts = {"group": 0, "worker": 0, "grids": 0}
    grids: list[Grid] = []
    while counts["group"] + counts["worker"] < kills:
        grid = Grid(folder / f"grid{len(grids)}", seeds, seconds)
        grids.append(grid)
        while counts["group"] + counts["worker"] < kills and not grid.whole():
            what = kill(grid.issue(), rng, longest)
            counts[what] = counts.get(what, 0) + 1
            grid.look()
    calm = Grid(folder / "calm", seeds, seconds)
    assert calm.issue().wait() == 0
    for grid in grids:
        assert grid.issue().wait() == 0, (grid.root / "said.txt").read_text()
        grid.look()
        assert grid.redone == []
        assert grid.records() == calm.records()
        assert len(grid.stages) == stages(seeds)
        # What a killed process left half-written has gone with the next attempt.
        assert list((grid.root / "cache").glob("stages/*/*/.draft-*")) == []
    assert len(calm.records()) == seeds * len(METHODS)
    counts["grids"] = len(grids)
    counts["drafts of results"] = sum(len(list((grid.root / "results").rglob(".draft-*"))) for grid in grids)
    return counts


@pytest.mark.slow
def test_a_few_kills_lose_nothing(tmp_path: Path) -> None:
    counts = killed_again_and_again(tmp_path, 4, seeds=2, seconds=0.15, longest=2.5)
    assert counts["group"] + counts["worker"] == 4


@pytest.mark.slow
def test_two_sweeps_at_once_divide_the_work(tmp_path: Path) -> None:
    grid = Grid(tmp_path / "grid", 2, 0.3)
    both = [grid.issue(), grid.issue()]
    assert [one.wait() for one in both] == [0, 0], (grid.root / "said.txt").read_text()
    assert grid.whole()
    grid.look()
    assert len(grid.stages) == stages(2)
    logs = "".join(path.read_text() for path in grid.root.rglob("logs/*.log"))
    # Every stage once, whoever made it.
    assert len(re.findall(r"(?m)^\S+ \w+: [0-9.]+ s$", logs)) == stages(2)
    done = [json.loads(line) for line in (grid.root / "said.txt").read_text().splitlines() if line.startswith("[")]
    assert len(done) == 2
    assert min(map(len, done)) > 0
    assert not set(done[0]) & set(done[1])


@pytest.mark.huge
def test_a_hundred_kills_lose_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    counts = killed_again_and_again(tmp_path, 100, seeds=8, seconds=0.5, longest=5.0)
    assert counts["group"] + counts["worker"] == 100
    assert counts["worker"] > 5
    with capsys.disabled():
        print(f"\n{counts}")
