"""RecBole's atomic files, ``*.inter`` and ``*.item``: tab-separated, with ``name:type`` in the header.

A ``token`` is an id or a value, a ``token_seq`` several with spaces between them, a ``float`` a number. Titles are
``token_seq`` as well and yet one text. Columns of items that are no field of ours become attributes under their own
names (``class`` of MovieLens); those named in ``columns`` of the dataset's YAML, without their types, go before what is
guessed here. Other files (``.user``, ``.kg``) are not read.
"""

from __future__ import annotations

import re

from genrec_unlearn_bench.data.catalogue import Column, Columns, DatasetSpec
from genrec_unlearn_bench.data.formats import table
from genrec_unlearn_bench.data.formats.lines import read_lines
from genrec_unlearn_bench.data.raw import RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

_LOG = {"user": "user_id", "item": "item_id", "time": "timestamp"}
_ITEM = {
    "id": ("item_id",),
    "title": ("title", "movie_title", "name", "item_name"),
    "brand": ("brand",),
    "price": ("price",),
    "categories": ("categories", "category"),
    "description": ("description",),
}
_TEXTS = ("title", "description", "brand")


def read(files: table.Files, spec: DatasetSpec, progress: Progress) -> RawData:
    """Read ``interactions`` and, where it is there, ``items``."""
    log, asked = _header(files, "interactions"), spec.columns
    usual = {name: one for name, one in _LOG.items() if one in log or name != "time"}
    interactions = {name: Column.model_validate(log.get(one, one)) for name, one in usual.items()}
    interactions |= {name: _typed(column, log) for name, column in asked.interactions.items()}
    if "time" not in interactions and spec.split == "global-time":
        raise DataFault("no column timestamp", where=f"{files['interactions'][0]}:1", hint="split it leave-one-out")
    items, attributes = {}, {}
    if "items" in files:
        header = _header(files, "items")
        named = {name for column in (*asked.items.values(), *asked.attributes.values()) for name in column.columns}
        for name, typed in header.items():
            field = next((field for field, known in _ITEM.items() if name in known and field not in asked.items), None)
            between = " " if typed.endswith("_seq") and field not in _TEXTS else None
            column = Column.model_validate({"from": typed, "split": between})
            if field is not None and field not in items:
                items[field] = column
            elif name not in named and re.fullmatch("[a-z][a-z0-9_]*", name.lower()):
                attributes[name.lower()] = column
        items |= {field: _typed(column, header) for field, column in asked.items.items()}
        attributes |= {field: _typed(column, header) for field, column in asked.attributes.items()}
    columns = Columns.model_validate({"interactions": interactions, "items": items, "attributes": attributes})
    tabbed = tuple(file.model_copy(update={"sep": "\t"}) for file in spec.files)
    return table.read(files, spec.model_copy(update={"columns": columns, "files": tabbed}), progress)


def _header(files: table.Files, role: str) -> dict[str, str]:
    """Column name -> ``name:type``, as the file's columns are called."""
    return {typed.partition(":")[0].strip(): typed for typed in next(read_lines(files[role][0]))[1].split("\t")}


def _typed(column: Column, header: dict[str, str]) -> Column:
    return column.model_copy(update={"columns": tuple(header.get(name, name) for name in column.columns)})
