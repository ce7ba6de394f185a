"""The stage in which a ranker is measured for tuning: on the validation parts, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.meter import metered
from genrec_unlearn_bench.pipeline.weights import first_not_finite
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.tuning.selection import BEAM
from genrec_unlearn_bench.unlearning.validation import validate

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.trained import Trained
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.store.store import StoredStage

__all__ = ["Validated", "validated"]

NUMBERS = "validation.json"


class _Numbers(StrictModel):
    """The stage's one file."""

    not_finite: str = ""
    """The first parameter that is no number; then nothing was measured."""
    forget_hr: float | None = None
    retain_ndcg: float | None = None
    forget_rows: int = 0
    retain_rows: int = 0


@dataclass(frozen=True, eq=False)
class Validated:
    """What was measured.

    Attributes:
        not_finite: A parameter that holds NaN or infinity; then there are no numbers.
        seconds: Wall-clock of the measurement alone.
    """

    stage: StoredStage
    not_finite: str
    forget_hr: float | None
    retain_ndcg: float | None
    seconds: float


def validated(room: Workroom, ground: Ground, trained: Trained) -> Validated:
    """Measure a stored recommender on the task's validation parts, or read what was measured before."""
    setting = room.setting
    content: KeyContent = {
        "ranker": trained.stage.digest,
        **ground.examples_identity,
        "task": ground.split.manifest.digest,
        "part": "valid",
        "beam": BEAM,
        "device": setting.device_kind,
        "code": code_digests([validate.__module__, setting.backbone.__module__]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        recommender = trained.load()
        if not isinstance(recommender, Recommender):
            raise BenchError(f"the backbone {setting.backbone.name!r} gives no generative recommender to validate")
        fault = first_not_finite(recommender)
        with metered(setting.device) as reading:
            found = None if fault else validate(recommender, ground.split.valid, beam=BEAM)
        numbers = _Numbers(not_finite=fault) if found is None else _Numbers(**vars(found))
        (folder / NUMBERS).write_text(numbers.model_dump_json(indent=2) + "\n", encoding="utf-8")
        return {"seconds": reading.seconds}

    stage = room.stage("validated", content, compute, of=trained.stage.name)
    numbers = room.load(stage, lambda path: _Numbers.model_validate_json((path / NUMBERS).read_bytes()))
    seconds = float(stage.account["seconds"])
    return Validated(stage, numbers.not_finite, numbers.forget_hr, numbers.retain_ndcg, seconds)
