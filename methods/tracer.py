"""TRACER with a bounded loss: token reassignment for concept erasure in recommendation (arXiv 2606.07688).

Concept items get a soft distribution over the codes of every level with a learnable perturbation φ (eq. 6), trained
jointly with the network on L_R + λ1 L_F + λ2 L_Coh + λ3 L_reg (eq. 10) under the overlap mask (eq. 11). Then φ is
discretised into new SIDs, and the network is trained on those for a few epochs. Updates φ (concept items only) and all
parameters of the network, token embeddings included.

Where the paper is silent or contradicts itself, docs/methods.md lists each choice with its reason (R1 … R25). The main
ones: temperatures in units of the median gap between the two nearest codewords (R1); the network is trained away from
the original SID, and φ against the network's own next-token distribution (R2); the forget loss is bounded (R3); φ uses
an Adam that does not move masked coordinates (R6); SIDs stay unique (R9); a phase with discrete SIDs follows (R10);
losses are means over equally many forget and retain examples, so the forget loss weighs |D_r| / |D_f| times (about ten
times) what it does in the paper's sums (R12). The collision ordinal of TIGER's tables is neither softened nor
suppressed. Requests for single interactions keep their items in the catalogue, so nothing is reassigned and only the
network is trained.

``tracer-paper`` is eqs. 6 to 11 as printed: sums, raw distances and rate of φ, no bound, φ trained by L_F through the
histories alone, no item texts; what the paper does not say (discretisation, the phase after it, P(i)) stays. Controls:
``tracer-no-reassignment`` (its ablation, which needs no codebooks and runs on every backbone) trains the same losses
with the original SIDs, and ``tracer-zero-phi`` has soft tokens in the histories and never moves φ.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field
from torch.optim import AdamW, Optimizer

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.sids.kmeans import surrogate_codebooks
from genrec_unlearn_bench.unlearning.descent import PairedBatch, Phase, Terms, descend, planned_steps
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.tokens.discretise import discretise, note_reassignment
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import PhiTrainer, ReassignmentConfig


class TracerConfig(ReassignmentConfig):
    """The paper's settings; every ablation is a field here or in a base class."""

    reassign: bool = True
    """Learn and apply φ; off trains only the network (the paper's ablation without reassignment)."""
    hard_epochs: int = Field(default=2, ge=0)
    """Last epochs, but never all, which use the new, discrete SIDs (R10); those before use soft tokens."""
    surrogate_codebooks: bool = False
    """For SIDs without codebooks (P5's trees), use distances to centroids of the item features under each code (R20).
    Off by default, because they are not the tokenizer's."""

    @property
    def phases(self) -> tuple[int, int]:
        """Soft and hard epochs: at least one soft epoch, if there is any."""
        hard = min(self.hard_epochs, max(self.epochs - 1, 0))
        return self.epochs - hard, hard


class Tracer(UnlearningMethod[TracerConfig]):
    """TRACER (arXiv 2606.07688) with a bounded loss: reassign the concept's tokens, suppress the original ones."""

    name = "tracer"
    Config = TracerConfig
    requires = frozenset({Capability.HAS_CODEBOOKS})
    variants: ClassVar[Variants] = {
        # Without φ its rate and weight mean nothing, so that tuning does not search them.
        "tracer-no-reassignment": {"reassign": False, "phi_lr": 0.0, "lambda_reg": 0.0},
        "tracer-zero-phi": {"phi_lr": 0.0, "lambda_reg": 0.0},
        "tracer-paper": {
            "reduction": "sum",
            "forget_bound": "none",
            "forget_target": "orig",
            "temperature_units": "raw",
            "entropy_gate": False,
            "phi_lr": 0.01,
            "text_share": 0.0,
        },
        "tracer-no-coherence": {"lambda_coherence": 0.0},
        "tracer-no-regulariser": {"lambda_reg": 0.0},
        "tracer-no-mask": {"mask": "off"},
        "tracer-unbounded": {"forget_bound": "none"},
        "tracer-raw-annealed": {"temperature_units": "raw", "entropy_gate": False, "phi_lr": 0.01},
        "tracer-raw-fixed": {
            "temperature_units": "raw",
            "temperature_start": 0.005,
            "temperature_end": 0.005,
            "entropy_gate": False,
            "phi_lr": 0.01,
        },
    }
    without: ClassVar[Mapping[Capability, str]] = {
        Capability.HAS_CODEBOOKS: "--set surrogate_codebooks=true measures distances to centroids of item features "
        "instead (docs/methods.md, R20)"
    }

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset() if self.config.surrogate_codebooks or not self.config.reassign else self.requires

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        objective = Objective(config, request, recommender.sids)
        optimizer = AdamW(model.module.parameters(), lr=config.lr, weight_decay=config.weight_decay)
        if not config.reassign or not request.items.any():
            train_with_discrete_sids(model, objective, epochs=config.epochs, progress=progress, optimizer=optimizer)
            return model
        surrogates = config.surrogate_codebooks and recommender.sids.codebooks is None
        progress.note("surrogate_codebooks", surrogates)
        measured = surrogate_codebooks(recommender.sids, request.features.plain) if surrogates else recommender.sids
        phi = PhiTrainer(config, request, measured, model.vocabulary.offsets, model.device)
        steps = self._soft_phase(model, objective, phi, optimizer, progress)
        outcome = discretise(recommender.sids, phi.tokens.items, phi.tokens.assignment_logits())
        note_reassignment(progress, recommender.sids, outcome, request.items)
        model = model.with_sids(outcome.table)
        hard = config.phases[1]
        train_with_discrete_sids(
            model, objective, epochs=hard, progress=progress, optimizer=optimizer, steps_before=steps
        )
        return model

    def _soft_phase(
        self, model: Recommender, objective: Objective, phi: PhiTrainer, optimizer: Optimizer, progress: Progress
    ) -> int:
        """Train φ and the network together: one batch, two optimisers (R16). Returns the number of steps."""
        request = objective.request
        phase = Phase("soft", self.config.phases[0], optimizer, after_step=phi.step)
        total = planned_steps(self.config, request, phase)
        done = 0

        def step(batch: PairedBatch) -> Terms:
            nonlocal done
            probs = phi.assignment_probs(done, total, progress)
            done += 1
            losses = objective.losses(model, batch.forget, batch.retain, phi.tokens.soft_sids(probs))
            phi_values = phi.backward(losses, batch.forget, probs)
            return losses.log_values() | phi_values

        return descend(model, request, self.config, step, progress, phase=phase)
