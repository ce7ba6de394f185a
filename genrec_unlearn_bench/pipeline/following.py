"""Stages where several processes run one command (``accelerate launch``, ``torchrun``).

All of them walk through the same stages in the same order. The first owns the store: it looks stages up, locks,
computes and writes. The others wait for its word, and compute along only where a stage is trained together; what they
make is thrown away. Then they read what the first has stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from genrec_unlearn_bench.backbones.distributed import Processes
from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.store.keys import KeyContent
from genrec_unlearn_bench.store.store import Compute, StageStore, StoredStage

__all__ = ["stage_of_all"]


def stage_of_all(
    store: StageStore, name: str, content: KeyContent, compute: Compute, *, together: bool, device: str
) -> StoredStage:
    """The stage, in every process.

    A process that fails does not tell the others: it ends, and the launcher ends them.

    Args:
        together: ``compute`` is for all processes at once.

    Raises:
        StorageError: A process does not see what the first has stored.
    """
    processes = Processes(device)
    if processes.first:

        def announced(folder: Path) -> Mapping[str, Any] | None:
            if together:
                processes.agree(True)
            return compute(folder)

        stored = store.stage(name, content, announced)
        processes.agree(False)
        return stored
    while processes.agree(False):
        with TemporaryDirectory() as folder:
            compute(Path(folder))
    found = store.find(name, content)
    if found is None:
        raise StorageError(
            f"process {processes.index} does not see the stage {name!r} that the first has stored",
            where=str(store.root),
            hint="choose a --cache-dir that all processes share",
        )
    return found
