"""Whether a table of semantic IDs is the one of a catalogue: item numbers of two catalogues look alike."""

from __future__ import annotations

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.sids.table import SidTable

__all__ = ["check_items", "check_successor"]

_MEND = "use the table that was made for this dataset; tables of two datasets cannot be exchanged"


def check_items(table: SidTable, items: int) -> None:
    """Raise DataFault unless the table stands for so many items."""
    if len(table) != items:
        raise DataFault(
            f"the semantic IDs are those of another catalogue: {len(table)} of them for {items} items", hint=_MEND
        )


def check_successor(current: SidTable, table: SidTable) -> None:
    """Raise DataFault unless ``table`` can take the place of ``current``: same items, same levels, none grown."""
    check_items(table, len(current))
    grown = any(new > old for new, old in zip(table.level_sizes, current.level_sizes, strict=False))
    if table.levels != current.levels or grown:
        raise DataFault(
            "the semantic IDs are those of another catalogue: "
            f"levels of {table.level_sizes} codes, where the recommender has tokens for {current.level_sizes}",
            hint=_MEND,
        )
