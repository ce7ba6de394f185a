"""Tables: rulesets and scales apart, tasks side by side, references first, gaps as gaps."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import DataMissing
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import StageRef
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.sentences import latex_notes, notes
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.boards import VARIANTS, make_records, make_synthetic_board, make_synthetic_tables
from tests.reporting.planting import board_of, plant, rows


def main(*groups: object, **options: object) -> tuple[Table, ...]:
    return make_tables(board_of(*groups), find_layout("main", 1), statistics_protocol(1), **options)  # type: ignore[arg-type]


def labels(table: Table, section: int = 0) -> list[str]:
    return [line.label for line in table.sections[section].lines]


def test_rulesets_and_scales_are_tables_of_their_own() -> None:
    numbers = {"forget:hr@10": [0.1, 0.2]}
    tables = main(
        plant("a", numbers, ruleset="tuned", method_config={"x": 1}),
        plant("a", numbers, ruleset="fixed", method_config={"x": 1}),
        plant("a", numbers, ruleset="tuned", scale="paper", method_config={"x": 1}),
    )
    assert sorted(table.name for table in tables) == ["main-fixed-small", "main-tuned-paper", "main-tuned-small"]


def test_tasks_stand_side_by_side_and_then_in_further_tables() -> None:
    tasks = ("a-brand", "b-brand", "c-brand")
    board = make_synthetic_board(make_records(tasks=tasks, backbones=("tiger",), seeds=(0, 1)))
    tables = make_tables(board, find_layout("main", 1), statistics_protocol(1))
    assert [(table.name, table.tasks) for table in tables] == [
        ("main-tuned-small-1", ("a-brand", "b-brand")),
        ("main-tuned-small-2", ("c-brand",)),
    ]
    assert len(tables[0].columns) == 16


def test_tasks_of_other_backbones_are_tables_of_their_own() -> None:
    """Side by side, half of every row would be empty."""
    seeds = (0, 1)
    both = make_records(tasks=("a-brand", "c-brand"), backbones=("tiger", "mor"), seeds=seeds)
    board = make_synthetic_board([*both, *make_records(tasks=("b-brand",), backbones=("tiger",), seeds=seeds)])
    found = make_tables(board, find_layout("main", 1), statistics_protocol(1))
    assert [(table.name, table.tasks, [section.title for section in table.sections]) for table in found] == [
        ("main-tuned-small-1", ("a-brand", "c-brand"), ["mor", "tiger"]),
        ("main-tuned-small-2", ("b-brand",), ["tiger"]),
    ]


def test_a_method_that_was_not_run_on_a_task_has_empty_cells_there() -> None:
    table = make_synthetic_tables("main")[0]
    line = next(line for line in table.sections[0].lines if line.label == "pisces")
    assert [entry.cell is None for entry in line.entries] == [False] * 8 + [True] * 8


def test_a_record_without_retain_near_has_a_dash_there() -> None:
    measured = plant("a", {"forget:hr@10": [0.1, 0.2], "retain-near:ndcg@10": [0.3, 0.4]})
    board = board_of(measured, plant("b", {"forget:hr@10": [0.1, 0.2]}))
    table = make_tables(board, find_layout("main"), statistics_protocol())[0]
    [place] = [place for place, column in enumerate(table.columns) if column.measure.group is Group.NEAR]
    shown = {line.label: line.entries[place].cell for line in table.sections[0].lines}
    assert shown["a"] is not None
    assert shown["a"].mean == pytest.approx(0.35)
    assert shown["b"] is not None
    assert shown["b"].mean is None


def test_a_diverged_run_is_said_with_its_task_and_number() -> None:
    table = make_synthetic_tables("main")[0]
    told = {line.label: line.diverged for section in table.sections for line in section.lines if line.diverged}
    assert told == {"grad-ascent": ("industrial-brand (1 of 5)",)}


def test_runs_whose_training_was_ended_early_are_named_below_the_table() -> None:
    early = {"ended_early": {"original": "after step 8 of 60"}}
    whole = rows(original=[0.3, 0.3], tracer=[0.1, 0.1])
    [table], [others] = main(whole, plant("npo", {"forget:hr@10": [0.1, 0.2]}, **early)), main(whole)
    [text] = [text for text in notes(table) if "max_hours" in text]
    assert text.endswith("as max_hours ended it: npo on industrial-brand with tiger (2 of 2).")
    assert [text for text in latex_notes(table) if "max" in text and "hours" in text]
    assert not any("max_hours" in text for text in notes(others))


@pytest.mark.parametrize("model", ["original", "retrain"])
def test_rows_that_stand_on_other_trainings_than_their_neighbours_are_named_below_the_table(model: str) -> None:
    def of(method: str, digest: str) -> list[Result]:
        stage = StageRef(name=model, key="k", digest=digest, seconds=1.0, cached=True)
        return plant(method, {"forget:hr@10": [0.1, 0.2]}, stages=(stage,))

    ours = [*of("original", "here"), *of("tracer", "here")]
    [mixed], [alike] = main(ours, of("npo", "there")), main(ours, of("npo", "here"))
    [text] = [text for text in notes(mixed) if "not paired" in text]
    assert text.endswith("not paired with them: npo on industrial-brand with tiger (2 of 2).")
    assert not any("not paired" in text for text in notes(alike))


def test_lines_are_references_and_then_methods_by_name() -> None:
    table = make_synthetic_tables("main")[0]
    kinds = [line.kind for line in table.sections[0].lines]
    assert kinds == ["reference"] * 5 + ["method"] * 9
    assert labels(table)[5:] == sorted(labels(table)[5:])
    assert [section.title for section in table.sections] == ["letter", "tiger"]


def test_ablations_show_methods_with_variants_and_these_below_them() -> None:
    table = make_synthetic_tables("ablation")[0]
    assert labels(table)[5:] == ["tracer", "tracer-no-coherence", "tracer-no-reassignment"]
    assert set(VARIANTS) <= set(labels(table))


def test_layouts_of_one_kind_of_request_show_no_other() -> None:
    board = make_synthetic_board(make_records(tasks=("a-brand", "b-item"), backbones=("tiger",), seeds=(0, 1)))
    tables = make_tables(board, find_layout("item", 1), statistics_protocol(1))
    assert [table.tasks for table in tables] == [("b-item",)]
    brands = make_synthetic_board(make_records(tasks=("a-brand",), backbones=("tiger",), seeds=(0,)))
    assert make_tables(brands, find_layout("item", 1), statistics_protocol(1)) == ()


def test_nothing_to_show_is_said() -> None:
    with pytest.raises(DataMissing, match="main"):
        main(plant("a", {"cost.steps": [1.0, 2.0]}))


def test_the_beam_of_a_call_is_that_of_columns_and_families() -> None:
    found = plant("a", {"forget:hr@10": [0.1, 0.2], "forget:hr@10/50": [0.3, 0.4]})
    (table,) = main(found, beam=50)
    assert [column.measure.text for column in table.columns] == ["forget:hr@10/50"]
    assert table.columns[0].primary
    assert table.sections[0].lines[0].entries[0].cell is not None
    assert table.sections[0].lines[0].entries[0].cell.mean == pytest.approx(0.35)


def test_another_baseline_is_what_all_are_tested_against() -> None:
    found = rows(original=[0.5, 0.51, 0.52], npo=[0.3, 0.31, 0.33], tracer=[0.1, 0.12, 0.11])
    (table,) = main(found, baseline="npo")
    assert table.blocks[0].baseline is not None
    assert table.blocks[0].baseline.label == "npo"
    tested = {line.label: line.entries[0].cell.difference for line in table.sections[0].lines if line.entries[0].cell}
    assert tested["npo"] is None
    assert tested["tracer"] is not None
    assert tested["tracer"].estimate == pytest.approx(-0.2033333)
