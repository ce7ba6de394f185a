"""Errors meant for users: what is wrong, where, and how to fix it.

The command line prints these without a traceback (``--debug`` shows it). Exit codes are stable:
1 a cell failed, 2 the call is wrong, 3 two protocols do not match.
"""

from __future__ import annotations

import difflib
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import TypeVar, cast


def printable(text: str, *, keep: str = "") -> str:
    """Escape whatever acts on a terminal instead of showing (control and bidi characters, broken encodings) but
    ``keep``, say line ends in a text of several lines."""
    return "".join(
        one.encode("unicode_escape").decode("ascii")
        if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp") and one not in keep
        else one
        for one in text
    )


class BenchError(Exception):
    """Root of every error that is addressed to a user: what is wrong in one sentence, the file, line, field or name it
    concerns, and what the reader can do about it."""

    exit_code = 1

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        self.what = what
        self.where = where
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        return self.render()

    def render(self) -> str:
        """The message as the terminal shows it, one part a line; names in it cannot act on the terminal."""
        what, hint = (printable(text or "", keep="\n\t") for text in (self.what, self.hint))
        lines = [what]
        if self.where:
            lines.append(f"  where: {printable(self.where)}")
        if hint:
            lines.append(f"  hint:  {hint}")
        return "\n".join(lines)


Call = TypeVar("Call", bound=Callable[..., object])


def names_arguments(call: Call) -> Call:
    """Have errors of a Python function name arguments (``data_dir``) for options (``--data-dir``) of no command."""
    names = {"set": "method_set", "set_backbone": "backbone_set"}

    def argument(option: re.Match[str]) -> str:
        name = option[2].replace("-", "_")
        return option[0] if option[1] else names.get(name, name)

    @wraps(call)
    def called(*args: object, **kwargs: object) -> object:
        try:
            return call(*args, **kwargs)
        except BenchError as error:
            for part in ("what", "where", "hint"):
                text = getattr(error, part) or ""
                setattr(error, part, re.sub("(bench [a-z ]+)?--([a-z][a-z-]*)", argument, text) or None)
            raise

    return cast(Call, called)


class UsageError(BenchError):
    """The call itself is wrong: a name, an option, a combination."""

    exit_code = 2


_LISTED = ("name", "task", "method", "backbone", "dataset", "measurement", "metric", "grid")
"""Kinds that ``bench ls`` lists; a name is of any of them."""


class UnknownName(UsageError):
    """A task, method, dataset … that does not exist, with the nearest ones that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.kind, self.name, self.known = kind, str(name), (names := sorted(known))
        self.near = near = difflib.get_close_matches(self.name, names, n=3, cutoff=0.5)
        every = "see `bench ls`" if kind == "name" else f"see `bench ls {kind}s`"
        most = 12 if kind in _LISTED else 40
        more = every if kind in _LISTED else f"{', '.join(names[:most])} … and {len(names) - most} more"
        listing = ", ".join(names) if len(names) <= most else more
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {listing}"
        super().__init__(f"unknown {kind} {name!r}", hint=hint)


class ConfigError(UsageError):
    """All faults of one configuration at once."""

    def __init__(self, faults: Sequence[str], *, where: str | None = None, hint: str | None = None) -> None:
        self.faults = tuple(faults)
        listing = "".join(f"\n  - {fault}" for fault in faults)
        super().__init__(f"invalid configuration:{listing}", where=where, hint=hint)


class CapabilityMissing(UsageError):
    """A method needs something that the backbone does not have."""


class MissingExtra(UsageError):
    """An optional dependency is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        clone = Path(__file__).parents[1]
        name = f"-e '{clone}[{extra}]'" if (clone / "pyproject.toml").is_file() else f"'genrec-unlearn-bench[{extra}]'"
        what = f"{purpose} needs the package {package!r}, which is not installed"
        super().__init__(what, hint=f"pip install {name}")


class DataMissing(UsageError):
    """A dataset's files are not there and could not be had."""


class DataFault(BenchError):
    """Input data that cannot be used as it is: broken lines, missing columns, duplicate ids."""


class CorruptArtefact(BenchError):
    """A stored stage whose content does not match its digest or schema."""


class StorageError(BenchError):
    """The file system refused: full, read-only, no permission."""


class OutOfMemory(BenchError):
    """The device or the host has too little memory for what was asked."""


class ProtocolMismatch(BenchError):
    """Two results that may not be compared."""

    exit_code = 3
