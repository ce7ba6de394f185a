"""Environment of a run: device, threads, determinism, package versions, commit; time and memory of a block of work.

``versions.txt`` is the repository's ``constraints.txt``: the versions that results are reproduced with. Others are
allowed; they may round otherwise, so that the same command need not give the same bits.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources
from pathlib import Path

from packaging.utils import canonicalize_name

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline.record import Environment
from genrec_unlearn_bench.seeding import generators_kept

PACKAGES = (
    *("accelerate", "numpy", "pandas", "pyarrow", "pydantic", "safetensors", "scikit-learn", "scipy"),
    *("sentence-transformers", "torch", "transformers"),
)
"""Packages whose version can change a number."""

VERSIONS_FILE = "versions.txt"
INTERVAL = 0.02
"""Seconds between two readings of the resident memory."""
MIB = float(1 << 20)


def resolve_device(wanted: str) -> str:
    """``auto`` is the GPU where there is one. Raises UsageError for a device that is not there."""
    import torch

    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if re.fullmatch(r"cpu|cuda(:\d+)?", wanted) is None:
        raise UsageError(f"unknown device {wanted!r}", hint="use auto, cpu, cuda or cuda:0")
    count = 1 if wanted == "cpu" else torch.cuda.device_count()
    if not count:
        raise UsageError("this machine has no CUDA device that torch can use", hint="use --device cpu or auto")
    if int(wanted.partition(":")[2] or 0) >= count:
        raise UsageError(f"there is no {wanted}", hint=f"the last device that torch can use is cuda:{count - 1}")
    return wanted


def allowed_cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """``$OMP_NUM_THREADS`` where it is set, else the physical cores this process may use."""
    import psutil

    chosen = os.environ.get("OMP_NUM_THREADS", "")
    if chosen.isdigit() and int(chosen) > 0:
        return int(chosen)
    allowed = allowed_cores()
    return max(1, min(allowed, psutil.cpu_count(logical=False) or allowed))


@contextmanager
def determinism(threads: int) -> Iterator[None]:
    """Deterministic kernels where torch has them, a fixed number of threads, and an untouched global generator; kernels
    of a GPU without a deterministic form only warn."""
    # scikit-learn brings an OpenMP of its own, which threadpoolctl counts only once it is loaded.
    import sklearn.utils  # noqa: F401
    import torch
    from threadpoolctl import threadpool_limits

    # cuBLAS reads it when its first handle is made; without it deterministic matrix products are refused.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before, memory = torch.get_num_threads(), torch.utils.deterministic
    was = (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled())
    fill = memory.fill_uninitialized_memory  # type: ignore[attr-defined]
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Filling fresh memory only guards against reading it uninitialised, and costs time.
    memory.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        # Sums of BLAS depend on the number of threads in their last bits, as torch's do.
        with threadpool_limits(threads), generators_kept():
            yield
    finally:
        torch.set_num_threads(before)
        torch.use_deterministic_algorithms(was[0], warn_only=was[1])
        memory.fill_uninitialized_memory = fill  # type: ignore[attr-defined]


def precision(device: str) -> str:
    """The number formats of a device: recommenders may be trained in bfloat16, all else is computed in float32."""
    if not device.startswith("cuda"):
        return "fp32"
    from genrec_unlearn_bench.backbones.distributed import trains_in_bf16

    return "bf16 training, fp32 unlearning and evaluation" if trains_in_bf16(device) else "fp32"


def describe(device: str, *, threads: int) -> Environment:
    import torch

    commit, dirty = _commit()
    return Environment(
        device=device,
        device_name=torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor(),
        precision=precision(device),
        threads=threads,
        python=platform.python_version(),
        platform=platform.platform(),
        packages=versions(PACKAGES),
        git_commit=commit,
        git_dirty=dirty,
    )


def arithmetic() -> dict[str, str]:
    """What rounding depends on besides versions: the processor's instructions and the libraries of matrix products."""
    import numpy
    import torch
    from threadpoolctl import threadpool_info

    blas = re.search(r"BLAS_INFO=(\w+)", torch.__config__.show())
    built = numpy.show_config(mode="dicts") or {}
    # OpenBLAS chooses its kernels by the processor, or by $OPENBLAS_CORETYPE; semantic IDs differ between two choices.
    chosen = {library["architecture"] for library in threadpool_info() if "architecture" in library}
    return {
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "torch_blas": blas.group(1) if blas else "unknown",
        "numpy_blas": str(built.get("Build Dependencies", {}).get("blas", {}).get("name", "unknown")),
        "blas_kernels": ", ".join(sorted(map(str, chosen))) or "default",
        "interop_threads": str(torch.get_num_interop_threads()),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Installed versions by package; those that are not installed are left out."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


@cache
def locked_versions() -> dict[str, str]:
    """Version by package, names in their canonical form."""
    text = resources.files("genrec_unlearn_bench.pipeline").joinpath(VERSIONS_FILE).read_text(encoding="utf-8")
    pairs = [line.partition("#")[0].partition(";")[0].strip().partition("==") for line in text.splitlines()]
    return {canonicalize_name(name.strip()): version.strip() for name, equals, version in pairs if equals}


def version_mismatches(packages: Iterable[str] = PACKAGES) -> dict[str, tuple[str, str]]:
    """Installed and locked version of the packages where the two differ."""
    found = versions(packages)
    locked = {name: locked_versions().get(canonicalize_name(name), own) for name, own in found.items()}
    # A local build of the same release (2.13.0+cpu) is the locked version.
    differ = [name for name, own in found.items() if own.partition("+")[0] != locked[name].partition("+")[0]]
    return {name: (found[name], locked[name]) for name in differ}


@dataclass
class Reading:
    """Cost of a block, filled in when it ends: wall-clock with the GPU's queue drained at both ends, and peak memory,
    resident of the process on CPU, allocated of the device on GPU."""

    seconds: float = 0.0
    peak_memory_mib: float = 0.0


@contextmanager
def metered(device: str) -> Iterator[Reading]:
    """Measure the block; the reading is complete also when it failed."""
    import torch

    reading, gpu = Reading(), device.startswith("cuda")
    if gpu:
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
    with nullcontext() if gpu else _resident_memory(reading):
        began = time.perf_counter()
        try:
            yield reading
        finally:
            if gpu:
                torch.cuda.synchronize(device)
            reading.seconds = time.perf_counter() - began
            if gpu:
                reading.peak_memory_mib = torch.cuda.max_memory_allocated(device) / MIB


@contextmanager
def _resident_memory(reading: Reading) -> Iterator[None]:
    import psutil

    process, done = psutil.Process(), threading.Event()

    def watch() -> None:
        over = False
        while not over:
            over = done.wait(INTERVAL)
            reading.peak_memory_mib = max(reading.peak_memory_mib, process.memory_info().rss / MIB)

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _processor() -> str:
    # platform.processor() is empty on most Linux systems.
    with suppress(OSError):
        found = re.search(r"^model name\s*:(.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
        return found.group(1).strip() if found else platform.machine()
    return platform.processor() or platform.machine()


def _commit() -> tuple[str | None, bool | None]:
    """Commit of this package's own repository and whether it has changes; None for an installed wheel."""
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:
        return None, None
    status = _git("status", "--porcelain", "--untracked-files=no")
    return _git("rev-parse", "HEAD"), None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(Path(__file__).resolve().parents[1]), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
