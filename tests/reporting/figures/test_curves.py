"""Curves read back from tables: whose they are, over which seeds, and with which interval."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS
from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.catalogue import Panels, estimates, read_tables
from genrec_unlearn_bench.reporting.figures.model import FLOOR_LABEL, PALETTE, FigureRequest, SelectedRows, mean_of
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from tests.reporting.boards import make_results
from tests.reporting.figures.conftest import block_of
from tests.reporting.figures.synthetic import full_records, write_full, write_table
from tests.reporting.planting import board_of, rows

PROTOCOL = statistics_protocol(1)
AUROC = Panels(value="auroc", ylabel="AUROC")
BANDED = AUROC.model_copy(update={"interval": ("auroc_low", "auroc_high")})


def only(tmp_path: Path, table: list[dict[str, object]], *, seeds: tuple[int, ...] = (0,)) -> Block:
    """A block of one method that has one table, the same at every seed."""
    records = [record for record in full_records(seeds=seeds) if record.cell.method == "npo"]
    write_full(tmp_path, records, kinds=())
    for folder in tmp_path.rglob(MEASUREMENTS):
        write_table(folder / "probing.csv", table)
    return block_of(tmp_path)


def of(block: Block, label: str) -> pd.DataFrame:
    """A row's table of probes."""
    table = read_tables(block, "probing", PROTOCOL)
    assert table is not None
    return table[table["label"] == label]


def test_references_are_read_beside_methods_that_have_no_results_of_theirs(tmp_path: Path) -> None:
    models = ("run", "original", "retrain", "retrain 1", "untrained")
    table = [{"model": model, "site": "prompt", "layer": 1, "auroc": place} for place, model in enumerate(models)]
    block = only(tmp_path, table)
    values = {
        label: estimates(of(block, label), ("site",), AUROC, PROTOCOL)["prompt",].mean
        for label in ("npo", "original", "retrain", FLOOR_LABEL)
    }
    assert values == {"npo": 0.0, "original": 1.0, "retrain": 2.0, FLOOR_LABEL: 4.0}


def test_a_references_own_results_come_before_what_stands_beside_others(tmp_path: Path) -> None:
    records = [record for record in full_records(seeds=(0, 1)) if record.cell.method in ("npo", "original")]
    write_full(tmp_path, records, kinds=())
    for place, folder in enumerate(sorted(tmp_path.rglob(MEASUREMENTS))):
        own = "original" in str(folder)
        table = [{"model": model, "auroc": 10 * own + place} for model in ("run", "original", "untrained")]
        write_table(folder / "probing.csv", table)
    block = block_of(tmp_path)
    assert set(of(block, "original")["auroc"]) == {"12", "13"}
    assert set(of(block, "original")["model"]) == {"run"}
    # Each seed once, from the first table that has it.
    assert sorted(of(block, FLOOR_LABEL)["auroc"]) == ["12", "13"]


@pytest.mark.parametrize("numbers", [[0.5, 0.7], [0.1, 0.2, 0.35, 0.3]])
def test_the_interval_over_seeds_is_scipys(numbers: list[float]) -> None:
    found = mean_of(numbers, PROTOCOL)
    low, high = stats.t.interval(0.95, len(numbers) - 1, loc=np.mean(numbers), scale=stats.sem(numbers))
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(numbers), low, high))
    assert (found.seeds, found.interval) == (len(numbers), "t over seeds")


def test_one_seed_has_the_measurements_own_interval_and_several_have_that_over_seeds(tmp_path: Path) -> None:
    table = [{"model": "run", "site": "prompt", "auroc": 0.6, "auroc_low": 0.55, "auroc_high": 0.7}]
    one = only(tmp_path / "one", table)
    seeds = of(one, "npo")
    found = estimates(seeds, ("site",), BANDED, PROTOCOL)["prompt",]
    assert (found.low, found.high, found.seeds, found.interval) == (0.55, 0.7, 1, "of the measurement")
    three = of(only(tmp_path / "three", table, seeds=(0, 1, 2)), "npo")
    found = estimates(three, ("site",), BANDED, PROTOCOL)["prompt",]
    assert (found.low, found.high, found.seeds, found.interval) == (0.6, 0.6, 3, "t over seeds")


def test_what_was_not_measured_is_no_point_and_never_zero(tmp_path: Path) -> None:
    table = [{"model": "run", "site": "prompt", "layer": -1, "auroc": ""}]
    seeds = of(only(tmp_path, table), "npo")
    assert estimates(seeds, ("site", "layer"), AUROC, PROTOCOL) == {}


def test_rows_are_chosen_by_the_columns_that_are_there(tmp_path: Path) -> None:
    table = [{"model": "run", "part": part, "site": "prompt", "auroc": value} for part, value in (("a", 1), ("b", 2))]
    seeds = of(only(tmp_path, table), "npo")
    assert (
        estimates(seeds, ("site",), AUROC.model_copy(update={"where": {"part": "b"}}), PROTOCOL)["prompt",].mean == 2.0
    )
    assert (
        estimates(seeds, ("site",), AUROC.model_copy(update={"where": {"group": "forget"}}), PROTOCOL)["prompt",].seeds
        == 2
    )


def test_text_in_place_of_a_number_is_told(tmp_path: Path) -> None:
    seeds = of(only(tmp_path, [{"model": "run", "auroc": "high"}]), "npo")
    with pytest.raises(CorruptArtefact, match="'high'"):
        estimates(seeds, ("site",), AUROC, PROTOCOL)


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    block = only(tmp_path, [{"model": "run", "auroc": 0.5}])
    for path in tmp_path.rglob("probing.csv"):
        path.write_bytes(b"model,auroc\n\xff\xfe,1\n")
    with pytest.raises(CorruptArtefact, match="cannot be read"):
        read_tables(block, "probing", PROTOCOL)


def test_diverged_rows_are_left_out_and_named() -> None:
    results = make_results(full_records(seeds=(0, 1)))
    broken = [
        r.__class__(**{**{n: getattr(r, n) for n in r.__slots__}, "diverged": r.method == "npo"}) for r in results
    ]
    selected = SelectedRows.of(board_of(broken).blocks[0], FigureRequest(PROTOCOL))
    assert "npo" not in [row.label for row in selected.rows]
    assert selected.notes == ("Left out: npo, which diverged in 2 of 2 runs.",)


def test_looks_of_neighbours_differ_and_parts_hold_no_more_than_can_be_told_apart() -> None:
    many = rows(original=[0.2, 0.2], retrain=[0.1, 0.1], **{f"m{place:02d}": [0.1, 0.1] for place in range(15)})
    selected = SelectedRows.of(board_of(many).blocks[0], FigureRequest(PROTOCOL))
    parts = list(selected.parts())
    assert [ending for ending, _ in parts] == ["-1", "-2", "-3"]
    for _, labels in parts:
        assert len(labels) == 2 + 5
        assert len({selected.looks[label] for label in labels}) == len(labels)
    some = SelectedRows.of(board_of(many).blocks[0], FigureRequest(PROTOCOL), {"m00", f"m{len(PALETTE):02d}"})
    assert len({some.looks[row.label] for row in some.rows}) == 2


def test_methods_may_be_named_and_the_references_stay(measured: Block) -> None:
    selected = SelectedRows.of(measured, FigureRequest(PROTOCOL, ("tr*",)))
    assert [row.label for row in selected.rows] == ["tracer"]
    assert (selected.original, selected.oracle) == ("original", "retrain")
