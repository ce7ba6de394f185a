"""The main line on real data: minutes of training, so only where it is asked for (`-m huge`) and files are there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.store.store import StageStore

pytestmark = [
    pytest.mark.huge,
    pytest.mark.skipif("GENREC_UNLEARN_BENCH_DATA" not in os.environ, reason="needs the Industrial files"),
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunRecord]:
    folder = tmp_path_factory.mktemp("industrial")
    store = StageStore(Path(os.environ.get("GENREC_UNLEARN_BENCH_CACHE", folder / "cache")))
    names = ("original", "retrain", "popularity", "tracer")
    requests = [
        RunRequest(task="industrial-brand", method=name, scale="small", results_dir=folder / "results")
        for name in names
    ]
    return {request.method: run_cell(request, store).record for request in requests}


def value(record: RunRecord, metric: str, group: Group) -> float:
    found = [m.value for m in record.metrics if (m.metric, m.group, m.beam) == (metric, group, 50)]
    assert len(found) == 1
    assert found[0] is not None
    return found[0]


def test_the_original_beats_popularity_clearly(records: dict[str, RunRecord]) -> None:
    ours, floor = (value(records[name], "ndcg@10", Group.RETAIN) for name in ("original", "popularity"))
    assert ours > 2 * floor


def test_the_retrained_model_forgets(records: dict[str, RunRecord]) -> None:
    before, after = (value(records[name], "hr@10", Group.FORGET) for name in ("original", "retrain"))
    assert after < 0.2 * before


def test_tracer_costs_a_quarter_of_retraining_at_most(records: dict[str, RunRecord]) -> None:
    share = records["tracer"].cost.share_of_retraining
    assert share is not None
    assert share <= 0.25


def test_memory_stays_small(records: dict[str, RunRecord]) -> None:
    import resource

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 4 * 1024**2  # KiB on Linux
