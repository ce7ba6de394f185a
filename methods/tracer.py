"""TRACER with a bounded loss: token reassignment for concept erasure in recommendation (arXiv 2606.07688).

Concept items get a soft distribution over the codes of every level with a learnable perturbation φ (eq. 6), trained
jointly with the network on L_R + λ1 L_F + λ2 L_Coh + λ3 L_reg (eq. 10) under the overlap mask (eq. 11). Then φ is
discretised into new SIDs, and the network is trained on those for a few epochs. Updates φ (concept items only) and all
parameters of the network, token embeddings included.

Where the paper is silent or contradicts itself, docs/tracer.md lists each choice with its reason (R1 … R25). The main
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
from typing import Any, ClassVar

import torch
from pydantic import Field

from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.external import surrogate_codebooks
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, train_with_discrete_sids
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import paired_batches, steps_per_epoch
from genrec_unlearn_bench.unlearning.tokens.discretise import discretise, note_reassignment
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import PhiTrainer, ReassignmentConfig


class TracerConfig(ReassignmentConfig):
    """The paper's settings; every ablation is a field here or in a base class."""

    reassign: bool = True
    """Learn and apply φ; off trains only the network (the paper's ablation without reassignment)."""
    soft_epochs: int = Field(default=8, ge=0)
    """Epochs over the forget set with soft tokens."""
    hard_epochs: int = Field(default=2, ge=0)
    """Epochs with the new, discrete SIDs (R10); soft and hard epochs together are the paper's ten."""
    surrogate_codebooks: bool = False
    """For SIDs without codebooks (P5's trees), use distances to centroids of the item features under each code (R20).
    Off by default, because they are not the tokenizer's."""


class Tracer(UnlearningMethod[TracerConfig]):
    """TRACER (arXiv 2606.07688) with a bounded loss: reassign the concept's tokens, suppress the original ones."""

    name = "tracer"
    Config = TracerConfig
    requires = frozenset({Capability.HAS_CODEBOOKS})
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {
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
        "instead (docs/tracer.md, R20)"
    }

    @property
    def needs(self) -> frozenset[Capability]:
        return frozenset() if self.config.surrogate_codebooks or not self.config.reassign else self.requires

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        objective = Objective(config, request, recommender.sids)
        optimizer = torch.optim.AdamW(model.module.parameters(), lr=config.lr, weight_decay=0.0)
        if not config.reassign or not request.items.any():
            epochs = config.soft_epochs + config.hard_epochs
            train_with_discrete_sids(
                model, objective, epochs=epochs, progress=progress, stage="hard", optimizer=optimizer
            )
            model.module.eval()
            return model
        surrogates = config.surrogate_codebooks and recommender.sids.codebooks is None
        progress.note("surrogate_codebooks", surrogates)
        measured = surrogate_codebooks(recommender.sids, request.features.plain) if surrogates else recommender.sids
        phi = PhiTrainer(config, request, measured, model.vocabulary.offsets, model.device)
        self._soft_phase(model, objective, phi, optimizer, progress)
        outcome = discretise(recommender.sids, phi.tokens.items, phi.assignment_logits())
        note_reassignment(progress, recommender.sids, outcome, request.items)
        model = model.with_sids(outcome.table)
        train_with_discrete_sids(
            model, objective, epochs=config.hard_epochs, progress=progress, stage="hard", optimizer=optimizer
        )
        model.module.eval()
        return model

    def _soft_phase(
        self,
        model: Recommender,
        objective: Objective,
        phi: PhiTrainer,
        optimizer: torch.optim.Optimizer,
        progress: Progress,
    ) -> None:
        """Train φ and the network together: one batch, two optimisers (R16)."""
        config, request = self.config, objective.request
        model.module.train(config.dropout)
        total = config.soft_epochs * steps_per_epoch(request.train, config.batch_size)
        step = 0
        for epoch in progress.track("soft", range(config.soft_epochs), total=config.soft_epochs):
            generator = numpy_generator(request.seed, "soft", epoch)
            for batch in paired_batches(request.train, config.batch_size, generator):
                probs = phi.assignment_probs(step, total, progress)
                losses = objective.losses(model, batch.forget, batch.retain, phi.tokens.soft_sids(probs))
                optimizer.zero_grad()
                phi_values = phi.backward(losses, batch.forget, probs)
                torch.nn.utils.clip_grad_norm_(model.module.parameters(), config.clip)
                optimizer.step()
                phi.step()
                progress.log("soft", step, losses.log_values() | phi_values)
                step += 1
                if progress.diverged:
                    return
