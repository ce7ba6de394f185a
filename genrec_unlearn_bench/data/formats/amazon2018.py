"""Amazon 2018, the raw files of the McAuley lab: ``<Category>_5.json.gz`` and ``meta_<Category>.json.gz``.

One JSON object a line. Reviews: ``reviewerID``, ``asin``, ``unixReviewTime`` (seconds). Metadata: ``asin``, ``title``,
``brand``, ``category`` (a list), ``description`` (a list), ``price`` (a string). The metadata was scraped: titles may
be the start of a tag, prices a style sheet, and products stand there more than once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from genrec_unlearn_bench.data.formats.reviews import ReviewLog, assemble, objects
from genrec_unlearn_bench.data.raw import RawData
from genrec_unlearn_bench.progress import Progress

__all__ = ["read", "read_metadata"]


def read(files: Mapping[str, Path], progress: Progress) -> RawData:
    """Read roles ``reviews`` and ``meta``."""
    dropped: Counter[str] = Counter()
    log = ReviewLog(dropped)
    for record in objects(files["reviews"], dropped, progress):
        log.add(record.get("reviewerID"), record.get("asin"), record.get("unixReviewTime"))
    return assemble(log, read_metadata(files["meta"], dropped, progress), dropped, files["reviews"])


def read_metadata(path: Path, dropped: Counter[str], progress: Progress) -> Iterator[tuple[str, dict[str, object]]]:
    """(asin, fields for ``ItemColumns.add``) of every metadata line that names a product."""
    for record in objects(path, dropped, progress):
        asin = record.get("asin")
        if not isinstance(asin, str) or not asin:
            dropped["metadata without an asin"] += 1
            continue
        yield (
            asin,
            {
                "title": record.get("title"),
                "description": record.get("description"),
                "brand": record.get("brand"),
                "price": record.get("price"),
                # The 2014 files call the same field "categories".
                "categories": record.get("category", record.get("categories")),
            },
        )
