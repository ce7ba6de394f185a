"""Choices of a tuning that nobody ran."""

from __future__ import annotations

from typing import Any

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.registry import find_method, source_digest
from genrec_unlearn_bench.tuning.choice import Choice, recommender_digest
from genrec_unlearn_bench.tuning.rule import Measured, Trial


def trial(config: dict[str, Any], forget: float, retain: float) -> Trial:
    seeds = (Measured(seed=9000, forget_hr=forget, retain_ndcg=retain),)
    return Trial(config=config, forget_hr=forget, retain_ndcg=retain, seconds=2.5, diverged=False, seeds=seeds)


def choice_for(method: str = "tracer", *, task: str = "demo-brand", task_digest: str = "t", **changes: Any) -> Choice:
    """Two trials of a method on the demo, of which the second (with ``lr`` 1e-3) is taken."""
    resolved = resolve(RunRequest(task=task, method=method))
    default = resolved.method_config.model_dump(mode="json")
    fields: dict[str, Any] = {
        "protocol_version": PROTOCOL_VERSION,
        "suite_version": "0",
        "created": "2026-01-01T00:00:00+00:00",
        "task": task,
        "dataset_digest": "d",
        "task_digest": task_digest,
        "backbone": "tiger",
        "backbone_digest": recommender_digest(resolved.backbone_config, resolved.sid_config),
        "scale": "smoke",
        "encoder": resolved.encoder.key,
        "device": "cpu",
        "method": resolved.entry.name,
        "method_digest": source_digest(find_method(method)),
        "seeds": (9000,),
        "searched": ("lr",),
        "space": 2,
        "original": trial({}, 0.5, 0.2),
        "trials": (trial(default, 0.4, 0.2), trial({**default, "lr": 1e-3}, 0.1, 0.2)),
        "chosen": 1,
        "feasible": True,
        "seconds": 5.0,
        "command": "bench tune",
        **changes,
    }
    return Choice(**fields)
