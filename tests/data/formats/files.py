"""Writing tiny input files."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from genrec_unlearn_bench.data.catalogue import DatasetSpec
from genrec_unlearn_bench.data.formats import FormatName
from genrec_unlearn_bench.data.formats.reader import read
from genrec_unlearn_bench.data.splits import RawData
from genrec_unlearn_bench.progress import Progress


def read_as(format_name: FormatName, files: Mapping[str, Path]) -> RawData:
    """Files by role, read in this format."""
    spec = DatasetSpec(name="tiny", title="", format=format_name, split="leave-one-out")
    return read({role: (path,) for role, path in files.items()}, spec, Progress())


def write(path: Path, text: str) -> Path:
    """A UTF-8 file, gzipped if its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def write_lines(path: Path, records: Iterable[Mapping[str, object] | str]) -> Path:
    """One JSON object a line; strings stand as they are."""
    lines = [record if isinstance(record, str) else json.dumps(record) for record in records]
    return write(path, "".join(f"{line}\n" for line in lines))
