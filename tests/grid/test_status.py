"""How a sweep stands, by its folder alone: counts, late heartbeats, lost owners, failures, time left."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli import grid_run
from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.executors.sweep import SweepOutcome
from genrec_unlearn_bench.grid.plan import Plan
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import JobState, State, SweepFacts, SweepFolder
from genrec_unlearn_bench.grid.status import sweep_status
from genrec_unlearn_bench.pipeline.request import RunRequest

NOW = 1_800_000_000.0
NOBODY = 2**22 - 1
"""A process number that is not given out."""


def job(name: str, backbone: str = "tiger", until: str = "result", **more: Any) -> Job:
    return Job(name=name, request=RunRequest(task="demo-brand", method="npo", backbone=backbone), until=until, **more)


def sweep(
    tmp_path: Path, jobs: Sequence[Job], states: Sequence[JobState] = (), grid: str = "mine", **facts: Any
) -> SweepFolder:
    folder = SweepFolder.of(tmp_path / "cache", grid)
    given = {"started": 1.0, "command": "bench grid run mine", "results_dir": "results"}
    folder.begin(SweepFacts.model_validate({**given, **facts}), jobs)
    for state in states:
        folder.write(state)
    return folder


def written(job: str, state: State, ago: float = 10.0, **more: Any) -> JobState:
    return JobState(job=job, state=state, updated=NOW - ago, **{"host": "n17", "pid": 1, **more})


def test_jobs_are_counted_by_state(tmp_path: Path) -> None:
    jobs = [job("a"), job("b"), job("c", "mor"), job("d", "mor"), job("e"), job("o", until="original")]
    states = [written("a", "done"), written("b", "running", 5), written("c", "failed"), written("d", "skipped")]
    states.append(written("o", "queued"))
    now = sweep_status(sweep(tmp_path, jobs, states), now=NOW)
    assert now.counts == {"queued": 2, "running": 1, "done": 1, "failed": 1, "skipped": 1, "lost": 0}
    assert (now.cells, now.ready) == (5, 1)
    assert [one.job for one in now.failed] == ["c", "d"]


def test_a_sweep_shows_its_own_jobs_after_another_has_begun_in_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, folder = Plan(()), sweep(tmp_path, [job("a")], [written("a", "running"), written("b", "running")])
    display = grid_run._Display(folder, plan, [job("a")])
    sweep(tmp_path, [job("b")])
    monkeypatch.setattr(grid_run, "QUIET", -1.0)
    display.tick(SweepOutcome())
    _, shown = capsys.readouterr().err.split("0 of 1 jobs done")
    assert shown.strip().startswith("a: ")


def test_what_an_earlier_sweep_left_is_queued_again(tmp_path: Path) -> None:
    states = [written("a", "failed", 50), written("b", "lost", 50), written("c", "failed", 5)]
    now = sweep_status(sweep(tmp_path, [job(name) for name in "abc"], states, started=NOW - 20), now=NOW)
    assert (now.counts["queued"], now.counts["failed"]) == (2, 1)


def test_a_running_job_says_where_it_is_and_for_how_long(tmp_path: Path) -> None:
    states = [written("a", "running", 4, started=NOW - 300, attempts=2, stage="original", place="12_3")]
    [one] = sweep_status(sweep(tmp_path, [job("a")], states), now=NOW).running
    assert (one.stage, one.host, one.place, one.attempt, one.late) == ("original", "n17", "12_3", 2, "")
    assert one.seconds == 300


def test_silence_is_late_elsewhere_and_a_missing_process_is_lost_here(tmp_path: Path) -> None:
    here = {"host": platform.node()}
    states = [written("away", "running", 500), written("gone", "running", 3, **here, pid=NOBODY)]
    # Its number has been given to another process since.
    states.append(written("reused", "running", NOW - 1.0, **here, pid=os.getpid()))
    states.append(written("lives", "running", 3, **here, pid=os.getpid()))
    jobs = [job(name) for name in ("away", "gone", "reused", "lives")]
    now = sweep_status(sweep(tmp_path, jobs, states), now=NOW)
    assert {one.job: bool(one.late) for one in now.running} == {"away": True, "lives": False}
    assert now.counts["lost"] == 2
    assert {one.job for one in now.failed} == {"gone", "reused"}
    assert now.moves


def test_a_torn_or_emptied_state_is_no_state(tmp_path: Path) -> None:
    folder = sweep(tmp_path, [job("a"), job("b")], [written("a", "done"), written("b", "done")])
    folder.state_file("a").write_text("")
    folder.state_file("b").write_text(folder.state_file("b").read_text()[:20])
    assert sweep_status(folder, now=NOW).counts["queued"] == 2
    assert folder.state("a") is None


def test_the_next_look_reads_what_came_since(tmp_path: Path) -> None:
    folder = sweep(tmp_path, [job("a"), job("b")])
    assert sweep_status(folder, now=NOW).counts["queued"] == 2
    folder.write(written("a", "done"))
    assert sweep_status(folder, now=NOW).counts["done"] == 1
    sweep(tmp_path, [job("a")])
    assert sweep_status(folder, now=NOW).counts == {
        "queued": 0,
        "running": 0,
        "done": 1,
        "failed": 0,
        "skipped": 0,
        "lost": 0,
    }


def test_time_left_is_of_what_was_measured_else_of_estimates(tmp_path: Path) -> None:
    jobs = [job("a", seconds=10.0), job("b", seconds=10.0), job("c"), job("d", "mor", seconds=30.0)]
    # b has run for 5 s of the 20 that a took, c takes as long; of mor there is an estimate alone.
    states = [written("a", "done", seconds=20.0), written("b", "running", 5.0, started=NOW - 5.0)]
    now = sweep_status(sweep(tmp_path, jobs, states), now=NOW)
    assert now.seconds_left == pytest.approx((20 - 5) + 20 + 30)
    idle = sweep_status(sweep(tmp_path, jobs, states[:1], grid="idle"), now=NOW)
    assert idle.seconds_left is None
    assert not idle.moves


def test_time_left_is_of_jobs_as_they_are_shown(tmp_path: Path) -> None:
    jobs = [job(name, seconds=30.0) for name in ("lives", "gone", "again")]
    gone = written("gone", "running", 3, host=platform.node(), pid=NOBODY)
    states = [written("lives", "running", started=NOW), gone, written("again", "failed", 50)]
    now = sweep_status(sweep(tmp_path, jobs, states, started=NOW - 20), now=NOW)
    assert now.seconds_left == pytest.approx(30 + 30), "one runs and one is tried again; a dead process does neither"


def test_reference_rows_are_no_measure_of_methods(tmp_path: Path) -> None:
    row = Job(name="p", request=RunRequest(task="demo-brand", method="popularity"))
    quick = written("p", "done", seconds=0.5)
    running = written("a", "running", started=NOW)
    unknown = sweep_status(sweep(tmp_path, [row, job("a")], [quick, running]), now=NOW)
    assert unknown.seconds_left is None
    states = [quick, written("a", "done", seconds=70.0), written("b", "running", 0.0, started=NOW)]
    known = sweep_status(sweep(tmp_path, [row, job("a"), job("b")], states, grid="other"), now=NOW)
    assert known.seconds_left == pytest.approx(70)


def test_the_command_prints_tables_lines_and_json(tmp_path: Path) -> None:
    states = [written("a", "done"), written("b", "failed", error="no such thing\n  where: here", attempts=3)]
    folder = sweep(tmp_path, [job("a"), job("b"), job("c", "mor")], states, cells=5, done=2)
    older = sweep(tmp_path, [job("z")], grid="older")
    for name in ("jobs.jsonl", "sweep.json"):
        os.utime(older.root / name, (1, 1))
    folder.log("b").parent.mkdir()
    folder.log("b").write_text("Traceback\nno such thing\n")
    call = ["grid", "status", "--cache-dir", str(tmp_path / "cache")]
    text = CliRunner().invoke(app, call)
    assert text.exit_code == 0, text.output
    for part in ("cells ready: 3 of 5", "b, attempt 3: failed: no such thing", "goes on with: bench grid run mine"):
        assert part in text.stdout
    assert "other sweeps of this cache: older" in text.stdout
    assert "where: here" not in text.stdout
    whole = CliRunner().invoke(app, [*call, "mine", "--failed"]).stdout
    assert "where: here" in whole
    assert "| " in whole
    assert "Traceback" in whole
    content = json.loads(CliRunner().invoke(app, [*call, "older", "--json"]).stdout)
    assert content["counts"]["queued"] == 1
    wrong = CliRunner().invoke(app, [*call, "mien"])
    assert wrong.exit_code == 2
    assert "did you mean mine" in wrong.output
    assert "no sweep was started" in CliRunner().invoke(app, ["grid", "status", "--cache-dir", str(tmp_path)]).output


def big_sweep(tmp_path: Path, count: int) -> SweepFolder:
    """A sweep with so many jobs, each done."""
    folder = sweep(tmp_path, [], grid="big")
    one = job("?", seconds=5.0).model_dump_json()
    names = [f"industrial-brand/tiger/m{index % 12}/small-core-default-seed{index}" for index in range(count)]
    (folder.root / "jobs.jsonl").write_text("".join(one.replace('"?"', f'"{name}"') + "\n" for name in names))
    (folder.root / "jobs").mkdir()
    state = written("?", "done", seconds=4.0).model_dump_json()
    for name in names:
        folder.state_file(name).write_text(state.replace('"?"', f'"{name}"'))
    return folder


def seconds_of_status(tmp_path: Path) -> tuple[float, dict[str, Any]]:
    """CPU time of ``bench grid status`` in a process of its own, and what it says."""
    program = (
        "import resource, sys; from genrec_unlearn_bench.cli.main import app\n"
        "try: app(sys.argv[1:])\n"
        "except SystemExit: pass\n"
        "used = resource.getrusage(resource.RUSAGE_SELF); print(used.ru_utime + used.ru_stime, file=sys.stderr)\n"
        "print('torch' in sys.modules, file=sys.stderr)"
    )
    call = [sys.executable, "-c", program, "grid", "status", "--json", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    seconds, torch = done.stderr.split()
    assert torch == "False"
    return float(seconds), json.loads(done.stdout)


@pytest.mark.parametrize("count", [2000, pytest.param(50_000, marks=pytest.mark.slow)])
def test_many_jobs_are_counted_in_few_times_their_reading(tmp_path: Path, count: int) -> None:
    """Against what nobody can spare: the start, by the status of one job, and reading each file once."""
    folder = big_sweep(tmp_path, count)
    began = time.process_time()
    assert all(json.loads(file.read_bytes())["state"] == "done" for file in (folder.root / "jobs").iterdir())
    least = time.process_time() - began
    seconds, content = seconds_of_status(tmp_path)
    assert content["counts"]["done"] == count
    big_sweep(tmp_path / "one", 1)
    start, _ = seconds_of_status(tmp_path / "one")
    print(f"{count} jobs: {seconds:.2f} s of processor time, start {start:.2f} s, reading the files {least:.2f} s")
    assert seconds < 1.5 * start + 6 * least
