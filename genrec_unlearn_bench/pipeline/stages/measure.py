"""Measurement stages beyond the core: every measurement of the suite on one model, and the passes they share.

References are measured once for all methods of a seed, and a new measurement repeats none of the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    """Builds the stages of a suite's measurements on one model.

    Attributes:
        data: Stages ``dataset``, ``task``, ``features`` and ``scrubbed``.
        sids: The original recommender's semantic IDs.
        as_untrained: Measure the model's shape with random weights instead, for the measurements that ask for it.
    """

    resolved: ResolvedRequest
    data: Mapping[str, Stage]
    sids: Stage
    model: Stage
    as_untrained: bool = False

    def build(self) -> dict[str, Stage]:
        """The stage of each measurement, by its name."""
        found = [find_measurement(name) for name in self.resolved.suite.measurements]
        return {one.name: self._measurement(one) for one in found if one.untrained or not self.as_untrained}

    def _measurement(self, measurement: Measurement) -> Stage:
        config = self.resolved.measuring[measurement.name]
        passes = {shared.name: self._shared_pass(shared) for shared in measurement.passes}

        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs)
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
                reseed=lambda: self._reseed(measurement.name),
            )

        return self._stage(
            measurement,
            config={"config": config},
            inputs=passes,
            compute=compute,
            load=lambda inputs, folder: StoredParts(folder),
        )

    def _shared_pass(self, shared: SharedPass) -> Stage:
        def compute(context: StageContext, inputs: Inputs, folder: Path) -> None:
            subject, reason = self._subject(inputs)
            self._reseed(shared.name)
            found = Measured(reason=reason) if subject is None else shared.run(subject, context.log())
            write_measured(found, folder)

        return self._stage(shared, compute=compute, load=lambda inputs, folder: read_measured(folder))

    def _stage(
        self,
        measured: Measurement | SharedPass,
        *,
        config: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Stage] | None = None,
        **functions: Any,
    ) -> Stage:
        resolved = self.resolved
        title = "untrained" if self.as_untrained else self.model.title
        asked = {"seed": resolved.seed, "scale": resolved.scale.value, **resolved.hardware, **(config or {})}
        if self.as_untrained:
            asked["weights"] = "untrained"
        return Stage(
            measured.name,
            measured.version,
            asked,
            {**self.data, "sids": self.sids, "model": self.model, **(inputs or {})},
            seed=resolved.seed,
            keep=True,
            label=f"{measured.name}: {title}",
            **functions,
        )

    def _reseed(self, name: str) -> None:
        """Set torch's generator as before every stage: loading a model has drawn from it."""
        import torch

        torch.manual_seed(derive(self.resolved.seed, "stage", name))

    def _subject(self, inputs: Inputs) -> tuple[Subject | None, str]:
        resolved = self.resolved
        prepared = prepare_task(inputs, resolved.encoder.key, holdout=resolved.suite.holdout)
        if prepared.holdout is None:
            raise BenchError(f"the suite {resolved.suite.name!r} measures without a holdout")
        recommender = inputs.model("model")
        if not isinstance(recommender, Recommender):
            return None, f"{self.model.name} is no generative recommender: it has no tokens and no layers"
        if self.as_untrained:
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
