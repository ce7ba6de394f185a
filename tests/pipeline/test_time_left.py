"""The time left of a call with several cells, by what earlier cells of the same sort took."""

from __future__ import annotations

from genrec_unlearn_bench.pipeline.cells import _time_left
from genrec_unlearn_bench.pipeline.request import RunRequest


def cell(method: str, seed: int = 0) -> tuple[RunRequest, None]:
    return RunRequest(task="demo-brand", method=method, seed=seed), None


def test_time_left_is_the_mean_of_cells_of_the_same_sort() -> None:
    took = {("tiger", True): [600.0, 200.0], ("tiger", False): [60.0, 120.0]}
    cells = [cell("npo"), cell("original", 1), cell("retrain", 1), cell("npo", 1)]
    assert _time_left(cells, took) == " · about 16 min left"


def test_nothing_is_said_before_a_cell_of_each_sort_is_known() -> None:
    assert _time_left([cell("npo")], {("tiger", True): [600.0]}) == ""
    assert _time_left([], {}) == ""
