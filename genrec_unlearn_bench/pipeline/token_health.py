"""Health of the semantic IDs that a run would use, and how they relate to its concept."""

from __future__ import annotations

from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.graph import recommender_stages
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.pipeline.stage import StageContext, materialise
from genrec_unlearn_bench.pipeline.stages.train import TrainingStages
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.health import SidHealth, health
from genrec_unlearn_bench.store.store import StageStore


def token_health(request: RunRequest, store: StageStore, progress: Progress, *, served: bool = False) -> SidHealth:
    """Make the IDs of the request's task (or read them from the store) and look at them.

    Args:
        served: Look at the IDs that the original recommender serves with, which are others where the backbone trains
            its tokenizer along (ETEGRec). The original is trained if need be.

    Raises:
        UsageError: The request is wrong.
        BenchError: Data or storage failed.
    """
    resolved = resolve(request)
    context = StageContext(store, progress, device=resolved.device)
    data, sids, _, _ = recommender_stages(resolved, progress)
    with determinism(resolved.threads):
        if not served:
            sids = TrainingStages(resolved, data).sids()
        for stage in (*data.values(), sids):
            materialise(stage, context)
        table, items = context.load(sids), context.load(data["dataset"]).items
        split = context.load(data["task"])
    return health(
        table,
        items_by_concept=split.items,
        brands=items.brands,
        categories=[path[-1] if path else "" for path in items.categories],
    )
