"""Names of what ships with the suite, read once: a check asks for them thousands of times."""

from __future__ import annotations

from functools import cache

from genrec_unlearn_bench.data.catalogue import packaged_datasets
from genrec_unlearn_bench.data.tasks import tasks

__all__ = ["DEMO", "demo_tasks", "identities"]

DEMO = "demo"
"""The dataset that everybody has, as it is generated."""


@cache
def demo_tasks() -> frozenset[str]:
    """Names of the tasks on the demo."""
    return frozenset(name for name, task in tasks().items() if task.dataset == DEMO)


@cache
def identities() -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of the tasks, and of the datasets: what a method's source does not name."""
    return tuple(tasks()), frozenset(packaged_datasets())
