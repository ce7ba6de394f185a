"""Finds what a request names, each thing once: a grid of thousands of cells names a handful of tasks and methods."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.tasks import find_task, tasks
from genrec_unlearn_bench.features.encoder_spec import EncoderSpec, parse_encoder
from genrec_unlearn_bench.registry import Entry, find_method, methods
from genrec_unlearn_bench.tuning.fixed_rules import FixedRules, shipped_fixed

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from genrec_unlearn_bench.data.spec import DatasetSpec
    from genrec_unlearn_bench.data.task_spec import TaskSpec

__all__ = ["Names"]

T = TypeVar("T")


class Names:
    """What was found so far. A file that changes while this lives is not read again."""

    def __init__(self) -> None:
        self._found: dict[Hashable, object] = {}

    def task(self, name: str, data_dir: Path | None = None) -> TaskSpec:
        """As ``find_task``."""
        known = self.known_tasks()
        return known[name] if name in known else self._once(("task", name, data_dir), lambda: find_task(name, data_dir))

    def dataset(self, name: str, data_dir: Path | None = None) -> DatasetSpec:
        """As ``find_dataset``."""
        return self._once(("dataset", name, data_dir), lambda: find_dataset(name, data_dir))

    def method(self, name: str) -> Entry:
        """As ``find_method``."""
        known = self.known_methods()
        return known[name] if name in known else self._once(("method", name), lambda: find_method(name))

    def known_tasks(self) -> dict[str, TaskSpec]:
        """As ``tasks``."""
        return self._once("tasks", tasks)

    def known_methods(self) -> dict[str, Entry]:
        """As ``methods``."""
        return self._once("methods", methods)

    def encoder(self, text: str) -> EncoderSpec:
        """As ``parse_encoder``, which reads a folder's weights."""
        return self._once(("encoder", text), lambda: parse_encoder(text))

    def fixed(self) -> FixedRules:
        """As ``shipped_fixed``."""
        return self._once("fixed", shipped_fixed)

    def _once(self, key: Hashable, find: Callable[[], T]) -> T:
        if key not in self._found:
            self._found[key] = find()
        found: T = self._found[key]  # type: ignore[assignment]
        return found
