"""The same runs for all tests that only look at it."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.reporting.examples.page import Page
from genrec_unlearn_bench.reporting.examples.runs import TaskRuns
from tests.reporting.examples.planted_runs import made_page, made_runs, odd_page


@pytest.fixture(scope="package")
def task_runs(tmp_path_factory: pytest.TempPathFactory) -> TaskRuns:
    return made_runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="package")
def page(task_runs: TaskRuns) -> Page:
    return made_page(task_runs)


@pytest.fixture(scope="package")
def odd(page: Page) -> Page:
    return odd_page(page)
