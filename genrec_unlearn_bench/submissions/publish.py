"""A record as it is published: nothing in it about the machine of whoever ran it but what can change a number."""

from __future__ import annotations

import hashlib
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath

from pydantic import ValidationError

from genrec_unlearn_bench.data.forget import TaskManifest
from genrec_unlearn_bench.errors import CorruptArtefact, UsageError
from genrec_unlearn_bench.evaluation.per_user import read_per_user
from genrec_unlearn_bench.files import atomic_folder, atomic_text
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import PER_USER, RECORD, record_text, result_folder, table_place
from genrec_unlearn_bench.submissions.faults import machine_path, values_of
from genrec_unlearn_bench.submissions.table import published_bytes

_PLACES = {"--data-dir": "data", "--tuned-dir": "tuned"}
"""Folders that stand for themselves: what lies in them is known by digests; where they lie does not matter."""
_DROPPED = frozenset({"--results-dir", "--cache-dir", "--json", "--debug"})
_FLAGS = frozenset({"--json", "--debug"})
_MACHINES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64", "i686", "ppc64le", "riscv64", "s390x")
_LIBC = re.compile(r"with-?((?:glibc|musl|libc)[0-9.]*)")


def plain_command(command: str) -> str:
    """The command with ``--data-dir data`` and ``--tuned-dir tuned``, without ``--results-dir`` and ``--cache-dir``;
    any other absolute path becomes its last part. A plain command stays as it is."""
    out: list[str] = []
    option = ""
    for word in _split(command):
        name, equals, value = word.partition("=") if word.startswith("--") else ("", "", word)
        if name and not equals:
            option = "" if name in _FLAGS else name
            out += [] if name in _DROPPED else [name]
            continue
        option = name or option
        if option not in _DROPPED:
            plain = _PLACES.get(option) or _last_part(value)
            out.append(f"{name}={plain}" if name else plain)
        option = ""
    return shlex.join(out)


def plain_platform(platform: str) -> str:
    """``Linux-6.1.0-13-amd64-x86_64-with-glibc2.36`` as ``Linux-x86_64-glibc2.36``: system, machine and C library.

    The kernel's build says which machine it was, and no number depends on it.
    """
    words = platform.split("-")
    machine = next((name for name in _MACHINES if name in words), "")
    libc = _LIBC.search(platform)
    found = libc.group(1) if libc else next((word for word in words[1:] if word.startswith(("glibc", "musl"))), "")
    return "-".join(part for part in (words[0], machine, found) if part)


def paths_in(record: RunRecord) -> Iterator[tuple[str, str]]:
    """(field, path) of every absolute path anywhere in a record."""
    for place, value in values_of(record.model_dump(mode="json", exclude={"metrics"})):
        path = machine_path(value) if isinstance(value, str) else None
        if path is not None:
            yield place, path


def _split(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()


def _last_part(word: str) -> str:
    """``/home/me/mine.py:Mine`` as ``mine.py:Mine``; a word that is no absolute path as it is."""
    if word.startswith(("/", "~/")):
        return PurePosixPath(word).name or "data"
    if PureWindowsPath(word).drive and PureWindowsPath(word).root:
        return PureWindowsPath(word).name or "data"
    return word


MANIFESTS = "manifests"


@dataclass(frozen=True, eq=False)
class Found:
    """A result folder of ``bench run``."""

    folder: Path
    record: RunRecord

    @cached_property
    def manifest(self) -> TaskManifest:
        """The task's manifest. Raises CorruptArtefact where it cannot be read."""
        path = self.folder / "manifest.json"
        try:
            return TaskManifest.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as fault:
            raise CorruptArtefact(
                f"the task's manifest cannot be read: {str(fault).splitlines()[0]}",
                where=str(path),
                hint="run the command in the record again",
            ) from None


def publish_result(found: Found, target: Path, *, withhold: Iterable[str] = ()) -> RunRecord:
    """Publish one result; returns its published record. Raises UsageError where the record still holds a path."""
    table = b""
    if found.record.per_user_digest:
        table = published_bytes(read_per_user(found.folder / PER_USER), withhold)
    environment = found.record.environment
    changes = {
        "command": plain_command(found.record.command),
        "environment": environment.model_copy(update={"platform": plain_platform(environment.platform)}),
        "per_user_digest": hashlib.blake2b(table, digest_size=32).hexdigest() if table else "",
    }
    record = found.record.model_copy(update=changes)
    for place, path in paths_in(record):
        raise UsageError(
            f"the record holds the path {path!r} of this machine",
            where=f"{found.folder / RECORD}: {place}",
            hint="run it again with a relative path there",
        )
    with atomic_folder(result_folder(target, record), "--out", replace=True) as draft:
        (draft / RECORD).write_text(record_text(record), encoding="utf-8")
        if table:
            (draft / PER_USER).write_bytes(table)
        for name in record.tables:
            copy = draft / table_place(name)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(found.folder / table_place(name), copy)
    return record


def write_manifests(found: Iterable[Found], target: Path) -> None:
    """Each task's manifest once. Raises UsageError where two results, or a file that is there, have different ones."""
    manifests: dict[str, Found] = {}
    for one in found:
        first = manifests.setdefault(one.manifest.task, one)
        if first.manifest.digest != one.manifest.digest:
            raise UsageError(
                f"two results have different manifests of the task {one.manifest.task!r}",
                where=f"{first.folder} and {one.folder}",
                hint="publish results of one dataset only: they cannot stand in one table",
            )
    for task, one in sorted(manifests.items()):
        path = target / f"{task}.json"
        text = one.manifest.model_dump_json(indent=2) + "\n"
        if path.is_file() and path.read_text(encoding="utf-8") != text:
            raise UsageError(
                f"there is another manifest of the task {task!r} already",
                where=str(path),
                hint="the results were made on other data, or the task's version has to be raised",
            )
        atomic_text(path, text, "--out")
