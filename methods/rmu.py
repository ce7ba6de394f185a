"""RMU: representation misdirection for unlearning (Li et al. 2024, the WMDP paper, arXiv 2403.03218, section 4).

L = ‖h(θ; x_f) − u‖² + α ‖h(θ; x_r) − h(θ0; x_r)‖², means over positions and dimensions, h being the output of one early
block ℓ and u = c · r/‖r‖ a fixed random vector with r ~ Uniform[0, 1)^d. Updates the feed-forward output matrices
(``down_proj``, T5's ``wo``) of blocks ℓ−2, ℓ−1 and ℓ only, as far as there are so many: ℓ is never the last block, so
it is the first of two, and one matrix is trained in a T5 of 2 + 2 blocks. The forward pass ends after ℓ. The given
recommender is the frozen original.

Deviations, each with its reason:
- The matrices are found by name. The official index 6 among a block's parameters is ``down_proj`` in Llama and Mistral
  and ``o_proj`` in Qwen2, whose q, k and v have biases. If they have adapters, the adapters are trained.
- c = κ · mean ‖h_ℓ(θ0)‖: the official 6.5 and 20 are specific to one model's residual stream, and here d is 128.
- States at the positions that predict targets (``site=decoder``: block L/2 of T5's decoder, L/4 of a causal model,
  official 7 of 32), not at every position with padding: histories and templates are shared with retain examples, and
  steering them contradicts the retain loss. ``site=encoder`` steers concept items inside histories instead, which
  removes their influence, and ``both`` sums the two.
- The student runs without dropout, so that the retain loss starts at 0; official is ``model.train()``.
- One vector per request: one per topic is meant for two topics, and a request has dozens of brands. ``rmu-brands``
  draws one per brand.
- α 1,200 is the official recipe's, and in the search; the default, 10, goes with vectors in units of the states' norm.
- AdamW's 5e-5 is tuned to 7 billion parameters; a value matrix of width 128 hardly changes in 150 such steps.

Item-text samples of a recommender that learned titles are not steered. For interaction requests the targets of the
forgotten pairs are steered, and with ``site=encoder`` the affected items in these users' histories.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.losses.steering import Steering, Where
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants


class RmuConfig(DescentConfig):
    """Position and strength of the steering, and the weight of the retain loss."""

    search = Search(kappa=(2.0, 5.0), alpha=(1.0, 10.0, 100.0, 1200.0))

    lr: float = Field(default=1e-3, gt=0)
    """AdamW learning rate."""
    kappa: float = Field(default=2.0, gt=0)
    """Length of the control vector, in mean norms of the original's states."""
    alpha: float = Field(default=10.0, ge=0)
    """Weight of the retain loss."""
    site: Where = "decoder"
    """Steer at targets (decoder), at concept items in histories (encoder), or both."""
    per_brand: bool = False
    """A control vector of its own for every brand of a brand request."""
    depth: float | None = Field(default=None, ge=0, le=1)
    """Steered block, as a share of its stack; null is 0.5 in T5 and 0.25 in causal models."""


class Rmu(UnlearningMethod[RmuConfig]):
    """RMU (arXiv 2403.03218): steer the concept's hidden states to a random vector, hold all others."""

    name = "rmu"
    Config = RmuConfig
    variants: ClassVar[Variants] = {
        "rmu-encoder": {"site": "encoder"},
        "rmu-both": {"site": "both"},
        "rmu-brands": {"per_brand": True},
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        where, depth, apart = config.site, config.depth, config.per_brand
        steering = Steering(recommender, request, kappa=config.kappa, where=where, depth=depth, per_brand=apart)
        progress.note("state_norms", steering.norms)
        # All vectors of a site have the same length.
        progress.note("control_norms", [float(vectors[0].norm()) for vectors in steering.vectors])

        def step(batch: PairedBatch) -> Terms:
            forget = steering.forget(model, batch.forget)
            retain = steering.retain(model, batch.retain)
            backward(forget + config.alpha * retain)
            return {"forget": forget, "retain": retain}

        descend(model, request, config, step, progress, parameters=steering.parameters(model))
        return model
