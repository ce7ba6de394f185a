"""The published form of results: no path of a machine in a record, no user and no target in a per-user table.

Of the machine stays what can change a number. Column families of a table may be withheld; ranks, counts and neighbours
may not, as without them nothing of a result could be checked.
"""

from __future__ import annotations

import hashlib
import io
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.evaluation.per_user import COLUMNS, read_per_user
from genrec_unlearn_bench.files import atomic_folder, find_files
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import (
    MANIFEST,
    PER_USER,
    RECORD,
    read_record,
    record_text,
    result_folder,
    table_place,
)
from genrec_unlearn_bench.submissions.plain_text import Refused, machine_path, values_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "similarity": ("first_similarity", "mean_similarity", "first_similarity_scrubbed", "mean_similarity_scrubbed"),
    "influence": ("js_forget", "js_matched", "change_forget", "change_matched"),
    "log-prob": ("log_prob",),
}
"""Family -> columns that may be withheld. No metric rests on ``log-prob`` so far."""
MANIFESTS = "manifests"
TABLE_ROWS = 4_000_000
"""Most rows of a per-user table; run-length encoding can promise billions in a few bytes."""

_WITHHELD = b"withheld"
_PLATFORM = re.compile(r"x86_64|aarch64|arm64|AMD64|ARM64|i686|ppc64le|riscv64|s390x|(?:glibc|musl|libc)[0-9.]*")


def rests_on(metric: str) -> str | None:
    """The family whose columns a USER-level metric is computed from; None where it needs none of them."""
    head = metric.partition(".")[0]
    return "influence" if head == "history" else head if head in ("similarity", "influence") else None


def published_bytes(per_user: pd.DataFrame, withhold: Iterable[str] = ()) -> bytes:
    """A table (``per_user.COLUMNS``) in its published form, as the bytes of a parquet file.

    The column ``user`` becomes a number in order of first appearance within the group, ``target`` becomes -1, and the
    columns of the withheld families become null. Raises UnknownName for a family that there is not.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    wanted = {one_of("column family", name.strip(), FAMILIES) for name in withhold if name.strip()}
    families = [name for name in FAMILIES if name in wanted]
    types = _schema()
    absent = {column for family in families for column in FAMILIES[family]}
    plain = per_user.assign(user=numbered_users(per_user), target=-1, group=per_user["group"].astype(str))
    plain = plain.assign(**dict.fromkeys(absent, np.nan))
    table = pa.Table.from_pandas(plain, schema=types, preserve_index=False)
    counted = [field.name for field in types if pa.types.is_integer(field.type)]
    sink = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata({_WITHHELD: ",".join(families).encode()}),
        sink,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in types.names if name not in counted],
        column_encoding=dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
        write_statistics=False,
    )
    return sink.getvalue()


def numbered_users(per_user: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """[M] users as numbers from 0 in order of first appearance within their group, the same for both beams."""
    numbers = per_user.groupby("group", sort=False)["user"].transform(lambda users: users.factorize()[0])
    return numbers.to_numpy(np.int64)


def read_table(content: bytes, where: str) -> tuple[pd.DataFrame, frozenset[str]]:
    """The per-user frame (null as NaN, targets -1) and the withheld families. Raises Refused for any other file.

    Rows are counted before they are read, and only columns of numbers and the group's name are: nothing is unpickled.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    def refused(what: str) -> Refused:
        hint = "publish the result again with `bench submission new`; tables are not written by hand"
        return Refused(what, where=where, hint=hint)

    try:
        file = pq.ParquetFile(io.BytesIO(content))
        if file.metadata.num_rows > TABLE_ROWS:
            raise refused(f"the table promises {file.metadata.num_rows} rows, more than {TABLE_ROWS}")
        wanted = _schema()
        odd = [f"{field.name} ({field.type})" for field in file.schema_arrow if field not in wanted]
        if odd or sorted(file.schema_arrow.names) != sorted(wanted.names):
            raise refused(f"columns are missing, or there are some that no result has: {', '.join(odd)[:200]}")
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise refused(f"not a readable parquet file: {str(fault).splitlines()[0][:200]}") from None
    empty = [name for name, kind in COLUMNS.items() if kind != "float64" and table.column(name).null_count]
    metadata = (file.schema_arrow.metadata or {}).get(_WITHHELD)
    withheld = frozenset((metadata or b"").decode("utf-8", "replace").split(",")) - {""}
    if empty or metadata is None or not withheld <= FAMILIES.keys():
        raise refused(f"columns have empty places ({', '.join(empty)}), or it is not said which ones are withheld")
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True)[list(COLUMNS)].astype(dict(COLUMNS))
    return frame, withheld


def _schema() -> pa.Schema:
    """What a table should look like."""
    import pyarrow as pa

    types = {"int64": pa.int64(), "int8": pa.int8(), "float64": pa.float64(), "str": pa.string()}
    return pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])


def plain_command(command: str) -> str:
    """The command with every absolute path as its last part: ``/home/me/mine.py:Mine`` as ``mine.py:Mine``."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    out = []
    for word in words:
        option, equals, value = word.partition("=") if word.startswith("-") else ("", "", word)
        if value.startswith(("/", "~/")) or PureWindowsPath(value).is_absolute():
            value = PureWindowsPath(value).name or "data"
        out.append(f"{option}{equals}{value}")
    return shlex.join(out)


def plain_platform(platform: str) -> str:
    """``Linux-6.1.0-13-amd64-x86_64-with-glibc2.36`` as ``Linux-x86_64-glibc2.36``: system, machine and C library.

    The kernel's build says which machine it was, and no number depends on it.
    """
    system, *words = platform.split("-")
    return "-".join([system, *dict.fromkeys(word for word in words if _PLATFORM.fullmatch(word))])


def paths_in(record: RunRecord) -> Iterator[tuple[str, str]]:
    """(field, path) of every absolute path anywhere in a record."""
    for place, value in values_of(record.model_dump(mode="json", exclude={"metrics"})):
        path = machine_path(value) if isinstance(value, str) else None
        if path is not None:
            yield place, path


def publish_result(folder: Path, record: RunRecord, target: Path, *, withhold: Iterable[str] = ()) -> RunRecord:
    """Publish a result of ``bench run``; returns its published record."""
    table = published_bytes(read_per_user(folder / PER_USER), withhold) if record.per_user_digest else b""
    environment = record.environment
    changes = {
        "command": plain_command(record.command),
        "environment": environment.model_copy(update={"platform": plain_platform(environment.platform)}),
        "per_user_digest": hashlib.blake2b(table, digest_size=32).hexdigest() if table else "",
    }
    record = record.model_copy(update=changes)
    with atomic_folder(result_folder(target, record.cell, record.key), "--out", replace=True) as draft:
        (draft / RECORD).write_text(record_text(record), encoding="utf-8")
        if table:
            (draft / PER_USER).write_bytes(table)
        for name in record.tables:
            copy = draft / table_place(name)
            copy.parent.mkdir(exist_ok=True)
            shutil.copyfile(folder / table_place(name), copy)
    return record


def publish_manifest(folder: Path, task: str, target: Path) -> None:
    """Publish the manifest of a result's task, which is read when the submission is verified."""
    target.mkdir(exist_ok=True)
    shutil.copyfile(folder / MANIFEST, target / f"{task}.json")


def publish_results(results: Path, target: Path, *, withhold: Iterable[str] = ()) -> list[RunRecord]:
    """Publish the results below a folder, with the manifests of their tasks; returns the published records.

    Those in published form, which have no manifest, are passed over. Raises CorruptArtefact for an unreadable record.
    """
    published = []
    for folder in (path.parent for path in find_files(results, MANIFEST) if (path.parent / RECORD).is_file()):
        published.append(publish_result(folder, read_record(folder), target, withhold=withhold))
        publish_manifest(folder, published[-1].cell.task, target / MANIFESTS)
    return published
