"""``make matrix``: every method on every backbone for every kind of request, one test a cell.

Skipped cells are those that a method declares it does not serve.
"""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.errors import CapabilityMissing
from genrec_unlearn_bench.pipeline.stage import StageContext
from genrec_unlearn_bench.registry import methods
from genrec_unlearn_bench.store.store import StageStore, default_cache
from tests.smoke.matrix import run_cell

TASKS = ("demo-brand", "demo-price", "demo-item", "demo-interaction")
"""One of every kind of request."""
METHODS = [name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of]

# Task by task, so that two workers begin with two originals and do not wait for one.
CELLS = [
    pytest.param(name, backbone, task, marks=pytest.mark.xdist_group(f"{backbone} {task}"))
    for task in TASKS
    for backbone in backbones()
    for name in METHODS
]


@pytest.fixture(scope="session")
def context() -> StageContext:
    """Data and originals stay in memory and in the user's cache."""
    return StageContext(StageStore(default_cache()))


@pytest.mark.matrix
@pytest.mark.parametrize(("name", "backbone", "task"), CELLS)
def test_cell(context: StageContext, name: str, backbone: str, task: str) -> None:
    try:
        _, faults = run_cell(name, backbone, task, context)
    except CapabilityMissing as fault:
        pytest.skip(fault.what)
    assert faults == []


def test_the_matrix_is_complete() -> None:
    assert len(METHODS) == 22
    assert len(CELLS) == 440
