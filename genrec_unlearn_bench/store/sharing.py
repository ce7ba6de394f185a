"""A store that several users of one group write to: a marker in its root says so, and the group may write what is put
there.

Everybody's umask would make it private otherwise, and the first user's folders would refuse the second. The group is
the folder's own (setgid), as on any shared file system.
"""

from __future__ import annotations

import stat
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.files import atomic_text, make_folder

__all__ = ["MARKER", "SHARED_VARIABLE", "StoreSettings", "is_shared", "opened_to_group", "share"]

SHARED_VARIABLE = "GENREC_UNLEARN_BENCH_SHARED_CACHE"
MARKER = "store.json"


class StoreSettings(StrictModel):
    """What a store's root says about it."""

    shared: bool = False
    """Whether users of one group write to it."""


def is_shared(root: Path) -> bool:
    """Whether the marker says that users of one group write here. Raises StorageError for one that cannot be read."""
    path = root / MARKER
    try:
        return StoreSettings.model_validate_json(path.read_bytes()).shared
    except (FileNotFoundError, NotADirectoryError):
        return False
    except ValidationError:
        raise StorageError(
            "the store's marker cannot be read", where=str(path), hint='write {"shared": true} into it, or remove it'
        ) from None


def share(root: Path) -> None:
    """Make a folder a shared store: the marker, and the group's right to write and to own what is put there."""
    make_folder(root)
    atomic_text(root / MARKER, StoreSettings(shared=True).model_dump_json(indent=2) + "\n", "--cache-dir")
    root.chmod(stat.S_IMODE(root.stat().st_mode) | 0o2070)
    opened_to_group(root / MARKER)


def opened_to_group(path: Path, root: Path | None = None) -> None:
    """Let the group write to a file, or to a folder and everything in it; other bits stay (setgid among them).

    Args:
        root: Then the folders between it and ``path``, and nothing in them. What belongs to others is theirs to open.
    """
    if root is not None:
        paths = [path, *(folder for folder in path.parents if root in folder.parents)]
    else:
        paths = [path, *(path.rglob("*") if path.is_dir() else ())]
    for one in paths:
        with suppress(PermissionError):
            status = one.stat()
            wanted = 0o2070 if stat.S_ISDIR(status.st_mode) else 0o060
            if status.st_mode & wanted != wanted:
                one.chmod(stat.S_IMODE(status.st_mode) | wanted)
