"""What a machine has left and what a process takes: memory, cores, GPUs; and how a process is stopped for good."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil

__all__ = ["available_mib", "cores_here", "gpus_here", "resident_mib", "stop_tree", "total_mib"]

MIB = 1 << 20

_CGROUPS = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
)
"""Limit, use and statistics of a container's memory: cgroups version 2, then version 1."""

_ROOT = Path("/sys/fs/cgroup")


def total_mib() -> float:
    """Memory of this machine, or of the container this runs in, in MiB."""
    limit = _container()
    total = psutil.virtual_memory().total / MIB
    return total if limit is None else min(total, limit[0])


def available_mib() -> float:
    """Memory that new processes could have without swapping, in MiB."""
    limit = _container()
    free = psutil.virtual_memory().available / MIB
    return free if limit is None else min(free, limit[0] - limit[1])


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its children, in MiB; 0 for one that is gone."""
    total = 0
    for process in _tree(pid):
        with suppress(psutil.Error):
            total += process.memory_info().rss
    return total / MIB


def stop_tree(pid: int, grace: float) -> None:
    """End a process and its children: politely, and after ``grace`` seconds for good."""
    tree = _tree(pid)
    if grace > 0 and tree:
        with suppress(psutil.Error):
            tree[0].terminate()
        ends = time.monotonic() + grace
        psutil.wait_procs(tree[:1], timeout=max(0.0, ends - time.monotonic()))
    for process in tree:
        with suppress(psutil.Error):
            process.kill()


def cores_here() -> tuple[int, ...]:
    """Numbers of the CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def gpus_here() -> tuple[str, ...]:
    """The GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` names them. Does not import torch."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return tuple(part.strip() for part in chosen.split(",") if part.strip() not in ("", "-1"))
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        told = subprocess.run(  # noqa: S603
            [program, "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(told.stdout.split()) if told.returncode == 0 else ()


def _tree(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _container() -> tuple[float, float] | None:
    """Limit and use of the container's memory in MiB, where there is a limit."""
    for limit, use, cached in _CGROUPS:
        try:
            most = (_ROOT / limit).read_text(encoding="ascii").strip()
            used = int((_ROOT / use).read_text(encoding="ascii"))
            rows = (_ROOT / limit).with_name("memory.stat").read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            continue
        # Version 1 says "none" as a number near 2^63.
        if not most.isdigit() or int(most) >= 1 << 60:
            return None
        # Files in the page cache count as used, and are given up when memory is asked for.
        given_up = next((int(row.split()[1]) for row in rows if row.split()[:1] == [cached]), 0)
        return int(most) / MIB, (used - given_up) / MIB
    return None
