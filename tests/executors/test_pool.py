"""The pool: limits that hold, deaths that stay where they are, memory not promised twice, nothing left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from genrec_unlearn_bench.executors.claims import Claims
from genrec_unlearn_bench.executors.executor import Ended
from genrec_unlearn_bench.executors.limits import available_mib, gpus_here, total_mib
from genrec_unlearn_bench.executors.memory_needs import BY_SCALE, MemoryNeeds
from genrec_unlearn_bench.executors.pool import Pool
from genrec_unlearn_bench.executors.room import Machine, gpus_of
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.log import read_log
from tests.executors.conftest import ROOT, World


def end(pool: Pool) -> Ended:
    """The next attempt that ends."""
    for _ in range(100):
        ended = pool.ended(1.0)
        if ended:
            return ended[0]
    raise AssertionError("nothing ended")


def alive(world: World) -> list[psutil.Process]:
    """Processes of the world's pools."""
    place = str(world.folder.root)
    return [one for one in psutil.process_iter(["cmdline"]) if place in (one.info["cmdline"] or [])]


def test_limits_stop_a_job_and_nothing_else(world: World) -> None:
    jobs = [
        world.job("long", ends="hangs", minutes=0.02),
        world.job("fat", ends="grows", mib=600, memory_mib=300),
        world.job("after"),
    ]
    outcome = world.sweep(jobs, world.pool(1))
    assert sorted(outcome.done) == ["after"]
    long, fat = outcome.failed["long"], outcome.failed["fat"]
    assert (long.how, fat.how, long.attempts, fat.attempts) == ("over time", "over memory", 1, 1)
    assert "it may take 0.02 minutes" in long.error
    assert "it may take 300 MiB" in fat.error
    assert any("stopped after" in line for line in long.tail)
    assert world.events("long")[-1].state == "failed"
    assert alive(world) == []


def test_a_process_that_dies_takes_its_own_job_with_it(world: World) -> None:
    jobs = [
        world.job("once", ends="killed once"),
        world.job("always", ends="killed"),
        world.job("leaves", ends="exit"),
        world.job("fine"),
    ]
    outcome = world.sweep(jobs, world.pool(2))
    assert sorted(outcome.done) == ["fine", "once"]
    assert (outcome.failed["always"].how, outcome.failed["always"].attempts) == ("died", 2)
    assert "its process ended without a word, by signal SIGKILL" in outcome.failed["always"].error
    assert any("SIGKILL" in line for line in outcome.failed["always"].tail)
    assert outcome.failed["leaves"].error.startswith("the job's code ended its process (exit code 3)")


def test_a_poisoned_process_is_not_used_again(world: World) -> None:
    pool = world.pool(1)
    pool.submit([world.job("bad", ends="poison")], [1])
    assert end(pool).how == "failed"
    pool.submit([world.job("good", seconds=0.01)], [1])
    assert end(pool).how == "done"
    assert world.events("bad")[-1].pid != world.events("good")[-1].pid
    pool.close()
    assert alive(world) == []


def test_a_process_serves_jobs_that_suit_it_one_after_the_other(world: World) -> None:
    pool = world.pool(1, machine=Machine(cores=2, gpus=()))
    pids = set()
    for number in range(3):
        pool.submit([world.job(f"job{number}")], [1])
        assert end(pool).how == "done"
        pids |= {process.pid for process in alive(world)}
    assert len(pids) == 1
    pool.submit([world.job("wide", cores=2)], [1])
    assert end(pool).how == "done"
    assert pids.isdisjoint(process.pid for process in alive(world))
    stored = [path.read_text() for path in world.cache.glob("unlearned/*/*/model")]
    # Each with as many threads as it was given cores.
    assert sorted(text.split()[-1] for text in stored) == ["1", "1", "1", "2"]
    pool.close()


def test_noise_on_the_output_is_no_answer(world: World) -> None:
    outcome = world.sweep([world.job("noisy", ends="warns"), world.job("next")], world.pool(1))
    assert sorted(outcome.done) == ["next", "noisy"]
    warnings = [line.text for line in read_log(world.folder.log("noisy")) if line.event == "warning"]
    assert len(warnings) == 1
    assert warnings[0].startswith("RuntimeWarning: look here (light_work.py:")


def test_memory_is_not_promised_twice(world: World) -> None:
    free = [1000.0]
    machine = Machine(cores=4, gpus=(), available=lambda: free[0], total=lambda: 2000.0)
    pool = world.pool(4, machine=machine)
    large = [world.job(f"large{number}", memory_mib=600, ends="hangs") for number in range(2)]
    assert pool.room_for(large[0])
    pool.submit(large[:1], [1])
    # The first has not taken what it was promised, so 1000 MiB seem free. They are not.
    assert not pool.room_for(large[1])
    assert pool.room_for(world.job("small", memory_mib=200))
    free[0] = 1700.0
    assert pool.room_for(large[1])
    pool.close()
    # Alone it may start whatever is free just now.
    free[0] = 10.0
    assert world.pool(4, machine=machine).room_for(large[0])


def test_a_bound_on_memory_counts_what_was_promised(world: World) -> None:
    machine = Machine(cores=4, gpus=(), memory_mib=1000, available=lambda: 1e6, total=lambda: 1e6)
    pool = world.pool(4, machine=machine)
    pool.submit([world.job("one", memory_mib=700, ends="hangs")], [1])
    assert not pool.room_for(world.job("two", memory_mib=400))
    assert pool.room_for(world.job("three", memory_mib=200))
    pool.close()


def test_what_was_killed_is_tried_again_alone(world: World) -> None:
    pool = world.pool(2)
    victim, other = world.job("victim", ends="hangs"), world.job("other", ends="hangs")
    pool.submit([victim], [1])
    (process,) = alive(world)
    process.kill()
    ended = end(pool)
    assert (ended.how, ended.transient) == ("died", True)
    pool.submit([other], [1])
    assert not pool.room_for(victim)
    pool.close()
    assert pool.room_for(victim)
    pool.submit([victim], [2])
    assert not pool.room_for(other)
    pool.close()


def test_nothing_outlives_a_sweep_that_is_killed(world: World) -> None:
    code = (
        "import sys, time; from pathlib import Path; from tests.executors.conftest import World, Told\n"
        "world = World(Path(sys.argv[1]), Told()); pool = world.pool(2)\n"
        "pool.submit([world.job('a', ends='hangs'), world.job('b', ends='hangs')], [1, 1]); time.sleep(60)"
    )
    sweep = subprocess.Popen([sys.executable, "-c", code, str(world.root)], cwd=ROOT)
    until = time.monotonic() + 30
    while time.monotonic() < until and not all(world.events(job) for job in "ab"):
        time.sleep(0.1)
    assert len(alive(world)) == 2
    sweep.send_signal(signal.SIGKILL)
    sweep.wait()
    _, left = psutil.wait_procs(alive(world), timeout=10)
    assert left == []
    # They ended politely and said so.
    assert world.events("a")[-1].state == "lost"


def test_sweeps_of_one_machine_claim_different_things(tmp_path: Path) -> None:
    here, there = (Claims("gpu", ["0", "1", "2"], tmp_path) for _ in range(2))
    assert here.take(2) == ("0", "1")
    assert there.take(2) is None
    assert there.take(1) == ("2",)
    here.give_back(["0"])
    assert there.take(1) == ("0",)
    assert here.take(1) is None


def test_gpus_are_given_to_who_may_use_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def on(device: str, **given: int) -> Job:
        job = world.job("job", **given)
        return job.model_copy(update={"request": job.request.model_copy(update={"device": device})})

    machine = Machine(cores=8, gpus=("0", "1"))
    assert gpus_of(on("cpu"), machine) == 0
    assert gpus_of(on("auto"), machine) == 1
    assert gpus_of(on("auto"), Machine(cores=8, gpus=())) == 0
    assert gpus_of(on("cuda", gpus=2), machine) == 2
    assert gpus_of(on("cuda:1"), machine) is None
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, 5")
    assert gpus_here() == ("3", "5")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert gpus_here() == ()


def test_needs_are_what_was_recorded_or_a_guess_by_scale(world: World) -> None:
    job = world.job("job")
    assert MemoryNeeds().of(world.job("told", memory_mib=7)) == 7
    assert MemoryNeeds().of(job) == BY_SCALE["smoke"]
    place = job.request.results_dir / job.request.task / job.request.backbone / "npo" / "smoke-seed0-abc"
    place.mkdir(parents=True)
    text = '{"environment": {"device": "%s"}, "cost": {"peak_memory_mib": 2000.0}}'
    (place / "result.json").write_text(text % "cuda")
    assert MemoryNeeds().of(job) == BY_SCALE["smoke"]
    (place / "result.json").write_text(text % "cpu")
    assert MemoryNeeds().of(job) == 3000


def test_the_machine_has_some_memory() -> None:
    assert 0 < available_mib() <= total_mib()
    assert os.cpu_count()
