"""A record as it is published: nothing in it about the machine of whoever ran it but what can change a number."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath, PureWindowsPath

from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.submissions.words import machine_path, values_of

__all__ = ["paths_in", "plain_command", "plain_platform", "plain_record"]

_PLACES = {"--data-dir": "data", "--tuned-dir": "tuned"}
"""Folders that stand for themselves: what lies in them is told by digests, where they lie is nobody's business."""
_DROPPED = frozenset({"--results-dir", "--cache-dir", "--json", "--debug"})
_FLAGS = frozenset({"--json", "--debug"})
_MACHINES = ("x86_64", "aarch64", "arm64", "AMD64", "ARM64", "i686", "ppc64le", "riscv64", "s390x")
_LIBC = re.compile(r"with-?((?:glibc|musl|libc)[0-9.]*)")


def plain_record(record: RunRecord, *, per_user_digest: str) -> RunRecord:
    """The record with the digest of its published table, a plain command and a plain platform. The key stays."""
    environment = record.environment.model_copy(update={"platform": plain_platform(record.environment.platform)})
    return record.model_copy(
        update={
            "command": plain_command(record.command),
            "environment": environment,
            "per_user_digest": per_user_digest,
        }
    )


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
            told = _PLACES.get(option) or _last_part(value)
            out.append(f"{name}={told}" if name else told)
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
