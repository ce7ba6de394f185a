"""Cost as metric values."""

from __future__ import annotations

from genrec_unlearn_bench.evaluation.cost import SPECS, cost_values
from genrec_unlearn_bench.evaluation.invariants import check_invariants


def test_values() -> None:
    values = cost_values(
        unlearn_seconds=12.5, share_of_retraining=None, peak_memory_mib=900.0, steps=40, tuning_trials=3
    )
    assert {v.metric: v.value for v in values} == {
        "cost.unlearn-seconds": 12.5,
        "cost.share-of-retraining": None,
        "cost.peak-memory": 900.0,
        "cost.steps": 40.0,
        "cost.tuning-trials": 3.0,
    }
    assert [v.metric for v in values] == [spec.name for spec in SPECS]
    assert check_invariants(values) == []
    negative = cost_values(unlearn_seconds=-1.0, share_of_retraining=0.1, peak_memory_mib=1.0, steps=1)
    assert len(check_invariants(negative)) == 1
