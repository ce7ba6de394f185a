"""Shadow models for U-LiRA (``evaluation.ulira``): originals that saw half of the forget set each, and unlearned it.

Opt-in (``--shadows N``), as N recommenders are trained from scratch. Every training, every unlearning and every
shadow's confidences are stages of the store: methods of a seed share the shadow originals, and an interrupted call
goes on with the next shadow. A shadow is the run's own cell with another seed and another ground, so that what is
judged is exactly what the run does: same configuration, same semantic IDs, same method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.errors import BenchError, UsageError
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable, unmeasured
from genrec_unlearn_bench.evaluation.ulira import SPECS, confidence, halves, ulira_values
from genrec_unlearn_bench.pipeline.shadow_ground import forget_pairs, pair_codes, shadow_ground
from genrec_unlearn_bench.pipeline.shadow_limits import MOST_PARAMETERS
from genrec_unlearn_bench.pipeline.trained import original
from genrec_unlearn_bench.pipeline.unlearned import unlearned
from genrec_unlearn_bench.pipeline.weights import first_not_finite
from genrec_unlearn_bench.seeding import derive, numpy_generator
from genrec_unlearn_bench.store.sources import code_digests

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.recommender import Ranker
    from genrec_unlearn_bench.data.examples import Examples
    from genrec_unlearn_bench.evaluation.metric import MetricValue
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.trained import Tokens, Trained
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.store.store import StoredStage

__all__ = ["EXAMPLES", "STAGE", "Shadowed", "shadowed"]

EXAMPLES = 200
"""Forget train interactions that are told, one example of each."""
LEAST_EXAMPLES = 20
STAGE = "u-lira"
"""Name of the stages that hold confidences, and how the record's names of them begin."""
_CONFIDENCES = "confidences.npy"


@dataclass(frozen=True, eq=False)
class Shadowed:
    """What the shadows say, and the stages that it rests on, each with what the record calls it."""

    stages: tuple[tuple[str, StoredStage], ...] = ()
    read: Callable[[], tuple[MetricValue, ...]] = tuple

    @property
    def values(self) -> tuple[MetricValue, ...]:
        """The metrics; read from the stages when they are asked for."""
        return self.read()


def shadowed(room: Workroom, ground: Ground, sids: Tokens, before: Trained) -> Shadowed:
    """U-LiRA on the row that the setting asks for; nothing where no shadows are asked for.

    The original is judged by the shadow originals themselves. Other reference rows have no shadows: retrained models
    never saw the forget set, so that trained and never trained are the same distribution by construction, and to
    train it N times more would measure nothing.

    Args:
        sids: The deployed semantic IDs: all shadows use them.
        before: The run's original, whose size stands for the shadows'.

    Raises UsageError where the recommender is too large.
    """
    setting = room.setting
    shadows = setting.request.shadows
    if not shadows:
        return Shadowed()
    if setting.method is None and setting.entry.name != "original":
        reason = f"the row {setting.entry.name!r} unlearns nothing, so that no shadow models of it are trained"
        return Shadowed(read=lambda: unmeasured(SPECS, reason))
    try:
        examples = _examples(ground, setting.seed)
    except NotMeasurable as fault:
        refusal = unmeasured(SPECS, fault.what)
        return Shadowed(read=lambda: refusal)
    _check_size(room.looked_at(before))
    pairs = forget_pairs(ground)
    included = halves(shadows, len(pairs), numpy_generator(setting.seed, "shadows", "halves"))
    places = np.searchsorted(pairs, pair_codes(ground, examples.users, examples.targets))
    found = list(_confidences(room, ground, sids, examples, [pairs[~half] for half in included]))

    def values() -> tuple[MetricValue, ...]:
        confidences = np.stack([room.load(stage, lambda path: _read(path)) for stage in found])
        return ulira_values(confidences, included[:, places])

    named = tuple((f"{STAGE}: shadow {number}", stage) for number, stage in enumerate(found, start=1))
    return Shadowed(named, values)


def _examples(ground: Ground, seed: int) -> Examples:
    """One train example each of up to ``EXAMPLES`` forget pairs, the same for all methods of a seed."""
    forget = ground.split.train.forget
    _, first = np.unique(pair_codes(ground, forget.users, forget.targets), return_index=True)
    if len(first) < LEAST_EXAMPLES:
        raise NotMeasurable(f"{len(first)} forget train interactions are too few to tell; {LEAST_EXAMPLES} are needed")
    generator = numpy_generator(seed, "shadows", "examples")
    return forget.subset(np.sort(generator.choice(first, size=min(EXAMPLES, len(first)), replace=False)))


def _check_size(recommender: Ranker) -> None:
    if not isinstance(recommender, Recommender):
        raise BenchError("shadow models are made of generative recommenders")
    size = sum(parameter.numel() for parameter in recommender.module.parameters())
    if size > MOST_PARAMETERS:
        raise UsageError(
            f"the recommender has {size / 1e6:.0f} million parameters, and shadow models are trained of up to "
            f"{MOST_PARAMETERS / 1e6:.0f} million",
            hint="leave out --shadows",
        )


def _confidences(
    room: Workroom, ground: Ground, sids: Tokens, examples: Examples, left_out: list[NDArray[np.int64]]
) -> Iterator[StoredStage]:
    """Train and unlearn one shadow after the other, and take its confidences [T] in the examples."""
    for number, pairs in enumerate(left_out, start=1):
        room.progress.info(f"shadow {number} of {len(left_out)}")
        own_room = room.of_seed(derive(room.setting.seed, "shadow", number))
        own_ground = shadow_ground(ground, pairs)
        trained = original(own_room, own_ground, sids)
        if room.setting.method is not None:
            trained = unlearned(own_room, own_ground, sids, trained)
        yield _stage(room, ground, trained, examples)


def _stage(room: Workroom, ground: Ground, trained: Trained, examples: Examples) -> StoredStage:
    content: KeyContent = {
        "ranker": trained.stage.digest,
        **ground.identity,
        "examples": len(examples),
        "seed": room.setting.seed,
        "device": room.setting.device_kind,
        "code": code_digests([__name__, room.setting.backbone.__module__]),
    }

    def compute(folder: Path) -> None:
        recommender = trained.load()
        if not isinstance(recommender, Recommender):
            raise BenchError("shadow models are made of generative recommenders")
        if first_not_finite(recommender):
            found = np.full(len(examples), np.nan)
        else:
            # Histories as the run trained on them: the same question to every shadow.
            histories = examples.histories(
                None if recommender.serving.ignored is not None else recommender.history_limit
            )
            logs = recommender.target_log_probs(histories, examples.targets).double().sum(1)
            found = confidence(logs.numpy())
        np.save(folder / _CONFIDENCES, found, allow_pickle=False)

    return room.stage(STAGE, content, compute, of=trained.stage.name)


def _read(folder: Path) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.load(folder / _CONFIDENCES, allow_pickle=False)
    return found
