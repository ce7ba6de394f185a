"""One of the processes that accelerate starts for a job (``launching``): ``python -m … ASSIGNMENT``.

The first keeps events and result. One that does not get to the end says so with its exit code, and the launcher ends
the others, which would wait for it for ever.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from genrec_unlearn_bench.executors.launching import Assignment
from genrec_unlearn_bench.executors.worker import perform
from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["main"]


def main(path: Path) -> int:
    """Do the job of an assignment's file. Returns the exit code: 0 where it is done."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    signal.signal(signal.SIGTERM, _interrupt)
    given = Assignment.model_validate_json(path.read_bytes())
    ended = perform(
        given.job,
        SweepFolder(given.folder),
        given.cache,
        attempt=given.attempt,
        executor=given.executor,
        place=given.place,
    )
    return 0 if ended.how == "done" else 1


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
