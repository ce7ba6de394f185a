"""How ``bench cache`` shows a store on the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from genrec_unlearn_bench.store.amounts import told_bytes, told_seconds

if TYPE_CHECKING:
    from rich.table import Table

    from genrec_unlearn_bench.store.listing import Listing
    from genrec_unlearn_bench.store.sweeping import Swept

__all__ = ["collection_lines", "listing_table"]


def listing_table(found: Listing) -> Table:
    """Stages by kind and backbone, and their sum."""
    from rich.table import Table

    table = Table(title=str(found.root), caption=_caption(found), caption_justify="left", title_justify="left")
    table.add_column("stage")
    table.add_column("backbone")
    for name in ("stages", "size", "to compute", "oldest", "last read"):
        table.add_column(name, justify="right")
    for row in found.rows:
        times = (told_seconds(row.seconds), told_seconds(row.oldest), f"{told_seconds(row.last_read)} ago")
        table.add_row(row.stage, row.backbone or "–", str(row.stages), told_bytes(row.size), *times)
    table.add_section()
    total = (sum(row.stages for row in found.rows), sum(row.size for row in found.rows))
    table.add_row(
        "all", "", str(total[0]), told_bytes(total[1]), told_seconds(sum(row.seconds for row in found.rows)), "", ""
    )
    return table


def collection_lines(swept: Swept) -> Iterator[str]:
    """What went, or would go."""
    verb = "removed" if swept.removed else "would be removed"
    if not swept.stages and not swept.leftovers:
        yield f"{swept.root}: nothing to remove, {swept.kept} stages stay"
        return
    yield f"{swept.root}: {swept.stages} stages {verb}, {swept.kept} stay; {told_bytes(swept.size)} of room"
    for reason, number in sorted(swept.reasons.items()):
        yield f"  {number} {_REASONS.get(reason, reason)}"
    for kind, number in sorted(swept.leftovers.items()):
        yield f"  {number} {_LEFTOVERS[kind]}"
    total = sum(swept.seconds.values())
    if total:
        parts = ", ".join(f"{name} {told_seconds(part)}" for name, part in list(swept.seconds.items())[:6])
        yield f"  computing them again would take {told_seconds(total)}: {parts}"
    for name in swept.refused[:10]:
        yield f"  left: {name} is in use, or belongs to somebody else"
    if len(swept.refused) > 10:
        yield f"  left: … and {len(swept.refused) - 10} more"
    if not swept.removed:
        yield "nothing was removed: add --yes to do it"


_REASONS = {
    "older": "not read for so long",
    "not asked for": "that today's code asks for no more",
    "not kept": "that no result named here stands on",
    "renamed": "under keys of an older version, beside their new ones",
    "over size": "beyond the size, read longest ago",
}
_LEFTOVERS = {
    "draft": "drafts of processes that were killed",
    "unfinished": "folders of unfinished work that nobody will take up",
    "lock": "locks that nobody holds",
}


def _caption(found: Listing) -> str:
    lines = []
    if found.older_version:
        lines.append(f"{found.older_version} of an older key version: see `bench cache migrate`")
    if found.twins:
        lines.append(f"{found.twins} more under keys of an older version, in the same files")
    if found.unreadable:
        lines.append(f"{found.unreadable} whose manifest cannot be read: see `bench cache verify`")
    return "\n".join(lines)
