"""The readers by format name."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, cast

from genrec_unlearn_bench.data.formats.layout import FormatName
from genrec_unlearn_bench.data.raw import RawData
from genrec_unlearn_bench.progress import Progress

__all__ = ["Reader", "reader"]


class Reader(Protocol):
    """Turns the files of one format, by role, into ``RawData``; raises DataFault for input it cannot use."""

    def __call__(self, files: Mapping[str, Path], progress: Progress) -> RawData: ...


_MODULES: dict[FormatName, str] = {
    "folder": "folder",
    "amazon-2018": "amazon2018",
    "amazon-2023": "amazon2023",
    "minionerec": "minionerec",
    "letter": "letter",
}


def reader(format_name: FormatName) -> Reader:
    """The reader of a format that consists of files (all but ``demo``)."""
    module = importlib.import_module(f"{__package__}.{_MODULES[format_name]}")
    return cast(Reader, module.read)
