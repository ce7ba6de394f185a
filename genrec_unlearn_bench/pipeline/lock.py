"""The versions that results are reproduced with (``constraints.txt``, which ships as ``lock.txt``), and what differs.

Other versions are allowed; they may round otherwise, so that the same command need not give the same bits.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import metadata, resources

from packaging.utils import canonicalize_name

from genrec_unlearn_bench.pipeline.environment import PACKAGES

__all__ = ["OffLock", "locked_versions", "off_lock", "told_off_lock"]

FILE = "lock.txt"


@dataclass(frozen=True)
class OffLock:
    """An installed package whose version is not the lock's."""

    package: str
    installed: str
    locked: str

    def __str__(self) -> str:
        return f"{self.package} {self.installed} (lock {self.locked})"


@cache
def locked_versions() -> dict[str, str]:
    """Version by package, names in their canonical form."""
    text = resources.files("genrec_unlearn_bench.pipeline").joinpath(FILE).read_text(encoding="utf-8")
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, version = line.partition("#")[0].partition(";")[0].strip().partition("==")
        if equals:
            found[canonicalize_name(name.strip())] = version.strip()
    return found


def off_lock(packages: Iterable[str] | None = PACKAGES) -> tuple[OffLock, ...]:
    """Installed packages that differ from the lock.

    Args:
        packages: Which are looked at: by default those that can change a number, None for all that are locked.
    """
    locked = locked_versions()
    found = []
    for package in sorted(locked if packages is None else packages):
        wanted = locked.get(canonicalize_name(package))
        if wanted is None:
            continue
        try:
            installed = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        # A local build of the same release (2.13.0+cpu) is the locked version.
        if installed.partition("+")[0] != wanted.partition("+")[0]:
            found.append(OffLock(package, installed, wanted))
    return tuple(found)


def told_off_lock() -> str:
    """A line for people about what a run's numbers may depend on; empty where nothing differs."""
    found = off_lock()
    return f"environment differs from the lock: {', '.join(map(str, found))}" if found else ""
