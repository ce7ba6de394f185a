"""A real Slurm of one node, started for these tests (``one_node_slurm.sh``): what submitit alone cannot show."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.executors.slurm import Slurm, SlurmSettings, slurm_states
from genrec_unlearn_bench.grid.expand import graph_builder
from genrec_unlearn_bench.grid.state import JobState, SweepFolder
from tests.executors import light_work
from tests.executors.conftest import World

pytestmark = pytest.mark.slurm

SCRIPT = Path(__file__).with_name("one_node_slurm.sh")
DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch")


@pytest.fixture(scope="module")
def slurm_conf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = os.pathsep.join([os.environ["PATH"], "/usr/sbin", "/sbin"])
    missing = [name for name in DAEMONS if shutil.which(name, path=path) is None]
    if missing:
        pytest.skip(f"{missing[0]} is not installed: {SCRIPT.name} install")
    # A socket's path may have 107 characters, which pytest's own folders come near to.
    state = tmp_path_factory.mktemp("slurm")
    environment = os.environ | {"ONE_NODE_SLURM": str(state), "ONE_NODE_SLURM_PORT": str(26000 + os.getpid() % 500 * 2)}
    subprocess.run([SCRIPT, "start"], env=environment, check=True)
    yield state / "slurm.conf"
    subprocess.run([SCRIPT, "stop"], env=environment, check=True)


@pytest.fixture
def slurm(world: World, slurm_conf: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Slurm]:
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))

    def made(work: str = light_work.WORK, **settings: object) -> Slurm:
        chosen = SlurmSettings.model_validate({"minutes": 10, "memory_mib": 500, **settings})
        return Slurm(world.folder, chosen, work=work, info=world.shown.info)

    return made


def last(world: World, job: str) -> JobState:
    return world.state(job)


# A requeued job is kept back for two minutes.
def until(held: Callable[[], bool], seconds: float = 300.0) -> None:
    ends = time.monotonic() + seconds
    while not held():
        assert time.monotonic() < ends, subprocess.run(
            ["squeue", "--states=all", "--array"], capture_output=True, text=True, check=False
        ).stdout
        time.sleep(0.2)


def is_in(world: World, *states: str, **jobs: str) -> bool:
    return all(last(world, name).state in (states or (state,)) for name, state in jobs.items())


def hangs(world: World, job: str) -> bool:
    """Whether a job that hangs has come to that point."""
    return last(world, job).state == "running" and "original: " in world.log(job)


def test_cells_wait_for_what_they_share(world: World, slurm: Callable[..., Slurm]) -> None:
    jobs = [
        world.job("shared", until="original", seconds=1.0),
        *(world.job(f"cell{number}", needs=("shared",), cores=1) for number in range(4)),
    ]
    slurm().submit(jobs)
    until(lambda: is_in(world, **{job.name: "done" for job in jobs}))
    began = min(last(world, job.name).started or 0.0 for job in jobs[1:])
    assert last(world, "shared").updated < began
    assert slurm_states(world.folder) == {}
    assert len({last(world, job.name).place.partition("_")[0] for job in jobs}) == 2


def test_a_requeued_job_goes_on_and_others_wait_for_it(world: World, slurm: Callable[..., Slurm]) -> None:
    jobs = [world.job("first", ends="hangs once"), world.job("second", needs=("first",))]
    slurm().submit(jobs)
    until(lambda: hangs(world, "first"))
    subprocess.run(["scontrol", "requeue", last(world, "first").place], check=True)
    until(lambda: is_in(world, second="done"))
    assert last(world, "first").attempts == 2
    assert "original: from the cache" in world.log("first")
    assert last(world, "first").updated < (last(world, "second").started or 0.0)


def test_a_more_urgent_job_takes_the_place_and_gives_it_back(world: World, slurm: Callable[..., Slurm]) -> None:
    cores = os.cpu_count()
    slurm().submit([world.job("low", ends="hangs once", cores=cores)])
    until(lambda: hangs(world, "low"))
    slurm(sbatch={"partition": "urgent"}).submit([world.job("high", cores=cores)])
    until(lambda: is_in(world, low="done", high="done"))
    assert last(world, "low").attempts == 2
    assert last(world, "low").updated > last(world, "high").updated


def test_a_time_limit_is_met_politely_and_the_job_queued_again(world: World, slurm: Callable[..., Slurm]) -> None:
    # Slurm counts whole minutes; the signal comes after 30 seconds of the one.
    jobs = [world.job("resumed", ends="hangs once", minutes=1), world.job("after", needs=("resumed",))]
    slurm().submit(jobs)
    until(lambda: is_in(world, after="done"))
    assert (last(world, "resumed").state, last(world, "resumed").attempts) == ("done", 2)


def test_a_job_over_its_time_says_so_and_what_needs_it_is_skipped(world: World, slurm: Callable[..., Slurm]) -> None:
    jobs = [world.job("endless", ends="hangs", minutes=1), world.job("after", needs=("endless",))]
    slurm().submit(jobs)
    # It is queued again once, which Slurm keeps back for two minutes.
    until(lambda: is_in(world, after="skipped"), 600.0)
    assert "raise `minutes`" in last(world, "endless").error
    assert "needs 'endless', which was not done: its time was over" in last(world, "after").error


def test_cancelled_jobs_are_told_running_or_not(world: World, slurm: Callable[..., Slurm]) -> None:
    jobs = [world.job("runs", ends="hangs"), world.job("waits", needs=("runs",))]
    slurm().submit(jobs)
    until(lambda: hangs(world, "runs"))
    assert slurm_states(world.folder) == {"runs": "RUNNING", "waits": "PENDING"}
    # A second call submits nothing.
    slurm().submit(jobs)
    assert world.shown.lines[-1] == "2 jobs are in Slurm's queue, or running, since an earlier call"
    subprocess.run(["scancel", last(world, "waits").place, last(world, "runs").place], check=True)
    until(lambda: slurm_states(world.folder) == {})
    assert is_in(world, runs="lost", waits="lost")
    assert all("CANCELLED" in last(world, name).error for name in ("runs", "waits"))
    # And a third submits both again.
    slurm().submit([world.job("runs"), world.job("waits", needs=("runs",))])
    until(lambda: is_in(world, runs="done", waits="done"))


def test_a_job_that_takes_more_memory_than_asked_for_is_told(world: World, slurm: Callable[..., Slurm]) -> None:
    slurm().submit([world.job("grows", ends="grows", mib=900, memory_mib=300)])
    until(lambda: slurm_states(world.folder) == {})
    # With cgroups Slurm calls it OUT_OF_MEMORY; here it watches by itself, and says so in the job's error output alone.
    assert last(world, "grows").state == "failed"
    assert "exceeded memory limit" in last(world, "grows").error


def test_refusals_come_in_slurms_own_words(world: World, slurm: Callable[..., Slurm]) -> None:
    with pytest.raises(UsageError, match="invalid partition specified: nope"):
        slurm(sbatch={"partition": "nope"}).submit([world.job("a")])
    with pytest.raises(UsageError, match="Requested node configuration is not available"):
        slurm().submit([world.job("a", gpus=7)])
    with pytest.raises(UsageError, match=r"Requested node configuration is not available|More processors"):
        slurm().submit([world.job("a", cores=5000)])
    with pytest.raises(UsageError, match="Requested time limit is invalid"):
        slurm().submit([world.job("a", minutes=60 * 24 * 30)])
    assert slurm_states(world.folder) == {}


def test_what_cannot_start_shows_its_error_output(world: World, slurm: Callable[..., Slurm]) -> None:
    slurm(setup=["no-such-module load cuda", "exit 3"]).submit([world.job("a")])
    until(lambda: slurm_states(world.folder) == {})
    assert last(world, "a").state == "failed"
    assert "no-such-module: command not found" in last(world, "a").error


GRID = """
name: four-cells
axes:
  task: demo-brand
  method: [original, filter, grad-diff]
  seed: [0]
  scale: smoke
settings: {device: cpu, threads: 1, backbone_set: {training.max_steps: 4}}
resources: {cores: 1, memory_mib: 3000, minutes: 30}
overrides:
  - where: {method: grad-diff}
    set: {method_set: {max_steps: 2}}
"""
OF_TIME = ("created", "seconds", "share_of_retraining", "memory", "cached", "git_")
"""Fields of a record that clocks, meters and other people's commits change."""


def bench(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "from genrec_unlearn_bench.cli.main import run; run()", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout, done.stderr)
    return done.stdout + done.stderr


def timeless(content: Any) -> Any:
    """A record without what a clock or a memory meter has said."""
    if isinstance(content, dict):
        return {key: timeless(value) for key, value in content.items() if not any(word in key for word in OF_TIME)}
    if isinstance(content, list):
        return [timeless(entry) for entry in content if not _of_cost(entry)]
    return content


def _of_cost(entry: Any) -> bool:
    return isinstance(entry, dict) and str(entry.get("metric")).startswith("cost.")


def results(root: Path) -> dict[str, Any]:
    """What lies in a results folder: records without times, other files by their bytes."""
    return {
        path.relative_to(root).as_posix(): (
            json.dumps(timeless(json.loads(path.read_text()))) if path.name == "result.json" else path.read_bytes()
        )
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def test_a_grid_comes_out_as_it_does_in_one_process(
    tmp_path: Path, slurm_conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bench grid run --executor slurm`, left alone, collected later; and the same grid in one process."""
    monkeypatch.setenv("SLURM_CONF", str(slurm_conf))
    (tmp_path / "grid.yaml").write_text(GRID)
    (tmp_path / "slurm.yaml").write_text(
        "sbatch: {partition: batch}\noverrides: [{where: {until: dataset}, set: {minutes: 10}}]\n"
    )
    cache, own = tmp_path / "slurm", tmp_path / "own"
    call = ["grid", "run", str(tmp_path / "grid.yaml"), "--slurm", str(tmp_path / "slurm.yaml"), "--executor"]
    places = ["--cache-dir", str(cache / "cache"), "--results-dir", str(cache / "results")]
    began = time.monotonic()
    bench(*call, "slurm", *places)
    print(f"submitted after {time.monotonic() - began:.1f} s")
    folder = SweepFolder.of(cache / "cache", "four-cells")
    # Again at once: nothing is submitted twice.
    before = {name: state.place for name, state in folder.states().items()}
    assert "in Slurm's queue, or running" in bench(*call, "slurm", *places)
    names = {job["name"] for job in folder.jobs()}
    assert {name: state.place for name, state in folder.states().items()} == before

    def over() -> bool:
        found = folder.states()
        assert not [state for state in found.values() if state.state in ("failed", "lost", "skipped")], found
        return all(found[name].state == "done" for name in names)

    until(over, 1500.0)
    print(subprocess.run(["squeue", "--states=all", "--array"], capture_output=True, text=True, check=True).stdout)
    bench(*call, "local", "--cache-dir", str(own / "cache"), "--results-dir", str(own / "results"))
    expected, found = results(own / "results"), results(cache / "results")
    assert sorted(found) == sorted(expected)
    assert len([name for name in found if name.endswith("result.json")]) == 3
    assert {name for name in found if found[name] != expected[name]} == set()


def test_several_gpus_are_several_processes(world: World, slurm: Callable[..., Slurm]) -> None:
    """The node's GPUs do not exist, so that the two processes find each other over gloo."""
    one = world.job("original", gpus=2, cores=2, until="original")
    fields = {
        "backbone": "mor",
        "backbone_set": {"training.max_steps": 2},
        "method_set": {},
        "device": "cpu",
        "scale": "smoke",
    }
    request = one.request.model_copy(update=fields)
    job = one.model_copy(update={"request": request, "key": graph_builder()(request).stages["original"].key})
    slurm(work="", memory_mib=6000).submit([job])
    until(lambda: last(world, "original").state in ("done", "failed", "lost"), 600.0)
    assert last(world, "original").state == "done", last(world, "original").error
    (notes,) = (world.cache / "stages" / "original").rglob("notes.json")
    assert json.loads(notes.read_text())["notes"]["train.processes"] == 2
