"""Tokenizers that learn from interactions, in whole runs: LETTER (vectors of SASRec) and ETEGRec (trained jointly)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.pipeline.run import sid_health
from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.sids.table import SidTable, load_table
from tests.pipeline.conftest import TINY, Bench

ONE_EPOCH = {"epochs": 1, "batch_size": 512, "evaluations": 1, "valid_rows": 30}
TINY_ETEGREC = {
    "shape.layers": 1,
    "shape.d_model": 32,
    "shape.d_ff": 64,
    "shape.history_limit": 3,
    "joint.epochs": 2,
    "joint.warm_epoch": 0,
    "joint.batch_size": 512,
    "joint.lr_tokenizer": 5e-3,
    "joint.valid_rows": 30,
    **{f"second.{name}": value for name, value in ONE_EPOCH.items()},
    **{f"alone.{name}": value for name, value in ONE_EPOCH.items()},
}
TINY_TOKENIZER = {"epochs": 20, "sasrec.epochs": 1}


def stored(bench: Bench, stage: str, inner: str = "") -> SidTable:
    (record,) = (bench.root / "cache" / "stages" / stage).glob(f"*/*/{inner or '.'}/sids.json")
    return load_table(record.parent)


@pytest.mark.slow
def test_oracles_and_methods_stand_on_the_codes_that_joint_training_ended_with(
    bench_at: Callable[[str], Bench],
) -> None:
    bench = bench_at("joint")
    settings = {"backbone": "etegrec", "backbone_set": TINY_ETEGREC, "sid_set": TINY_TOKENIZER}
    done = bench.run("tracer", **settings)
    first, served = stored(bench, "sids"), stored(bench, "original", f"{MODEL}/sids")
    assert not first.frozen
    assert served.frozen
    assert (first.codes != served.codes).any()
    assert stored(bench, "retrain", f"{MODEL}/sids").digest == served.digest
    unlearned = stored(bench, "unlearned", f"{MODEL}/sids")
    assert unlearned.version == served.version + 1
    changed = np.flatnonzero((unlearned.codes != served.codes).any(axis=1))
    assert len(changed) == done.record.report["items_moved"]
    assert {"sasrec", "sids", "original", "retrain", "unlearned"} <= {stage.name for stage in done.record.stages}

    request = bench.request("original", **settings)
    used = [
        [level.used for level in sid_health(request, bench.store, bench.told, served=flag).levels]
        for flag in (False, True)
    ]
    tables = [[len(np.unique(table.codes[:, level])) for level in range(3)] for table in (first, served)]
    assert [levels[:3] for levels in used] == tables

    bench.run("retrain-full", **settings)
    assert {"sasrec", "sids-full", "retrain-full"} <= set(bench.told.computed)
    anew = stored(bench, "retrain-full", f"{MODEL}/sids")
    assert anew.frozen
    assert anew.level_sizes == served.level_sizes
    assert (anew.codes != served.codes).any()


VECTORS = {"vectors.epochs": 1, "vectors.layers": 1}
SIDS = {"epochs": 2}


def run_letter(bench: Bench, method: str, **changes: object) -> FinishedRun:
    fields = {"backbone": "letter", "backbone_set": {**TINY, **VECTORS}, "sid_set": SIDS, **changes}
    return bench.run(method, **fields)


def stages(done: FinishedRun) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for stage in done.record.stages:
        found.setdefault(stage.name, []).append(stage.digest)
    return found


@pytest.mark.slow
def test_retraining_keeps_the_ids_and_retrain_full_makes_vectors_anew(bench_at: Callable[[str], Bench]) -> None:
    bench = bench_at("letter")
    before = stages(run_letter(bench, "original"))
    assert Counter(bench.told.computed)["sasrec"] == 1
    same = stages(run_letter(bench, "retrain"))
    assert "sasrec" not in bench.told.computed
    assert same["sids"] == before["sids"]
    full = stages(run_letter(bench, "retrain-full"))
    assert Counter(bench.told.computed)["sasrec"] == 1, "on cleaned interactions"
    assert Counter(bench.told.computed)["sids-full"] == 1
    assert set(full["sasrec"]) - set(before["sasrec"])
    assert set(full["sids-full"]) - set(before["sids"])


@pytest.mark.slow
def test_other_vectors_give_other_ids(bench_at: Callable[[str], Bench]) -> None:
    bench = bench_at("letter")
    one = run_letter(bench, "original", oracle_seeds=0)
    other = run_letter(bench, "original", backbone_set={**TINY, **VECTORS, "vectors.lr": 2e-3}, oracle_seeds=0)
    assert Counter(bench.told.computed)["sids"] == 1
    assert stages(one)["sids"] != stages(other)["sids"]
