"""SCRUB and SCRUB+R (Kurmanji et al. 2023, "Towards unbounded machine unlearning", arXiv 2302.09880).

A student θ, starting at the teacher θ0, diverges from it on forget examples and follows it on retain examples (sec. 3):

    max-epoch:  ascend KL(θ0 ‖ θ) on forget examples
    min-epoch:  descend α KL(θ0 ‖ θ) + γ CE on retain examples

alternating, a max-epoch before each of the first ``max_epochs`` min-epochs, then min-epochs only. KL is that of
distillation: both sides at temperature T, times T². Updates all parameters with one AdamW throughout.

T = 4 in every recipe; the small-scale one has γ = 0.99, α = 0.001 and 2 max-epochs of 3, recipes for whole classes have
γ = 1, α = 0.5, and a concept is like a class. Deviations: (1) KL over the codes legal at each real target position,
because unused tokens would dominate over the full vocabulary; a mean over positions and examples, where the original
divides by the batch alone. (2) A min-epoch takes as many random retain examples as there are forget examples,
``min_passes`` times (the paper: all of them). (3) At θ = θ0 the gradient of KL is exactly zero. The original's student
leaves that point at once because of dropout and batch statistics, so dropout is on here. Without any dropout in the
network (MiniOneRec) the first max-epoch starts from rounding errors, and most forgetting happens in the second round.

``rewind`` is SCRUB+R (variant ``scrub-rewind``): one checkpoint per round, of which the one whose forget error is
nearest to the last one's error on held-out examples of the same kind is restored: forget
*validation* examples, from the same users and items but after training. Retrained models would give a better reference,
but are not part of a request. Requests for items and for single interactions need no other changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import StepOutput
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, level_kl, level_log_probs, mean_nll, resting, token_nll
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.sampling import paired_batches
from genrec_unlearn_bench.unlearning.validation import sample

ROWS = 512
"""Most examples of a side whose error is measured."""


class ScrubConfig(DescentConfig):
    """Rounds, weights and temperature."""

    search = Search(max_epochs=(2, 3), min_passes=(1, 3), alpha=(0.001, 0.5))

    epochs: int = Field(default=7, ge=0)
    """Rounds: min-epochs, the first ``max_epochs`` of them after a max-epoch. By default ten passes in all."""
    max_epochs: int = Field(default=3, ge=0)
    """Rounds that begin with a max-epoch; fewer than ``epochs``, so that the last ones restore retain quality."""
    min_passes: int = Field(default=1, ge=1)
    """Passes of a min-epoch, each over as many random retain examples as there are forget examples (the paper: over all
    of D_r, about ten times as many)."""
    alpha: float = Field(default=0.5, ge=0)
    """α, weight of the KL in min-epochs."""
    gamma: float = Field(default=1.0, ge=0)
    """γ, weight of the CE in min-epochs."""
    temperature: float = Field(default=4.0, gt=0)
    """T of both distributions in the KL."""
    dropout: bool = True
    """Train with dropout, as the original does; without, the first max-epoch starts where its gradient is zero."""
    rewind: bool = False
    """Restore the checkpoint whose forget error is nearest to that on held-out examples (SCRUB+R)."""


class Scrub(UnlearningMethod[ScrubConfig]):
    """Maximise the KL to the original on forget examples, minimise it on retain examples, in turns."""

    name = "scrub"
    Config = ScrubConfig
    variants: ClassVar[Variants] = {"scrub-rewind": {"rewind": True}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        rewinding = Rewinding(model, request) if config.rewind else None
        phases = schedule(config)
        kind = ""

        def batches(index: int) -> Iterator[PairedBatch]:
            nonlocal kind
            phase = phases[index]
            kind = phase.kind
            if rewinding is not None and phase.opens and index:
                rewinding.checkpoint()
            yield from paired_batches(request.train, config.batch_size, numpy_generator(request.seed, "scrub", index))

        def step(batch: PairedBatch) -> Terms:
            part = batch.forget if kind == "max" else batch.retain
            output, divergence = against_teacher(model, recommender, part, config.temperature)
            if kind == "max":
                backward(-divergence)
                return {"forget_kl": divergence.detach()}
            retain = token_nll(output)
            backward(config.alpha * divergence + config.gamma * retain)
            return {"retain": retain.detach(), "retain_kl": divergence.detach()}

        descend(model, request, config.model_copy(update={"epochs": len(phases)}), step, progress, batches=batches)
        if rewinding is not None:
            rewinding.checkpoint()
            rewinding.rewind(progress)
        return model


class Phase(NamedTuple):
    """A pass over the forget examples or over as many retain examples; ``opens``: the first pass of its round."""

    kind: Literal["max", "min"]
    opens: bool


def schedule(config: ScrubConfig) -> tuple[Phase, ...]:
    """All passes in order: a max-epoch opens each of the first ``max_epochs`` rounds."""
    out: list[Phase] = []
    for round_ in range(config.epochs):
        opening = [Phase("max", True)] if round_ < config.max_epochs else []
        out += opening + [Phase("min", not opening and place == 0) for place in range(config.min_passes)]
    return tuple(out)


def against_teacher(
    model: Recommender, teacher: Recommender, part: Examples, temperature: float
) -> tuple[StepOutput, Tensor]:
    """The student's output on examples, and T² KL(teacher ‖ student) at temperature T, a mean over target positions."""
    with resting(teacher):
        theirs = level_log_probs(forward(teacher, part), teacher.vocabulary)
    output = forward(model, part)
    ours = level_log_probs(output, model.vocabulary)
    softened = [(each / temperature).log_softmax(-1) for each in (theirs, ours)]
    return output, temperature**2 * level_kl(softened[0], softened[1], mask=output.mask)


class Rewinding:
    """Copies of the parameters at each checkpoint, on the CPU, of which one is restored.

    The error is the mean NLL per token on at most 512 examples of each side: hit rates near 0.1 on a few hundred
    examples cannot distinguish two epochs, and the membership attacks that rewinding defends against use losses.
    """

    def __init__(self, model: Recommender, request: ForgetRequest) -> None:
        self._model = model
        drawn = sample(Groups(request.train.forget, held_out(request)), ROWS, request.seed)
        self._forget, self._held_out = drawn.forget, drawn.retain
        self._kept: list[dict[str, Tensor]] = []
        self._errors: list[float] = []

    def checkpoint(self) -> None:
        state = self._model.module.state_dict()
        self._kept.append({name: value.detach().to("cpu", copy=True) for name, value in state.items()})
        self._errors.append(mean_nll(self._model, self._forget))

    def rewind(self, progress: Progress) -> None:
        """Restore the chosen checkpoint; notes ``rewound_to`` (from 0), ``forget_errors`` and ``held_out_error``.

        Without held-out examples the last checkpoint is kept, and ``rewound_to`` is None.
        """
        if not len(self._held_out):
            progress.note("rewound_to", None)
            return
        reference = mean_nll(self._model, self._held_out)
        chosen = nearest_checkpoint(self._errors, reference)
        self._model.module.load_state_dict(self._kept[chosen])
        progress.note("rewound_to", chosen)
        progress.note("forget_errors", self._errors)
        progress.note("held_out_error", reference)


def held_out(request: ForgetRequest) -> Examples:
    """Examples of the same kind as the forget examples that no model was trained on; may be empty.

    Concept and item requests: the forget validation part, later interactions with the same items. For interaction
    requests that part holds trained interactions; instead, retain validation examples whose target is an item of a
    forgotten pair.
    """
    if request.kind is not ConceptKind.INTERACTION:
        return request.valid.forget
    retain = request.valid.retain
    return retain.subset(request.affected_items[retain.targets])


def nearest_checkpoint(forget_errors: list[float], reference: float) -> int:
    """Index of the checkpoint whose forget error is nearest to the reference; the earliest of ties."""
    gaps = np.abs(np.asarray(forget_errors) - reference)
    return int(np.where(np.isfinite(gaps), gaps, np.inf).argmin())
