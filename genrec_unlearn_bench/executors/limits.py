"""Capacity of this machine (cores, GPUs, memory), what jobs need of it, and what a process takes."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.grid.schedule import Job

__all__ = ["BY_SCALE", "Machine", "available_mib", "cores_here", "gpus_here", "resident_mib", "stop_tree", "total_mib"]

MIB = 1 << 20
BY_SCALE = {"smoke": 1024, "small": 3072, "paper": 8192, "official": 24576}
"""MiB assumed of a job whose grid names no memory."""

CGROUP = Path("/sys/fs/cgroup")


def total_mib() -> float:
    """Memory of this machine, or of the container this runs in."""
    limit = _container()
    total = psutil.virtual_memory().total / MIB
    return total if limit is None else min(total, limit[0])


def available_mib() -> float:
    """Memory that new processes could have without swapping."""
    limit = _container()
    free = psutil.virtual_memory().available / MIB
    return free if limit is None else min(free, limit[0] - limit[1])


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its children; 0 for one that is gone."""
    resident = 0
    for process in _tree(pid):
        with suppress(psutil.Error):
            resident += process.memory_info().rss
    return resident / MIB


def stop_tree(pid: int, grace: float) -> None:
    """End a process and its children: politely, and after ``grace`` seconds by force."""
    tree = _tree(pid)
    if grace > 0 and tree:
        with suppress(psutil.Error):
            tree[0].terminate()
        psutil.wait_procs(tree[:1], timeout=grace)
    for process in tree:
        with suppress(psutil.Error):
            process.kill()


def cores_here() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpus_here() -> tuple[str, ...]:
    """GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them; torch is not needed to know."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        names = [name.strip() for name in visible.split(",") if name.strip()]
        # Everything behind the first negative number is hidden.
        return tuple(names[: next((at for at, name in enumerate(names) if name.startswith("-")), len(names))])
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return ()
    with suppress(OSError, subprocess.TimeoutExpired):
        listed = subprocess.run(  # noqa: S603
            [tool, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return tuple(listed.stdout.split()) if listed.returncode == 0 else ()
    return ()


@dataclass(frozen=True)
class Machine:
    """What local jobs may use together.

    Attributes:
        gpus: As ``CUDA_VISIBLE_DEVICES`` names them.
        memory_mib: None for what the machine has.
        available: Memory that is free now, in MiB.
        total: Memory of the machine, in MiB.
    """

    cores: int = field(default_factory=cores_here)
    gpus: tuple[str, ...] = field(default_factory=gpus_here)
    memory_mib: int | None = None
    available: Callable[[], float] = available_mib
    total: Callable[[], float] = total_mib

    def check(self, job: Job) -> None:
        """Raise UsageError for a job that asks for more than there is."""
        need, most = job.resources, self.memory_mib or self.total()
        faults = []
        if need.cores > self.cores:
            faults.append(f"{need.cores} cores, and {self.cores} may be used")
        if need.gpus > len(self.gpus):
            faults.append(f"{need.gpus} GPUs, and {len(self.gpus)} may be used")
        if need.memory_mib is not None and need.memory_mib > most:
            faults.append(f"{need.memory_mib} MiB of memory, and {most:.0f} MiB may be used")
        if faults:
            raise UsageError(
                f"the job {job.name!r} can never start here: it needs {'; '.join(faults)}",
                hint="lower its resources in the grid file, raise --cores or --memory, or use another machine or "
                "executor",
            )

    def gpus_for(self, job: Job) -> int | None:
        """GPUs to give to a job; None where its request names one by number, which is the user's own choice.

        On a machine with GPUs a job that is not told to stay on the CPU takes one, even if its grid asks for none.
        """
        device = job.request.device
        if device == "cpu":
            return 0
        if ":" in device:
            return None
        return job.resources.gpus or (1 if self.gpus else 0)

    def memory_for(self, job: Job) -> int:
        """MiB that a job is promised: by its grid, else a guess by scale."""
        scale = job.request.scale or ("smoke" if job.request.task.startswith("demo") else "small")
        return job.resources.memory_mib or BY_SCALE.get(scale, BY_SCALE["small"])

    def has_memory(self, job: Job, running: Iterable[tuple[int, float]]) -> bool:
        """Whether memory suffices beside what runs. A job alone on the machine may always try.

        Memory that a running job was promised and has not taken yet is not free, although the system says so: two
        large cells that start in the same minute would both see an empty machine.

        Args:
            running: MiB promised to and taken by each running job.
        """
        taken = list(running)
        if not taken:
            return True
        free = self.available() - sum(max(0.0, promised - resident) for promised, resident in taken)
        if self.memory_mib is not None:
            free = min(free, self.memory_mib - sum(max(promised, resident) for promised, resident in taken))
        return self.memory_for(job) <= free


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _container() -> tuple[float, float] | None:
    """Limit and use of the container's memory in MiB (cgroups version 2), where there is a limit."""
    try:
        most = (CGROUP / "memory.max").read_text(encoding="ascii").strip()
        used = int((CGROUP / "memory.current").read_text(encoding="ascii"))
        rows = (CGROUP / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    if not most.isdigit():
        return None
    # Files in the page cache count as used, and are given up when memory is asked for.
    reclaimable = next((int(row.split()[1]) for row in rows if row.split()[:1] == ["inactive_file"]), 0)
    return int(most) / MIB, (used - reclaimable) / MIB
