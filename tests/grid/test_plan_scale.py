"""Planning takes a time that grows with the number of cells and not faster: 20,000 cells in under 20 s."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from genrec_unlearn_bench.grid.expand import GridCell
from genrec_unlearn_bench.grid.plan import Plan, make_plan
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.test_expand import BACKBONES
from tests.grid.planned_world import KINDS, all_rows, fake_run, lay_grounds
from tests.grid.light_graphs import grid_of

SECONDS = 20.0
CELLS = 20_000


def timed(cells: Iterable[GridCell], cache: Path) -> tuple[Plan, float]:
    """A plan and the seconds of this process alone that it took: other processes may have the cores meanwhile."""
    began = time.process_time()
    plan = make_plan(list(cells), StageStore(cache), Progress())
    return plan, time.process_time() - began


def test_time_grows_with_the_number_of_cells(tmp_path: Path) -> None:
    cache, results = tmp_path / "cache", tmp_path / "results"
    lay_grounds(StageStore(cache), KINDS[:1])
    few = grid_of(results, rows=("original", "filter", "npo"), seeds=10)
    many = grid_of(results, rows=("original", "filter", "npo"), seeds=80)
    fake_run(StageStore(cache), many)
    timed(few, cache)
    (_, little), (plan, much) = timed(few, cache), timed(many, cache)
    assert plan.counts["done"] == len(many) == 8 * len(few)
    assert much < 2 * 8 * little
    shutil.rmtree(cache / "sids")
    shutil.rmtree(results)
    plan, much = timed(many, cache)
    assert plan.counts["missing"] == len(many)
    assert much / len(many) < 2 * SECONDS / CELLS


@pytest.mark.slow
def test_twenty_thousand_cells(tmp_path: Path) -> None:
    cache, results = tmp_path / "cache", tmp_path / "results"
    rows = all_rows()
    seeds = -(-CELLS // (len(rows) * len(KINDS) * len(BACKBONES)))
    cells = grid_of(results, tasks=KINDS, backbones=BACKBONES, rows=rows, seeds=seeds)
    assert len(cells) >= CELLS
    told = {}
    _, told["nothing there"] = timed(cells, cache)
    lay_grounds(StageStore(cache), KINDS)
    plan, told["all missing"] = timed(cells, cache)
    assert plan.counts["done"] == 0
    refused = fake_run(StageStore(cache), cells)
    plan, told["all done"] = timed(cells, cache)
    assert plan.counts == {"done": len(cells) - refused, "missing": 0, "stale": 0, "impossible": refused}
    print({name: f"{seconds:.1f} s" for name, seconds in told.items()})
    assert max(told.values()) < SECONDS, told
