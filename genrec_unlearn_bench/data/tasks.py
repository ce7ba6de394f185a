"""The tasks that ship, tasks on imported datasets, and tasks from a file: reading them, and finding one by name.

Reading needs neither torch nor the datasets; what a task comes to on its data is the business of ``data.concepts``.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from genrec_unlearn_bench.config import parse_yaml
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.task_spec import DEFAULT_CONCEPTS, TaskSpec
from genrec_unlearn_bench.errors import ConfigError, UnknownName

__all__ = ["TaskSpec", "find_task", "read_task", "tasks"]

_CONTENT = "genrec_unlearn_bench.tasks"
_LARGEST = 1 << 20
"""Bytes; a task file is a page of text, anything larger was given by mistake."""


def tasks() -> dict[str, TaskSpec]:
    """Every task that ships, by name, in the order of names."""
    out: dict[str, TaskSpec] = {}
    for entry in sorted(resources.files(_CONTENT).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".yaml"):
            task = parse_yaml(TaskSpec, entry.read_text(encoding="utf-8"), where=f"tasks/{entry.name}")
            out[task.name] = task
    return out


def find_task(name: str, data_dir: Path | None = None) -> TaskSpec:
    """The task of a name or a file.

    A name is looked for among the tasks that ship; ``<dataset>-<kind>`` of any other dataset, as an imported one, asks
    for the protocol's default concept of that kind. What ends in ``.yaml`` or ``.yml`` is read as a file.

    Raises:
        UnknownName: Neither; the nearest names are given.
        ConfigError: The file is not a task; every fault is listed.
    """
    if name.endswith((".yaml", ".yml")):
        return read_task(Path(name))
    known = tasks()
    if name in known:
        return known[name]
    dataset, _, kind = name.rpartition("-")
    if dataset and kind in DEFAULT_CONCEPTS:
        try:
            found = find_dataset(dataset, data_dir)
        except UnknownName:
            pass
        else:
            title = f"The protocol's default concept of the kind {kind} on {found.title or found.name}"
            return TaskSpec(name=name, dataset=found.name, title=title, concept=DEFAULT_CONCEPTS[kind])
    raise UnknownName("task", name, known)


def read_task(path: Path) -> TaskSpec:
    """The task that a YAML file describes."""
    try:
        if path.stat().st_size > _LARGEST:
            raise ConfigError(
                [f"a task file has a page of text, this one {path.stat().st_size} bytes"], where=str(path)
            )
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as fault:
        reason = fault.strerror if isinstance(fault, OSError) else "not UTF-8 text"
        raise ConfigError(
            [f"the task file cannot be read: {reason}"],
            where=str(path),
            hint="give the name of a task (`bench ls tasks`) or the path of its YAML file",
        ) from None
    return parse_yaml(TaskSpec, text, where=str(path))
