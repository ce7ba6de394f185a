"""Measurement stages beyond the core: every measurement of the suite on one model, and the passes they share.

References are measured once for all methods of a seed, and a new measurement repeats none of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.evaluation.measured_parts import (
    StoredParts,
    read_measured,
    run_parts,
    write_measured,
    write_parts,
)
from genrec_unlearn_bench.evaluation.measurement import Measured, Measurement, SharedPass, Subject
from genrec_unlearn_bench.evaluation.probing.states import untrained
from genrec_unlearn_bench.evaluation.suites import find_measurement
from genrec_unlearn_bench.pipeline.stage import Stage
from genrec_unlearn_bench.pipeline.stages.data import prepare_task
from genrec_unlearn_bench.pipeline.stages.unlearn import first_not_finite
from genrec_unlearn_bench.seeding import derive

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest
    from genrec_unlearn_bench.pipeline.stage import Inputs, StageContext


@dataclass(frozen=True)
class MeasurementStages:
    """Builds the stages of a suite's measurements for one resolved request.

    Attributes:
        data: Stages ``dataset``, ``task``, ``features`` and ``scrubbed``.
        sids: The original recommender's semantic IDs.
    """

    resolved: ResolvedRequest
    data: Mapping[str, Stage]
    sids: Stage

    def of(self, model: Stage, *, as_untrained: bool = False) -> dict[str, Stage]:
        """The stage of each measurement on one model.

        Args:
            as_untrained: Measure the model's shape with random weights instead, for the measurements that ask for it.
        """
        found = {name: find_measurement(name) for name in self.resolved.suite.measurements}
        chosen = {name: one for name, one in found.items() if one.untrained or not as_untrained}
        return {name: self._measurement(one, model, as_untrained) for name, one in chosen.items()}

    def _measurement(self, measurement: Measurement, model: Stage, as_untrained: bool) -> Stage:
        config = self.resolved.measuring[measurement.name]
        passes = {shared.name: self._shared_pass(shared, model, as_untrained) for shared in measurement.passes}

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs, model.name, as_untrained)
            if subject is None:
                write_parts({"": Measured(reason=reason)}, folder)
                return
            run_parts(
                measurement,
                subject,
                config,
                context.log(),
                folder,
                passes={name: inputs[name] for name in passes},
                work=context.store.work(inputs.stage.name, inputs.stage.key),
                reseed=self._reseed(measurement.name),
            )

        return Stage(
            measurement.name,
            measurement.version,
            self._config(as_untrained) | {"config": config},
            {**self.data, "sids": self.sids, "model": model, **passes},
            compute=compute,
            load=lambda inputs, folder: StoredParts(folder),
            seed=self.resolved.seed,
            keep=True,
            label=f"{measurement.name}: {_title(model, as_untrained)}",
        )

    def _shared_pass(self, shared: SharedPass, model: Stage, as_untrained: bool) -> Stage:
        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs, model.name, as_untrained)
            self._reseed(shared.name)()
            found = Measured(reason=reason) if subject is None else shared.run(subject, context.log())
            write_measured(found, folder)

        return Stage(
            shared.name,
            shared.version,
            self._config(as_untrained),
            {**self.data, "sids": self.sids, "model": model},
            compute=compute,
            load=lambda inputs, folder: read_measured(folder),
            seed=self.resolved.seed,
            keep=True,
            label=f"{shared.name}: {_title(model, as_untrained)}",
        )

    def _config(self, as_untrained: bool) -> dict[str, object]:
        return {
            "seed": self.resolved.seed,
            "scale": self.resolved.scale.value,
            **({"weights": "untrained"} if as_untrained else {}),
            **self.resolved.hardware,
        }

    def _reseed(self, name: str) -> Callable[[], None]:
        """Set torch's generator as before every stage: loading a model has drawn from it."""
        import torch

        def reseed() -> None:
            torch.manual_seed(derive(self.resolved.seed, "stage", name))

        return reseed

    def _subject(self, inputs: Inputs, name: str, as_untrained: bool) -> tuple[Subject | None, str]:
        resolved = self.resolved
        prepared = prepare_task(inputs, resolved.encoder.key, holdout=resolved.suite.holdout)
        if prepared.holdout is None:
            raise BenchError(f"the suite {resolved.suite.name!r} measures without a holdout")
        recommender = inputs.model("model")
        if not isinstance(recommender, Recommender):
            return None, f"{name} is no generative recommender: it has no tokens and no layers"
        if as_untrained:
            recommender = untrained(recommender, resolved.seed)
        if first_not_finite(recommender):
            return None, "the weights are not finite"
        return Subject(
            recommender=recommender,
            original_sids=inputs["sids"],
            items=prepared.dataset.items,
            split=prepared.split,
            features=prepared.features,
            holdout=prepared.holdout,
            scale=resolved.scale.value,
            device=resolved.device,
            seed=resolved.seed,
        ), ""


def _title(model: Stage, as_untrained: bool) -> str:
    return "untrained" if as_untrained else model.title
