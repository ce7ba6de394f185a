"""Planted runs for the tests of this folder, and pages of them."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.data.tasks import Concept
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.examples.page import Item, Page, ShownList, make_page
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns, choose_runs, load_task_runs
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import load_results
from tests.pipeline.listed_world import BRAND_TASK, World, keeping, make_world, walking
from tests.reporting.odd_names import ODD

__all__ = ["made_page", "made_runs", "made_world", "odd_page", "runs_of"]

ALL = ("npo", "tracer")


def made_world(root: Path, concept: Concept = BRAND_TASK, **changes: Any) -> World:
    """The original walks over all items; the oracle and ``npo`` drop what is to be forgotten (items 0 to 9), the latter
    for every other last item; ``tracer`` drops ten other items as well."""
    world = make_world(root, concept)
    gone = np.flatnonzero(world.split.items).tolist() or list(range(10))
    world.add("original", walking, **changes)
    world.add("retrain", keeping(gone), **changes)
    world.add("npo", keeping(gone, share=2), **changes)
    world.add("tracer", keeping([*gone, *range(10, 20)]), **changes)
    return world


def runs_of(world: World, *methods: str, seed: int | None = None) -> TaskRuns:
    """The runs of the original, the oracle and some methods."""
    protocol = statistics_protocol(1)
    board = make_board(load_results([world.results]).results, protocol)
    return load_task_runs(*choose_runs(board, protocol, methods=methods or ALL, seed=seed), world.store)


def made_runs(root: Path, concept: Concept = BRAND_TASK) -> TaskRuns:
    """The runs of all methods."""
    return runs_of(made_world(root, concept))


def made_page(task_runs: TaskRuns, *, ids: bool = False, beam: int = 10) -> Page:
    """A page of three forget and all retain examples: every odd title of the world is somewhere on it."""
    rows = [(Group.FORGET, row) for row in range(3)]
    rows += [(Group.RETAIN, row) for row in range(len(task_runs.first.users(Group.RETAIN)))]
    return make_page(task_runs, rows, beam=beam, rule="All of them.", ids=ids)


def odd_page(page: Page) -> Page:
    """The page with names that try to format, run or break out, in every place where a text from outside stands."""
    names = cycle(ODD)

    def odd(item: Item) -> Item:
        return item.model_copy(update={"brand": next(names), "title": next(names), "id": next(names)})

    def listed(shown: ShownList) -> ShownList:
        return shown.model_copy(update={"label": next(names), "items": tuple(map(odd, shown.items))})

    examples = tuple(
        example.model_copy(
            update={
                "history": tuple(map(odd, example.history)),
                "target": odd(example.target),
                "lists": tuple(map(listed, example.lists)),
            }
        )
        for example in page.examples
    )
    places = {
        name: f"<script>window.hit = 1</script>\\input{{x}}{name}" for name in ("title", "task", "concept", "rule")
    }
    return page.model_copy(update={"examples": examples, **places})
