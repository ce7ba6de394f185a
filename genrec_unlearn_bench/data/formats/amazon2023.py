"""Amazon 2023, the McAuley lab's jsonl files, or the 5-core rating csv beside the metadata.

Reviews: ``user_id``, ``parent_asin``, ``timestamp`` (milliseconds). Ratings: ``user_id,parent_asin,rating,timestamp``.
Metadata: ``parent_asin``, ``title``, ``description`` (a list), ``categories``, ``price`` (number, text or null),
``details`` with ``Brand``, and ``store``. The brand is ``details.Brand``; the store's name stands in for it, as a store
page is one brand's page in nearly all cases. Items are parent products: variants share one row.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from genrec_unlearn_bench.data.formats.lines import BrokenLine, json_object, read_lines
from genrec_unlearn_bench.data.formats.reviews import ReviewLog, assemble, objects
from genrec_unlearn_bench.data.raw import RawData
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.progress import Progress

__all__ = ["read"]

_RATING_COLUMNS = ("user_id", "parent_asin", "timestamp")


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read ``meta`` and one of ``reviews`` (jsonl) and ``ratings`` (csv)."""
    dropped: Counter[str] = Counter()
    log = ReviewLog(dropped)
    if "ratings" in files:
        _ratings(files["ratings"], log, dropped, progress)
    else:
        for record in objects(files["reviews"], dropped, progress):
            log.add(record.get("user_id"), record.get("parent_asin"), record.get("timestamp"))
    source = files.get("ratings") or files["reviews"]
    return assemble(log, _metadata(files["meta"], dropped, progress), dropped, source)


def _ratings(path: Path, log: ReviewLog, dropped: Counter[str], progress: Progress) -> None:
    rows = csv.reader(text for _, text in progress.track(path.name, read_lines(path)))
    try:
        header = next(rows)
        missing = [name for name in _RATING_COLUMNS if name not in header]
        if missing:
            raise DataFault(
                f"missing columns: {', '.join(missing)}", where=f"{path}:1", hint=f"a header with {_RATING_COLUMNS}"
            )
        user, item, time = (header.index(name) for name in _RATING_COLUMNS)
        for cells in rows:
            if len(cells) != len(header):
                dropped["rating with missing columns"] += 1
            else:
                log.add(cells[user], cells[item], cells[time])
    except csv.Error as fault:
        raise DataFault(f"not a csv file: {fault}", where=f"{path}, line {rows.line_num}") from None


def _metadata(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[tuple[str, dict[str, object]]]:
    for record in objects(path, dropped, progress):
        asin = record.get("parent_asin")
        if not isinstance(asin, str) or not asin:
            dropped["metadata without a parent_asin"] += 1
            continue
        yield (
            asin,
            {
                "title": record.get("title"),
                "description": record.get("description"),
                "brand": _brand(record),
                "price": record.get("price"),
                "categories": record.get("categories"),
            },
        )


def _brand(record: Mapping[str, object]) -> object:
    details = record.get("details")
    if isinstance(details, str):
        # The Hub's parquet copies hold this object as text.
        try:
            details = json_object(details)
        except BrokenLine:
            details = None
    brand = details.get("Brand") if isinstance(details, dict) else None
    return brand if isinstance(brand, str) and brand.strip() else record.get("store")
