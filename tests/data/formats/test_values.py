"""Values of every kind that tables hold, in every type of file: read, or said to be left out, never lost unnoticed."""

from __future__ import annotations

import datetime
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from genrec_unlearn_bench.data.catalogue import TableMapping
from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

DAY = datetime.date(2021, 1, 1)
LOG: list[dict[str, Any]] = [{"u": f"u{row % 6}", "i": f"p{row % 5}", "t": row} for row in range(60)]
ITEMS: list[dict[str, Any]] = [{"id": f"p{row}", "title": f"Thing {row}"} for row in range(5)]
MAP = {"interactions": {"user": "u", "item": "i", "time": "t"}, "items": {"id": "id", "title": "title"}}


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


def put(path: Path, records: list[dict[str, Any]]) -> None:
    path.parent.mkdir(exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(records), path)
    else:
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))


def imported(
    folder: Path,
    ending: str = "parquet",
    *,
    items: list[dict[str, Any]] = ITEMS,
    log: list[dict[str, Any]] = LOG,
    **fields: str,
) -> Dataset:
    """Fields of items, or attributes, by their columns."""
    put(folder / f"items.{ending}", items)
    put(folder / f"interactions.{ending}", log)
    known = {name: column for name, column in fields.items() if name in ("title", "brand", "price", "categories")}
    attributes = {name: column for name, column in fields.items() if name not in known}
    columns = {**MAP, "items": {**MAP["items"], **known}, "attributes": attributes}
    mapping = TableMapping.model_validate({"columns": columns})
    return import_folder(folder, "values", Progress(), format_name="table", mapping=mapping)[1]


def test_decimals_are_prices_and_numbers(tmp_path: Path) -> None:
    items = [{**item, "cost": Decimal("12.50") * (row + 1)} for row, item in enumerate(ITEMS)]
    found = imported(tmp_path / "shop", items=items, price="cost", cost="cost").items
    assert found.prices.tolist() == [12.5, 25.0, 37.5, 50.0, 62.5]
    assert found.attributes["cost"][1] == ("25.00",)


def test_a_number_that_is_none_is_no_text(tmp_path: Path) -> None:
    items = [{**item, "title": math.nan if row else "One", "kind": math.nan} for row, item in enumerate(ITEMS)]
    put(tmp_path / "shop" / "x.jsonl", items)
    found = imported(tmp_path / "shop", "jsonl", items=items, kind="kind")
    assert found.items.titles == ("One", "", "", "", "")
    assert not found.items.attributes
    assert "4 items have no text at all; their id stands in for it" in found.manifest.notes


def test_truths_and_dates_are_values(tmp_path: Path) -> None:
    items = [{**item, "new": row > 2, "since": DAY + datetime.timedelta(row)} for row, item in enumerate(ITEMS)]
    found = imported(tmp_path / "shop", items=items, new="new", since="since").items
    assert found.attributes["new"] == (("false",),) * 3 + (("true",),) * 2
    assert found.attributes["since"][4] == ("2021-01-05",)


def test_objects_are_counted(tmp_path: Path) -> None:
    items = [{**item, "title": {"en": item["title"]}, "maker": [{"name": "Acme"}]} for item in ITEMS]
    found = imported(tmp_path / "shop", "jsonl", items=items, maker="maker")
    assert found.manifest.dropped["title holds values of a kind that is not read"] == 5
    assert found.manifest.dropped["maker holds values of a kind that is not read"] == 5


def test_lists_in_cells_of_text_are_lists(tmp_path: Path) -> None:
    cells = {"kinds": "['Sports', 'Run']", "printed": "['Sports' 'Run']", "objects": "[{'name': 'Run'}]"}
    items = [{**item, **cells} for item in ITEMS]
    found = imported(tmp_path / "shop", items=items, categories="kinds", sort="kinds", raw="printed", odd="objects")
    assert found.items.categories[0] == found.items.attributes["sort"][0] == ("Sports", "Run")
    assert found.items.attributes["raw"][0] == ("['Sports' 'Run']",), "NumPy's form is not Python's: no value SportsRun"
    assert found.manifest.dropped["odd holds values of a kind that is not read"] == 5


def test_a_column_that_no_object_has_is_missed(tmp_path: Path) -> None:
    items = [{**item, "Brand": "Acme"} for item in ITEMS]
    with pytest.raises(DataFault, match="no column brand") as caught:
        imported(tmp_path / "shop", "jsonl", items=items, brand="brand")
    assert "the file has id, title, Brand" in str(caught.value)
    some = [*items[:4], {**ITEMS[4], "brand": "Acme"}]
    assert imported(tmp_path / "some", "jsonl", items=some, brand="brand").manifest.with_brand == 1
    for part, records in (("a", items), ("b", [{**ITEMS[0], "id": "p9", "brand": "Acme"}])):
        put(tmp_path / "shop" / f"items-{part}.jsonl", records)
    content = {"columns": {**MAP, "items": {**MAP["items"], "brand": "brand"}}}
    files = [{"role": "items", "names": ["items-*.jsonl"]}, {"role": "interactions", "names": ["interactions.jsonl"]}]
    mapping = TableMapping.model_validate({**content, "files": files})
    _, found = import_folder(tmp_path / "shop", "parts", Progress(), format_name="table", mapping=mapping)
    assert found.manifest.with_brand == 1, "one file of several has the column"
    with pytest.raises(DataFault, match="no column u"):
        imported(tmp_path / "log", "jsonl", log=[{"user": row["u"], "i": row["i"], "t": row["t"]} for row in LOG])


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_whole_numbers_and_dates_have_no_common_order(tmp_path: Path, ending: str) -> None:
    dated = [{**row, "t": str(DAY) if row["t"] % 2 else str(row["t"])} for row in LOG]
    with pytest.raises(DataFault, match=r"the timestamp '2021-01-01' is another kind than above: number or date"):
        imported(tmp_path / "shop", ending, log=dated)


def test_days_are_times(tmp_path: Path) -> None:
    days = [{**row, "t": DAY + datetime.timedelta(row["t"])} for row in LOG]
    texts = [{**row, "t": row["t"].isoformat()} for row in days]
    found, same = imported(tmp_path / "days", log=days), imported(tmp_path / "texts", log=texts)
    assert found.manifest.digest == same.manifest.digest
    whole = [{"u": Decimal(row["t"] % 6), "i": row["i"], "t": Decimal(row["t"])} for row in LOG]
    found, same = imported(tmp_path / "decimals", log=whole), imported(tmp_path / "numbers")
    assert found.manifest.digest == same.manifest.digest


def test_a_table_without_rows(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    put(folder / "items.parquet", ITEMS)
    pq.write_table(pa.Table.from_pylist(LOG).slice(0, 0), folder / "interactions.parquet")
    mapping = TableMapping.model_validate({"columns": MAP})
    with pytest.raises(DataFault, match="there is no interaction"):
        import_folder(folder, "values", Progress(), format_name="table", mapping=mapping)


@pytest.mark.parametrize("ending", ["csv", "parquet", "jsonl"])
def test_an_empty_history_is_counted_whatever_the_file(tmp_path: Path, ending: str) -> None:
    rows = [{"u": f"u{row}", "i": f"p{row % 5}", "h": ["p1"] if row else []} for row in range(9)]
    for part in ("train", "valid", "test"):
        if ending == "csv":
            lines = [f'{row["u"]},{row["i"]},"{row["h"]}"' for row in rows]
            (tmp_path / f"{part}.csv").write_text("\n".join(["u,i,h", *lines]) + "\n")
        else:
            put(tmp_path / f"{part}.{ending}", rows)
    columns = {"interactions": {"user": "u", "item": "i", "history": "h"}}
    mapping = TableMapping.model_validate({"columns": columns})
    _, found = import_folder(tmp_path, "values", Progress(), format_name="table", mapping=mapping)
    assert found.manifest.dropped["train row with an empty history"] == 1
