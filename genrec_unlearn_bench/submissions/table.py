"""Columns of the per-user table that a submitter may withhold, by family, and what cannot be re-scored then.

Ranks, counts and neighbours are never withheld: without them nothing of a result could be checked.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.evaluation.per_user import COLUMNS
from genrec_unlearn_bench.submissions.faults import PARQUET_ROWS, Refused

if TYPE_CHECKING:
    import pandas as pd

FAMILIES: Mapping[str, tuple[str, ...]] = {
    "similarity": ("first_similarity", "mean_similarity", "first_similarity_scrubbed", "mean_similarity_scrubbed"),
    "influence": ("js_forget", "js_random", "change_forget", "change_random"),
    "log-prob": ("log_prob",),
}
"""Family -> columns. No metric rests on ``log-prob`` so far."""


def known_families(names: Iterable[str]) -> tuple[str, ...]:
    """The named families in the order of ``FAMILIES``. Raises UnknownName."""
    wanted = {one_of("column family", name.strip(), FAMILIES) for name in names if name.strip()}
    return tuple(name for name in FAMILIES if name in wanted)


def rests_on(metric: str) -> str | None:
    """The family whose columns a USER-level metric is computed from; None where it needs none of them."""
    head = metric.partition(".")[0]
    return head if head in ("similarity", "influence") else None


_WITHHELD = b"withheld"
_AGAIN = "publish the result again with `bench submission new`; tables are not written by hand"


def published_bytes(per_user: pd.DataFrame, withhold: Iterable[str] = ()) -> bytes:
    """A table (``per_user.COLUMNS``) in its published form, as the bytes of a parquet file.

    The column ``user`` becomes a number in order of first appearance within the group, ``target`` becomes -1, and the
    columns of the withheld families become null. The same table gives the same bytes under the same pyarrow.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    families = known_families(withhold)
    absent = {column for family in families for column in FAMILIES[family]}
    plain = per_user.assign(user=clusters(per_user), target=-1, group=per_user["group"].astype(str))
    plain = plain.assign(**dict.fromkeys(absent, np.nan))
    columns = {name: pa.array(plain[name], type=_type(name), from_pandas=True) for name in COLUMNS}
    schema = pa.schema([(name, _type(name)) for name in COLUMNS], metadata={_WITHHELD: ",".join(families).encode()})
    counted = [name for name in COLUMNS if pa.types.is_integer(_type(name))]
    sink = io.BytesIO()
    pq.write_table(
        pa.table(columns, schema=schema),
        sink,
        compression="zstd",
        compression_level=19,
        use_dictionary=[name for name in COLUMNS if name not in counted],
        column_encoding=dict.fromkeys(counted, "DELTA_BINARY_PACKED"),
        write_statistics=False,
    )
    return sink.getvalue()


def clusters(per_user: pd.DataFrame) -> np.ndarray[Any, np.dtype[np.int64]]:
    """[M] users as numbers from 0 in order of first appearance within their group, the same for both beams."""
    import pandas as pd

    out = np.zeros(len(per_user), dtype=np.int64)
    for group in per_user["group"].unique():
        rows = (per_user["group"] == group).to_numpy()
        out[rows] = pd.factorize(per_user["user"].to_numpy()[rows])[0]
    return out


def read_table(content: bytes, where: str) -> tuple[pd.DataFrame, frozenset[str]]:
    """The per-user frame (null as NaN, targets -1) and the withheld families. Raises Refused for any other file.

    Rows are counted before they are read, and only columns of numbers and the group's name are: nothing is unpickled.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(io.BytesIO(content))
        _check_schema(file, where)
        table = file.read()
    except (pa.ArrowException, OSError, ValueError) as fault:
        first = str(fault).splitlines()[0][:200]
        raise Refused(f"not a readable parquet file: {first}", where=where, hint=_AGAIN) from None
    nulls = [name for name in COLUMNS if COLUMNS[name] != "float64" and table.column(name).null_count]
    if nulls:
        raise Refused(f"the column {nulls[0]!r} has empty places", where=where, hint=_AGAIN)
    withheld = frozenset(_withheld(file, where))
    frame = table.to_pandas(ignore_metadata=True)
    typed: pd.DataFrame = frame[list(COLUMNS)].astype(dict(COLUMNS))
    return typed, withheld


def _type(name: str) -> Any:
    import pyarrow as pa

    return {"int64": pa.int64(), "int8": pa.int8(), "float64": pa.float64(), "str": pa.string()}[COLUMNS[name]]


def _check_schema(file: Any, where: str) -> None:
    rows = file.metadata.num_rows
    if rows > PARQUET_ROWS:
        raise Refused(f"the table promises {rows} rows, more than {PARQUET_ROWS}", where=where, hint=_AGAIN)
    names = file.schema_arrow.names
    if extra := [name for name in names if name not in COLUMNS]:
        raise Refused(f"the table has columns that no result has: {', '.join(extra)[:200]}", where=where, hint=_AGAIN)
    if missing := [name for name in COLUMNS if name not in names]:
        raise Refused(f"the table lacks columns: {', '.join(missing)}", where=where, hint=_AGAIN)
    if len(names) != len(COLUMNS):
        raise Refused("the table has a column twice", where=where, hint=_AGAIN)
    for field in file.schema_arrow:
        if field.type != _type(field.name):
            raise Refused(
                f"the column {field.name!r} is of type {field.type}, not {_type(field.name)}", where=where, hint=_AGAIN
            )


def _withheld(file: Any, where: str) -> tuple[str, ...]:
    metadata = (file.schema_arrow.metadata or {}).get(_WITHHELD)
    names = (metadata or b"").decode("utf-8", "replace").split(",")
    unknown = [name for name in names if name and name not in FAMILIES]
    if metadata is None or unknown:
        raise Refused("the table does not say which columns are withheld", where=where, hint=_AGAIN)
    return known_families(names)
