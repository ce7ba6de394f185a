"""The page's numbers follow from the lists; ids are on it only where they were asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.data.tasks import InteractionConcept
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.examples.page import Page, make_page
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns
from tests.reporting.examples.planted_runs import made_page, made_runs


@pytest.mark.parametrize("beam", [10, 50])
def test_lists_marks_and_sums(task_runs: TaskRuns, beam: int) -> None:
    page = made_page(task_runs, ids=True, beam=beam)
    assert [shown.label for shown in page.examples[0].lists] == ["original", "retrain", "npo", "tracer"]
    assert page.depth == beam
    leaks = 0
    for example in page.examples:
        group, row = example.group, example.row
        assert row is not None
        target = task_runs.first.targets(group)[row]
        assert example.user == task_runs.first.users(group)[row]
        lists = [run.rankings[group, beam].items[row].tolist() for _, run in task_runs.runs]
        for shown, whole in zip(example.lists, lists, strict=True):
            first = [item for item in whole[:10] if item >= 0]
            assert [item.id for item in shown.items] == [f"I{item:03d}" for item in first]
            assert [item.concept for item in shown.items] == [item < 10 for item in first]
            assert [item.target for item in shown.items] == [item == target for item in first]
            assert shown.concept_items == sum(item < 10 for item in first)
            place = whole.index(target) + 1 if target in whole else None
            assert shown.target_rank == place
            if shown is example.lists[0]:
                assert shown.change is None
                leaks += shown.concept_items
            else:
                common = len(set(first) & {item for item in lists[0][:10] if item >= 0})
                assert shown.change == pytest.approx(1 - common / 10)
        assert example.lists[1].concept_items == 0
    assert leaks > 20, "a world in which the original leaks nothing would show nothing"


def test_histories_are_the_last_items(task_runs: TaskRuns) -> None:
    page = made_page(task_runs, ids=True)
    for example in page.examples:
        part = task_runs.example(example.group, example.row or 0)
        whole = part.events[part.starts[0] : part.ends[0]].tolist()
        assert [item.id for item in example.history] == [f"I{item:03d}" for item in whole[-5:]]
        assert [item.concept for item in example.history] == [item < 10 for item in whole[-5:]]
        assert example.history_length == len(whole)


def test_no_ids_unless_asked_for(task_runs: TaskRuns, page: Page) -> None:
    text = page.model_dump_json()
    assert '"id":"' not in text
    assert '"user":null' in text
    assert all(item.id is None for example in page.examples for shown in example.lists for item in shown.items)
    assert '"id":"I0' in made_page(task_runs, ids=True).model_dump_json()


def test_of_interactions_only_the_users_own_are_marked(tmp_path: Path) -> None:
    task_runs = made_runs(tmp_path, InteractionConcept(share=0.3))
    rows = [(Group.FORGET, row) for row in range(len(task_runs.first.users(Group.FORGET)))]
    page = make_page(task_runs, rows, beam=50, rule="", ids=True)
    pairs = set(task_runs.manifest.forget_interactions)
    shown = [
        (example.user, item)
        for example in page.examples
        for item in [*example.history, *(item for each in example.lists for item in each.items)]
    ]
    assert any(item.concept for _, item in shown)
    assert all(item.concept == ((user, item.id) in pairs) for user, item in shown)
    assert all(example.target.concept for example in page.examples)
    assert "this user asked to forget" in page.concept


def test_the_concept_in_words(page: Page, task_runs: TaskRuns) -> None:
    assert page.concept == "1 brand, 10 items: Acme & Sons"
    assert page.title.endswith("seed 0")
    assert page.task == "world-brand"
