"""Whether a machine has room for one more job: cores, GPUs and memory, and what running jobs have been promised of it.

Memory that a running job was promised and has not taken yet is not free, although the system says so: two large cells
that start in the same minute would both see an empty machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.executors.limits import available_mib, cores_here, gpus_here, total_mib
from genrec_unlearn_bench.executors.memory_needs import MemoryNeeds
from genrec_unlearn_bench.executors.process import Running
from genrec_unlearn_bench.grid.job import Job

__all__ = ["Machine", "gpus_of", "never_fits", "room_in_memory"]


@dataclass(frozen=True)
class Machine:
    """What the pool may use.

    Attributes:
        cores: Of the CPU, at a time.
        gpus: As ``CUDA_VISIBLE_DEVICES`` names them.
        memory_mib: Memory of all jobs together at most; None for what the machine has.
        available: Memory that is free now, in MiB.
        total: Memory of the machine, in MiB.
        needs: What jobs will take.
    """

    cores: int = field(default_factory=lambda: len(cores_here()))
    gpus: tuple[str, ...] = field(default_factory=gpus_here)
    memory_mib: int | None = None
    available: Callable[[], float] = available_mib
    total: Callable[[], float] = total_mib
    needs: MemoryNeeds = field(default_factory=MemoryNeeds)


def gpus_of(job: Job, machine: Machine) -> int | None:
    """GPUs to give to a job; None where its request names one by number, which is the user's own choice.

    On a machine with GPUs a job that is not told to stay on the CPU takes one, even if its grid file asks for none.
    """
    device = job.request.device
    if device == "cpu":
        return 0
    if ":" in device:
        return None
    if job.resources.gpus:
        return job.resources.gpus
    return 1 if machine.gpus else 0


def never_fits(job: Job, machine: Machine) -> UsageError | None:
    """What is wrong with a job that asks for more than there is."""
    need, most = job.resources, machine.memory_mib or machine.total()
    faults = []
    if need.cores > machine.cores:
        faults.append(f"{need.cores} cores, and {machine.cores} may be used")
    if need.gpus > len(machine.gpus):
        faults.append(f"{need.gpus} GPUs, and {len(machine.gpus)} may be used")
    if need.memory_mib is not None and need.memory_mib > most:
        faults.append(f"{need.memory_mib} MiB of memory, and {most:.0f} MiB may be used")
    if not faults:
        return None
    return UsageError(
        f"the job {job.name!r} can never start here: it needs {'; '.join(faults)}",
        hint="lower its resources in the grid file, raise --cores or --memory, or use another machine or executor",
    )


def room_in_memory(job: Job, machine: Machine, running: Iterable[tuple[Running, float]]) -> bool:
    """Whether the memory suffices beside what runs.

    Args:
        running: Jobs with the resident memory of their processes, in MiB.
    """
    taken = list(running)
    if not taken:
        # Alone on the machine it may always try: what is free is then decided by others.
        return True
    need = machine.needs.of(job)
    owed = sum(max(0.0, one.promised - resident) for one, resident in taken)
    room = machine.available() - owed
    if machine.memory_mib is not None:
        room = min(room, machine.memory_mib - sum(max(one.promised, resident) for one, resident in taken))
    return need <= room
