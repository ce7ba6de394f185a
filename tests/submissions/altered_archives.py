"""Archives that no honest packer makes, each with words of the message it is refused with."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path

Packer = Callable[[Path, Path], None]
"""Packs a folder (first) into an archive (second)."""


def entries(folder: Path) -> list[tuple[str, bytes]]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(path.relative_to(folder).as_posix(), path.read_bytes()) for path in files]


def written(target: Path, content: Iterable[tuple[str, bytes]], *, mode: int = 0o644, kind: int = stat.S_IFREG) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content:
            info = zipfile.ZipInfo("placeholder")
            info.filename = name
            info.create_system = 3
            info.external_attr = (kind | mode) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, data)


def also(*names: str, data: bytes = b"x") -> Packer:
    return lambda folder, target: written(target, [*entries(folder), *((name, data) for name in names)])


def link(folder: Path, target: Path) -> None:
    written(target, [("method.py", b"/etc/passwd")], kind=stat.S_IFLNK)


def device(folder: Path, target: Path) -> None:
    written(target, [("method.py", b"")], kind=stat.S_IFCHR)


def executable(folder: Path, target: Path) -> None:
    written(target, entries(folder), mode=0o755)


def bomb(folder: Path, target: Path) -> None:
    written(target, [("results/a/b/c/d/per_user.parquet", b"\0" * (40 << 20))])


def lying_bomb(folder: Path, target: Path) -> None:
    """The directory promises ten bytes, and the data gives as much as it likes."""
    written(target, [("method.py", b"\0" * (1 << 20))])
    content = target.read_bytes()
    target.write_bytes(content.replace(struct.pack("<L", 1 << 20), struct.pack("<L", 10)))


def many(folder: Path, target: Path) -> None:
    written(target, ((f"manifests/t{number}.json", b"") for number in range(8001)))


def encrypted(folder: Path, target: Path) -> None:
    written(target, [("method.py", b"x")])
    content = bytearray(target.read_bytes())
    central = content.index(b"PK\x01\x02")
    content[central + 8] |= 1
    target.write_bytes(bytes(content))


def truncated(folder: Path, target: Path) -> None:
    written(target, entries(folder))
    target.write_bytes(target.read_bytes()[:-40])


NAME = "a name leads elsewhere, is too long or too deep"
ARCHIVES: dict[str, tuple[str, Packer]] = {
    "a path out of the folder": (NAME, also("../../evil.py")),
    "an absolute path": (NAME, also("/tmp/evil.py")),
    "a drive": (NAME, also("C:/evil.py")),
    "a backslash": (NAME, also("results\\evil.py")),
    "odd characters": (NAME, also("results/e\u0301vil\n.py")),
    "a device's name": (NAME, also("results/aux.csv")),
    "a name that is too deep": (NAME, also("/".join("abcdefghij"))),
    "the same name twice": ("a name is there twice", also("method.py")),
    "names that differ in case": ("in case alone", also("Method.py")),
    "a link in an archive": ("in the archive, there is a link", link),
    "a device": ("in the archive, there is a link, or something else", device),
    "an executable in an archive": ("in the archive, there is an executable file", executable),
    "a bomb": ("in the archive, a file is too large", bomb),
    "a bomb with a lying directory": ("the archive cannot be read", lying_bomb),
    "too many files": ("the archive holds 8001 files", many),
    "an encrypted archive": ("the archive cannot be read", encrypted),
}
