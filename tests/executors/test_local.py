"""Local processes: limits hold, deaths stay where they are, memory is not promised twice, nothing is left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from genrec_unlearn_bench.executors.local import BY_SCALE, Machine, gpus_here, memory_for
from genrec_unlearn_bench.executors.task import Assignment, launch_command, perform
from genrec_unlearn_bench.grid.spec import Job, Resources
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from tests.executors.conftest import ROOT, World


def running(world: World, *jobs: str, seconds: float = 60.0) -> list[psutil.Process]:
    """The processes of jobs that hang, once they do."""
    until = time.monotonic() + seconds
    while not all("original: " in world.log(job) for job in jobs):
        assert time.monotonic() < until
        time.sleep(0.05)
    return [psutil.Process(world.state(job).pid) for job in jobs]


@pytest.mark.slow
def test_limits_stop_a_job_and_nothing_else(world: World) -> None:
    jobs = [
        world.job("long", ends="hangs", minutes=0.2),
        world.job("fat", ends="grows", mib=900, memory_mib=600),
        world.job("after"),
    ]
    outcome = world.sweep(jobs, world.local(1))
    assert sorted(outcome.done) == ["after"]
    long, fat = outcome.failed["long"], outcome.failed["fat"]
    assert (long.how, fat.how, long.attempts, fat.attempts) == ("over time", "over memory", 1, 1)
    assert "it may take 0.2 minutes" in long.error
    assert "it may take 600 MiB" in fat.error
    assert "stopped (" in world.log("long")
    assert world.state("long").state == "failed"


def test_a_process_that_dies_takes_its_own_job_with_it(world: World) -> None:
    jobs = [
        world.job("once", ends="killed once"),
        world.job("always", ends="killed"),
        world.job("leaves", ends="exit"),
        world.job("fine"),
        world.job("noisy", ends="warns"),
        world.job("bad", ends="diverges"),
    ]
    outcome = world.sweep(jobs, world.local(2))
    assert sorted(outcome.done) == ["bad", "fine", "noisy", "once"]
    assert (outcome.failed["always"].how, outcome.failed["always"].attempts) == ("died", 2)
    assert "its process ended without a word, with exit code -9" in outcome.failed["always"].error
    assert "exit code -9" in world.log("always")
    assert outcome.failed["leaves"].error.startswith("the job's code ended its process (exit code 3)")
    assert "RuntimeWarning: look here" in world.folder.log("noisy").with_suffix(".out").read_text()
    assert [name for name, ended in outcome.done.items() if ended.diverged] == ["bad"]


def test_a_damaged_stage_is_computed_again_and_the_sweep_says_so(world: World) -> None:
    world.sweep([world.job("first")])
    for path in world.cache.glob("stages/original/*/*/stage.json"):
        path.write_text("{")
    assert sorted(world.sweep([world.job("second")], world.local(1)).done) == ["second"]
    assert any("warning: second: the stored stage 'original' was damaged" in line for line in world.shown.lines)
    assert world.state("second").quarantined


def test_memory_is_not_promised_twice(world: World) -> None:
    local = world.local(4, machine=Machine(cores=4, gpus=(), memory_mib=1000))
    local.start(world.job("large", ends="hangs", memory_mib=600))
    # It has not taken what it was promised, so more seems free.
    assert not local.has_capacity(world.job("other", memory_mib=600))
    assert local.has_capacity(world.job("small", memory_mib=200))
    local.close()
    # Alone a job may start whatever is guessed of it.
    assert local.has_capacity(world.job("guessed"))


@pytest.mark.slow
def test_nothing_outlives_a_sweep_that_is_killed(world: World) -> None:
    script = world.root / "sweep.py"
    script.write_text(
        "import sys, time; from pathlib import Path; from tests.executors.conftest import Lines, World\n"
        "if __name__ == '__main__':\n"
        "    world = World(Path(sys.argv[1]), Lines()); local = world.local(2)\n"
        "    [local.start(world.job(name, ends='hangs')) for name in 'ab']; time.sleep(60)\n"
    )
    sweep = subprocess.Popen([sys.executable, str(script), str(world.root)], cwd=ROOT)
    processes = running(world, "a", "b")
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    _, left = psutil.wait_procs(processes, timeout=15)
    assert left == []
    # They ended politely and wrote so.
    assert world.state("a").state == "lost"


def test_gpus_are_given_to_who_may_use_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(device: str, **given: int) -> Job:
        job = world.job("job", **given)
        return job.model_copy(update={"request": job.request.model_copy(update={"device": device})})

    machine = Machine(cores=8, gpus=("0", "1"))
    assert machine.gpus_for(on("cpu")) == 0
    assert machine.gpus_for(on("auto")) == 1
    assert Machine(cores=8, gpus=()).gpus_for(on("auto")) == 0
    assert machine.gpus_for(on("cuda", gpus=2)) == 2
    assert machine.gpus_for(on("cuda:1")) == 0
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert gpus_here() == ("3", "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-8932f937-d72c,MIG-11,-1,GPU-5")
    assert gpus_here() == ("GPU-8932f937-d72c", "MIG-11")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus_here() == ()


def test_needs_are_the_grids_or_a_guess_by_scale(world: World) -> None:
    assert memory_for(world.job("told", memory_mib=7)) == 7
    assert memory_for(world.job("job")) == BY_SCALE["smoke"]
    assert Machine().memory_mib > 0


def assignment(root: Path, job: Job) -> Assignment:
    return Assignment(job=job, folder=SweepFolder.of(root / "cache", "light").root)


def test_the_command_line_starts_one_process_a_gpu(world: World) -> None:
    job = world.job("original", gpus=4, cores=9)
    command = launch_command(assignment(world.root, job), world.root / "given.json")
    options = dict(zip(command[3:-3:2], command[4:-3:2], strict=True))
    assert options["--num_processes"] == "4"
    assert options["--num_cpu_threads_per_process"] == "2"
    # Two such jobs on one machine do not ask for the same port.
    assert options["--main_process_port"] == "0"
    assert Path(options["--config_file"]).name == "multi_gpu.yaml"
    assert command[-3:] == ["--module", "genrec_unlearn_bench.executors.task", str(world.root / "given.json")]
    split = job.model_copy(update={"resources": Resources(gpus=8, fsdp=True)})
    command = launch_command(assignment(world.root, split), world.root / "given.json")
    config = yaml.safe_load(Path(command[command.index("--config_file") + 1]).read_text())
    assert config["distributed_type"] == "FSDP"
    # What backbones/distributed.py asks of it.
    assert config["fsdp_config"]["fsdp_version"] == 2
    assert not config["fsdp_config"]["fsdp_cpu_ram_efficient_loading"]
    assert not config["fsdp_config"]["fsdp_offload_params"]


def test_a_launcher_that_does_not_start_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    given = assignment(world.root, world.job("original", gpus=2))
    ended = perform(given)
    assert ended.how == "died"
    assert "ended with 1 before the first could report" in ended.error


@pytest.mark.matrix
@pytest.mark.parametrize("fsdp", [False, True])
def test_two_processes_train_together(tmp_path: Path, fsdp: bool) -> None:
    """On CPUs they find each other over gloo."""
    from genrec_unlearn_bench.grid.expand import graph_builder

    request = RunRequest(
        task="demo-brand",
        method="original",
        backbone="mor",
        scale="smoke",
        device="cpu",
        threads=1,
        backbone_set={"training.max_steps": 2},
        results_dir=tmp_path / "results",
    )
    key = graph_builder()(request).stages["original"].key
    job = Job(name="original", request=request, until="original", key=key, resources=Resources(gpus=2, fsdp=fsdp))
    ended = perform(assignment(tmp_path, job))
    assert ended.how == "done", ended.error
    (notes,) = (tmp_path / "cache" / "stages" / "original").rglob("notes.json")
    assert json.loads(notes.read_text())["notes"]["train.processes"] == 2
