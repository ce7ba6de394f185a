"""LETTER in whole runs: its vectors are a stage of their own, made anew wherever the concept must not be known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from genrec_unlearn_bench.pipeline.pipeline import Finished
from tests.pipeline.conftest import TINY, Bench

VECTORS = {"vectors.epochs": 1, "vectors.layers": 1}
SIDS = {"epochs": 2}


def run(bench: Bench, method: str, **changes: object) -> Finished:
    fields = {"backbone": "letter", "backbone_set": {**TINY, **VECTORS}, "sid_set": SIDS, **changes}
    return bench.run(method, **fields)


def stages(done: Finished) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for stage in done.record.stages:
        found.setdefault(stage.name, []).append(stage.digest)
    return found


def test_retraining_keeps_the_ids_and_retrain_full_makes_vectors_anew(bench_at: Callable[[str], Bench]) -> None:
    bench = bench_at("letter")
    before = stages(run(bench, "original"))
    assert Counter(bench.told.computed)["sasrec"] == 1
    same = stages(run(bench, "retrain"))
    assert "sasrec" not in bench.told.computed
    assert same["sids"] == before["sids"]
    full = stages(run(bench, "retrain-full"))
    assert Counter(bench.told.computed)["sasrec"] == 1, "on cleaned interactions"
    assert Counter(bench.told.computed)["sids-full"] == 1
    assert set(full["sasrec"]) - set(before["sasrec"])
    assert set(full["sids-full"]) - set(before["sids"])


def test_other_vectors_give_other_ids(bench_at: Callable[[str], Bench]) -> None:
    bench = bench_at("letter")
    one = run(bench, "original", oracle_seeds=0)
    other = run(bench, "original", backbone_set={**TINY, **VECTORS, "vectors.loss": "bce"}, oracle_seeds=0)
    assert Counter(bench.told.computed)["sids"] == 1
    assert stages(one)["sids"] != stages(other)["sids"]
