"""Shared test settings: one thread, so that timings and sums do not depend on the load; records and runs to look at."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from genrec_unlearn_bench.evaluation.metric import Group
    from genrec_unlearn_bench.pipeline.record import RunRecord
    from tests.pipeline.conftest import Bench
    from tests.planted import Planted

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Imports are remembered in the user's data folder: not in that of whoever runs the tests.
DATA_HOME = tempfile.TemporaryDirectory(prefix="bench-tests-")
os.environ["XDG_DATA_HOME"] = DATA_HOME.name


@pytest.fixture
def record_of() -> Callable[..., RunRecord]:
    """``record_of("tracer", {("hr@10", Group.FORGET): 0.1})``: the same number at both beams."""

    from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
    from genrec_unlearn_bench.pipeline.record import Cell, Cost, Environment, RunRecord

    def make(
        method: str, numbers: dict[tuple[str, Group], float | None] | None = None, *, seed: int = 0, **changes: Any
    ) -> RunRecord:
        metrics = [
            MetricValue(metric=metric, group=group, value=number, beam=beam)
            for (metric, group), number in (numbers or {}).items()
            for beam in ((None,) if group is Group.ALL else (10, 50))
        ]
        fields: dict[str, Any] = {
            "protocol_version": 1,
            "suite_version": "0",
            "key": "k" * 64,
            "cell": Cell(task="demo-brand", backbone="tiger", method=method, seed=seed, scale="smoke", suite="core"),
            "created": "2026-01-01T00:00:00+00:00",
            "dataset_digest": "d",
            "task_digest": "t",
            "method_digest": "m",
            "method_config": {},
            "backbone_config": {},
            "sid_config": {},
            "encoder": "tfidf:128",
            "effective_batch_size": 1,
            "stages": (),
            "environment": Environment(
                device="cpu", device_name="", precision="fp32", threads=1, python="", platform="", packages={}
            ),
            "cost": Cost(unlearn_seconds=12.34, peak_memory_mib=1.0, steps=1),
            "metrics": tuple(metrics),
            "per_user_digest": "",
            "command": "",
            **changes,
        }
        return RunRecord(**fields)

    return make


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """A bench on which the original, its oracle and TRACER have been run. Tests may add to it, never damage it."""
    from tests.pipeline.conftest import Bench

    bench = Bench(tmp_path_factory.mktemp("bench"))
    bench.run("tracer")
    return bench


@pytest.fixture(scope="session")
def planted() -> Planted:
    """The planted recommender with its request, shared by all tests; methods must not change it."""
    from tests.planted import build

    return build()


@pytest.fixture
def bench_at(tmp_path: Path) -> Callable[[str], Bench]:
    """Empty benches of a test's own."""
    from tests.pipeline.conftest import Bench

    return lambda name: Bench(tmp_path / name)
