"""SASRec as a stage: a reference row of its own, and the item vectors that LETTER and ETEGRec are built on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.sasrec.ranker import SasRec
from genrec_unlearn_bench.pipeline.meter import metered
from genrec_unlearn_bench.pipeline.stage_log import StageLog
from genrec_unlearn_bench.store.sources import code_digests

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.backbone import TrainingData
    from genrec_unlearn_bench.backbones.sasrec.config import SasRecConfig
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.store.store import StoredStage

__all__ = ["Collaborative", "collaborative"]


@dataclass(frozen=True, eq=False)
class Collaborative:
    """A stored SASRec."""

    stage: StoredStage
    device: str

    def load(self) -> SasRec:
        """Read it."""
        return SasRec.load(self.stage.path, device=self.device)


def collaborative(
    room: Workroom, identity: KeyContent, config: SasRecConfig, data: Callable[[], TrainingData]
) -> Collaborative:
    """Train SASRec on the train part of ``data`` (or read it from the store).

    Args:
        identity: What identifies the examples, for the key.
    """
    setting = room.setting
    content: KeyContent = {
        **identity,
        "config": config,
        "seed": setting.seed,
        "device": setting.device_kind,
        "code": code_digests([SasRec.__module__]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        log = StageLog(room.progress)
        examples = data()
        with metered(setting.device) as reading:
            ranker = SasRec.fit(
                config,
                train=examples.train,
                valid=examples.valid,
                items=len(examples.items),
                seed=setting.seed,
                device=setting.device,
                progress=log,
            )
        ranker.save(folder)
        log.write(folder)
        return {"seconds": reading.seconds, "peak_memory_mib": reading.peak_memory_mib}

    return Collaborative(room.stage("sasrec", content, compute), setting.device)
