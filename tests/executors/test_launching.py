"""Jobs on several GPUs: the command line, the configurations that ship, and two processes that do a job together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from genrec_unlearn_bench.executors.launching import Assignment, launch, launch_command
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.journal import Journal, latest
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder
from genrec_unlearn_bench.pipeline.request import RunRequest
from tests.executors.light_work import job


def assignment(root: Path, given: Job) -> Assignment:
    return Assignment(job=given, folder=root / "sweep", cache=root / "cache", attempt=2, executor="local")


def test_the_command_line_starts_one_process_a_gpu(tmp_path: Path) -> None:
    given = job("original", tmp_path, until="original", gpus=4, cores=9)
    command = launch_command(assignment(tmp_path, given))
    options = dict(zip(command[3:-3:2], command[4:-3:2], strict=True))
    assert options["--num_processes"] == "4"
    assert options["--num_cpu_threads_per_process"] == "2"
    # Two such jobs on one machine do not ask for the same port.
    assert options["--main_process_port"] == "0"
    assert Path(options["--config_file"]).name == "multi_gpu.yaml"
    assert command[-3:-1] == ["--module", "genrec_unlearn_bench.executors.launched"]
    assert Assignment.model_validate_json(Path(command[-1]).read_bytes()).job == given


def test_a_split_training_takes_the_configuration_that_ships(tmp_path: Path) -> None:
    given = job("original", tmp_path, gpus=8)
    split = given.model_copy(update={"resources": Resources(gpus=8, fsdp=True)})
    command = launch_command(assignment(tmp_path, split))
    config = yaml.safe_load(Path(command[command.index("--config_file") + 1]).read_text())
    assert config["distributed_type"] == "FSDP"
    # What backbones/sharding.py asks of it.
    assert config["fsdp_config"]["fsdp_version"] == 2
    assert not config["fsdp_config"]["fsdp_cpu_ram_efficient_loading"]
    assert not config["fsdp_config"]["fsdp_offload_params"]


@pytest.fixture
def training(tmp_path: Path) -> Job:
    """An original of two steps."""
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
    return Job(name="original", request=request, until="original", resources=Resources(gpus=2))


@pytest.mark.slow
@pytest.mark.parametrize("fsdp", [False, True])
def test_two_processes_train_together(training: Job, tmp_path: Path, fsdp: bool) -> None:
    """On CPUs they find each other over gloo."""
    given = training.model_copy(update={"resources": Resources(gpus=2, fsdp=fsdp)})
    ended = launch(assignment(tmp_path, given))
    assert ended.how == "done", ended.error
    told = Journal(SweepFolder(tmp_path / "sweep").events).events()
    # One speaks for both.
    assert [(event.state, event.attempt) for event in told if event.state != "alive"] == [("running", 2), ("done", 2)]
    assert len({event.pid for event in told}) == 1
    (notes,) = (tmp_path / "cache" / "original").rglob("notes.json")
    assert json.loads(notes.read_text())["notes"]["train.processes"] == 2


@pytest.mark.slow
def test_a_job_that_fails_ends_all_its_processes(training: Job, tmp_path: Path) -> None:
    request = training.request.model_copy(update={"task": "no-such-task"})
    ended = launch(assignment(tmp_path, training.model_copy(update={"request": request})))
    assert ended.how == "failed"
    assert "no-such-task" in ended.error
    assert latest(Journal(SweepFolder(tmp_path / "sweep").events).events())["original"].state == "failed"


def test_a_launcher_that_does_not_start_is_told(training: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    ended = launch(assignment(tmp_path, training))
    assert ended.how == "died"
    assert "ended with 1 before the first had a word to say" in ended.error
    assert latest(Journal(SweepFolder(tmp_path / "sweep").events).events())["original"].state == "lost"
