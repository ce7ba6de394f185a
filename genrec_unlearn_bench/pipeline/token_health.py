"""The health report of the semantic IDs that a run would use, and of how they stand to its concept."""

from __future__ import annotations

from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import lay_ground
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.trained import deployed, original, tokens
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.health import SidHealth, health
from genrec_unlearn_bench.store.store import StageStore

__all__ = ["token_health"]


def token_health(request: RunRequest, store: StageStore, progress: Progress, *, served: bool = False) -> SidHealth:
    """Make the IDs of the request's task (or read them from the store) and look at them.

    Args:
        served: Look at the IDs that the original recommender serves with, which are others where the backbone trains
            its tokenizer along (ETEGRec). The original is trained if need be.

    Raises:
        UsageError: The request is wrong.
        BenchError: Data or storage failed.
    """
    setting = settle(request)
    room = Workroom(setting, store, progress, Shelf())
    with determinism(setting.threads):
        ground = lay_ground(room)
        sids = tokens(room, ground)
        if served and not sids.table.frozen:
            sids = deployed(room, sids, original(room, ground, sids))
        table = sids.table
    items = ground.dataset.items
    return health(
        table,
        items_by_concept=ground.split.items,
        brands=items.brands,
        categories=[path[-1] if path else "" for path in items.categories],
    )
