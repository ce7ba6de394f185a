"""The executor of a name, made for the jobs it is to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.executors.limits import cores_here

if TYPE_CHECKING:
    from genrec_unlearn_bench.executors.executor import Executor
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.grid.sweep_folder import SweepFolder

__all__ = ["EXECUTORS", "choose"]

EXECUTORS = ("local", "in-process", "slurm")


def choose(
    name: str,
    folder: SweepFolder,
    cache: Path,
    jobs: Sequence[Job],
    *,
    processes: int | None = None,
    cores: int | None = None,
    memory_mib: int | None = None,
    slurm: Path | None = None,
    info: Callable[[str], None] = lambda text: None,
) -> Executor:
    """Make an executor.

    Args:
        processes: Jobs at a time; where None is given, as many as there are cores for.
        cores: CPU cores for all jobs together; all of the machine's where None is given.
        memory_mib: Memory for all jobs together.
        slurm: File of the settings for Slurm.

    Raises:
        UnknownName: There is no such executor.
        UsageError: It cannot be used here.
    """
    # Each is imported where it is chosen: the others' libraries may not be there.
    if name == "in-process":
        from genrec_unlearn_bench.executors.in_process import InProcess

        return InProcess(folder, cache)
    if name == "local":
        from genrec_unlearn_bench.executors.pool import Pool
        from genrec_unlearn_bench.executors.room import Machine

        machine = Machine(cores=cores or len(cores_here()), memory_mib=memory_mib)
        widest = max((job.resources.cores for job in jobs), default=1)
        return Pool(folder, cache, processes=processes or max(1, machine.cores // widest), machine=machine)
    if name == "slurm":
        from genrec_unlearn_bench.executors.slurm import Slurm
        from genrec_unlearn_bench.executors.slurm_settings import read_slurm_settings

        return Slurm(folder, cache, read_slurm_settings(slurm), info=info)
    raise UnknownName("executor", name, EXECUTORS)
