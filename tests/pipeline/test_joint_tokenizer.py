"""A backbone that trains its tokenizer along (ETEGRec): which table the oracles and the methods get."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.pipeline.token_health import token_health
from genrec_unlearn_bench.sids.storage import load_table
from genrec_unlearn_bench.sids.table import SidTable
from tests.pipeline.conftest import Bench

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
    (record,) = (bench.root / "cache" / stage).glob(f"*/*/{inner or '.'}/sids.json")
    return load_table(record.parent)


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
        [level.used for level in token_health(request, bench.store, bench.told, served=flag).levels]
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
