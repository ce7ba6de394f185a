"""Does one job: the stages up to where it goes, from the store where they are there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import lay_ground
from genrec_unlearn_bench.pipeline.pipeline import Finished
from genrec_unlearn_bench.pipeline.run import run_cell
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.trained import deployed, oracle, original, tokens
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from genrec_unlearn_bench.store.sources import code_digests

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.job import Job
    from genrec_unlearn_bench.progress import Progress
    from genrec_unlearn_bench.store.store import StageStore

__all__ = ["do"]


def do(job: Job, store: StageStore, progress: Progress, shelf: Shelf | None = None) -> Finished | None:
    """Do a job in this process. Returns the finished run where the job ends in a result.

    Raises what ``run_cell`` raises. Finished stages are kept whatever happens, so that a job may be done again at any
    time and goes on where it stopped.
    """
    shelf = shelf or Shelf()
    if job.until == "result":
        return run_cell(job.request, store, progress, shelf=shelf)
    setting = settle(job.request)
    code_digests([__name__, setting.backbone.__module__])
    room = Workroom(setting, store, progress, shelf)
    with determinism(setting.threads):
        ground = lay_ground(room)
        if job.until == "ground":
            return None
        sids = tokens(room, ground)
        if job.until == "tokens":
            return None
        # A retrained oracle stands on the IDs that are served, which a joint tokenizer has only after its training.
        if job.until == "original" or not sids.table.frozen:
            sids = deployed(room, sids, original(room, ground, sids))
        if job.until == "retrain":
            oracle(room, ground, sids, job.number)
    return None
