"""Cells settled together are settled as they would be alone."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from genrec_unlearn_bench.errors import BenchError, CapabilityMissing
from genrec_unlearn_bench.grid.settled import Settler
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.setting import Setting, settle

REQUESTS: list[dict[str, Any]] = [
    {"method": "tracer"},
    {"method": "tracer", "seed": 3},
    {"method": "tracer", "method_set": {"lr": 1e-4}},
    {"method": "tracer", "ruleset": "fixed"},
    {"method": "original", "ruleset": "fixed"},
    {"method": "retrain", "suite": "full", "measure": ("probing",)},
    {"method": "filter", "backbone": "mor", "backbone_set": {"training.epochs": 2}},
    {"method": "tracer", "scale": "small", "encoder": "tfidf:64", "threads": 3, "device": "cpu"},
    {"method": "tracer", "ruleset": "tuned"},
    {"method": "tracre"},
    {"method": "original", "method_set": {"lr": 1}},
    {"method": "filter", "task": "demo-interaction"},
    {"method": "tracer", "backbone_set": {"training.epoch": 1}},
]


def outcome(call: Any, request: RunRequest) -> Any:
    """The setting's fields, or the words of the fault."""
    try:
        setting: Setting = call(request)
    except BenchError as fault:
        return type(fault), fault.render()
    told = {field.name: getattr(setting, field.name) for field in fields(setting)}
    # A method compares by identity; its configuration is a field of its own.
    return {**told, "method": type(setting.method)}


def test_together_as_alone() -> None:
    settler = Settler()
    for changes in REQUESTS * 2:
        request = RunRequest(**{"task": "demo-brand", **changes})
        assert outcome(settler, request) == outcome(settle, request), changes


def test_a_fault_is_told_each_time() -> None:
    settler = Settler()
    refused = RunRequest(task="demo-interaction", method="filter")
    for _ in range(2):
        with pytest.raises(CapabilityMissing, match="interaction"):
            settler(refused)
