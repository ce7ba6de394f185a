"""The file that says what jobs get on a cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.data.catalogue import read_yaml
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.executors.slurm import SlurmSettings
from tests.executors.light_work import job

TEXT = """
minutes: 60
memory_mib: 8000
setup: [module load cuda]
sbatch: {partition: gpu, account: lab, mail-type: FAIL, nice: 100}
overrides:
  - where: {method: [npo, "t*"], seed: 0}
    set: {minutes: 600, sbatch: {partition: long, nice: 0, account: null}}
  - where: {until: original}
    set: {gpus: 4, cores: 8, fsdp: true, setup: []}
"""


@pytest.fixture
def settings(tmp_path: Path) -> SlurmSettings:
    (tmp_path / "slurm.yaml").write_text(TEXT)
    return read_yaml(SlurmSettings, tmp_path / "slurm.yaml")


def test_the_grid_file_wins_over_defaults_and_overrides_over_both(settings: SlurmSettings, tmp_path: Path) -> None:
    plain = settings.place(job("rmu", tmp_path, memory_mib=500, minutes=1.5))
    assert dict(plain.sbatch) == {
        "partition": "gpu",
        "account": "lab",
        "time": 2,
        "cpus-per-task": 1,
        "mem": "500M",
        "nodes": 1,
        "ntasks-per-node": 1,
        "requeue": True,
        "mail-type": "FAIL",
        "nice": 100,
    }
    for method, seed, partition in (("npo", 0, "long"), ("tracer", 0, "long"), ("tracer", 1, "gpu")):
        placed = settings.place(job(method, tmp_path, seed=seed, minutes=5))
        assert dict(placed.sbatch)["partition"] == partition
        assert dict(placed.sbatch)["time"] == (600 if partition == "long" else 5)
        assert dict(placed.sbatch)["mem"] == "8000M"
        assert ("account" in dict(placed.sbatch)) == (partition == "gpu")
        assert dict(placed.sbatch)["nice"] == (0 if partition == "long" else 100)


def test_trainings_may_be_queued_again_more_often(settings: SlurmSettings, tmp_path: Path) -> None:
    training = settings.place(job("rmu", tmp_path, until="original"))
    # Snapshots are of trainings in one process; this one has four.
    assert (training.restarts, settings.place(job("rmu", tmp_path)).restarts) == (1, 1)
    assert SlurmSettings().place(job("rmu", tmp_path, until="original")).restarts == 10
    assert training.resources.fsdp
    assert dict(training.sbatch)["gpus-per-node"] == 4
    assert training.setup == ()


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "slurm.yaml"
    path.write_text("array_sise: 3\nminutes: 0\noverrides: [{where: {methods: npo}, set: {gpu: 1}}]\n")
    with pytest.raises(ConfigError) as told:
        read_yaml(SlurmSettings, path)
    assert "array_sise: unknown key; did you mean 'array_size'?" in str(told.value)
    assert "minutes" in str(told.value)
    assert "where.methods.[key]: Input should be 'task'" in str(told.value)
    assert "did you mean 'gpus'?" in str(told.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (
            b"sbatch: {time: '1-00:00:00'}",
            "sbatch cannot set time: a job has one node, and `minutes` is its time limit",
        ),
        (b"overrides: [{where: {}, set: {sbatch: {nodes: null, time: 3}}}]", "sbatch cannot set nodes and time"),
        (b"minutes: \xff", "not UTF-8 text"),
    ],
)
def test_what_would_fail_in_the_queue_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    path = tmp_path / "slurm.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as told:
        read_yaml(SlurmSettings, path)
    assert fault in str(told.value)
