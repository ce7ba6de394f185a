"""The stage in which the core measurements of a ranker are taken: metric values, per-user table and ranked lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.evaluation.core import evaluate
from genrec_unlearn_bench.evaluation.decode import EvaluationContext
from genrec_unlearn_bench.evaluation.lists import LISTS
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline.weights import first_not_finite
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.store.store import StoredStage

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.trained import Tokens, Trained
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent

__all__ = ["PER_USER", "Scores", "score"]

PER_USER = "per_user.parquet"
VALUES = "values.json"

_VALUES = TypeAdapter(tuple[MetricValue, ...])


@dataclass(frozen=True, eq=False)
class Scores:
    """What was measured. A model whose weights are not finite ranks nothing: it has neither values nor table."""

    stage: StoredStage
    read: Callable[[], tuple[MetricValue, ...]]

    @property
    def measured(self) -> bool:
        """Whether anything was."""
        return self.per_user is not None

    @cached_property
    def values(self) -> tuple[MetricValue, ...]:
        """What was measured; read when it is asked for."""
        return self.read()

    @property
    def per_user(self) -> Path | None:
        """The per-user table, if anything was measured."""
        path = self.stage.path / PER_USER
        return path if path.is_file() else None


def score(room: Workroom, ground: Ground, sids: Tokens, trained: Trained) -> Scores:
    """Take the core measurements of a stored ranker."""
    setting = room.setting
    content: KeyContent = {
        "ranker": trained.stage.digest,
        "original_sids": sids.stage.digest,
        **ground.identity,
        "suite": "core",
        "protocol": PROTOCOL_VERSION,
        "seed": setting.seed,
        "device": setting.device_kind,
        "code": code_digests([evaluate.__module__, setting.backbone.__module__]),
    }

    def compute(folder: Path) -> None:
        ranker = trained.load()
        if first_not_finite(ranker):
            (folder / VALUES).write_text("[]\n", encoding="utf-8")
            return
        context = EvaluationContext(
            ranker=ranker,
            original_sids=sids.table,
            items=ground.dataset.items,
            split=ground.split,
            features=ground.features,
            seed=setting.seed,
        )
        values = evaluate(context, folder / PER_USER, folder / LISTS, room.progress)
        (folder / VALUES).write_bytes(_VALUES.dump_json(values, indent=1))

    stage = room.stage("evaluation", content, compute, of=trained.stage.name)
    return Scores(stage, lambda: room.load(stage, lambda path: _VALUES.validate_json((path / VALUES).read_bytes())))
