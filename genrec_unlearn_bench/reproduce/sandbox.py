"""A process that sees its inputs, the Python environment and nothing else of the machine, made with bubblewrap.

No network, a read-only system, a private ``/tmp``, no home folder, no cache, no published result; one folder may be
written. What a kernel lets out, this does not hold (leaderboard/RULES.md).
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from genrec_unlearn_bench.errors import BenchError, UsageError, printable

INPUTS = Path("/inputs")
"""Where the sandbox sees the folder of inputs, read-only."""
OUT = Path("/out")
"""Where it sees the folder that it may write to."""

PACKAGE = "genrec_unlearn_bench"
CONTENT = ("methods", "tasks", "leaderboard")
"""Packages that may lie beside the engine's folder (``package-dir``)."""
PUBLISHED = ("results", "grids", "submissions", "published", "site", "health")
"""Folders of the leaderboard that are empty inside: they hold numbers of retrained models."""
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/ld.so.conf.d", "/etc/localtime")
KEPT = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CUBLAS_WORKSPACE_CONFIG", "LANG")
"""Environment variables that may change a number or a text."""
SHOWN = 2000
"""Last bytes of what a failed process wrote."""


def run_apart(
    code: str,
    inputs: Path,
    out: Path,
    *,
    sandboxed: bool,
    readable: Iterable[Path] = (),
    seconds: float,
) -> None:
    """Run Python code in a process of its own, with the folders of inputs and outputs as its arguments.

    Args:
        sandboxed: False runs it in the open, with this user's rights: only where the user said so.
        readable: Further files and folders that the sandbox may read, under their own names.
        seconds: After so long it is ended.

    Raises:
        UsageError: bubblewrap does not work here.
        BenchError: The process failed or took too long; its last lines are part of the message.
    """
    python = [sys.executable, "-P", "-c", code]
    if sandboxed:
        check_sandbox()
        binds = [*_bound(inputs, INPUTS), *_bound(out, OUT, write=True)]
        for path in readable:
            binds += _bound(path.resolve(), path.resolve())
        command = [*_bwrap(), *binds, "--chdir", "/tmp", "--", *python, str(INPUTS), str(OUT)]  # noqa: S108
        environment = None
    else:
        command = [*python, str(inputs), str(out)]
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    # Not into memory: whoever writes there may never stop.
    with tempfile.TemporaryFile() as log:
        try:
            done = subprocess.run(  # noqa: S603 - the interpreter, with arguments made here
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                timeout=seconds,
                env=environment,
                cwd=inputs,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise BenchError(f"the method was still running after {seconds:.0f} s, and was ended") from None
        if done.returncode:
            log.seek(max(0, log.seek(0, os.SEEK_END) - SHOWN))
            lines = log.read().decode("utf-8", "replace").strip().splitlines()
            last = "".join(f"\n  | {printable(line)[:200]}" for line in lines)
            raise BenchError(f"the method's process failed with exit code {done.returncode}:{last}")


def check_sandbox() -> None:
    """Raises UsageError where there is no working sandbox."""
    if fault := sandbox_fault():
        raise UsageError(
            f"there is no sandbox to run a submitted method in: {fault}",
            hint="install bubblewrap and allow unprivileged user namespaces, or give --no-sandbox for code you trust",
        )


@cache
def sandbox_fault() -> str:
    """Why the sandbox does not work here; empty where it does."""
    if not sys.platform.startswith("linux"):
        return "bubblewrap needs Linux"
    if shutil.which("bwrap") is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        done = subprocess.run([*_bwrap(), "--", "true"], capture_output=True, timeout=60, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired) as fault:
        return f"bwrap cannot be run: {fault}"
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return "" if done.returncode == 0 else printable((lines or ["bwrap failed"])[0])


def _bwrap() -> list[str]:
    words = ["bwrap", "--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    words += ["--clearenv", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # noqa: S108
    for place in SYSTEM:
        path = Path(place)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), place]
        elif path.exists():
            words += _bound(path, path)
    for path in _environment():
        words += _bound(path, path)
    for folder in _packages():
        for name in PUBLISHED:
            if folder.name == "leaderboard" and (folder / name).is_dir():
                words += ["--tmpfs", str(folder / name)]
    variables = {"PATH": "/usr/bin:/bin", "HOME": "/tmp", "USER": "bench", "PYTHONDONTWRITEBYTECODE": "1"}  # noqa: S108
    variables |= {name: os.environ[name] for name in KEPT if name in os.environ}
    for name, value in variables.items():
        words += ["--setenv", name, value]
    return words


def _bound(source: Path, target: Path, *, write: bool = False) -> Sequence[str]:
    return "--bind" if write else "--ro-bind", str(source), str(target)


def _environment() -> list[Path]:
    """The interpreter, installed packages and this one: folders, those above others first."""
    installed = [path for path in map(Path, sys.path) if path.name in ("site-packages", "dist-packages")]
    folders = {path for path in (Path(sys.base_prefix), Path(sys.prefix), *installed, *_packages()) if path.is_dir()}
    return sorted(path for path in folders if Path("/usr") not in (path, *path.parents))


def _packages() -> list[Path]:
    found: list[Path] = []
    for name in (PACKAGE, *(f"{PACKAGE}.{part}" for part in CONTENT)):
        spec = importlib.util.find_spec(name)
        found += [Path(place) for place in (spec.submodule_search_locations if spec else None) or ()]
    return found
