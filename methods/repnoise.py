"""RepNoise: representation noising (Rosati et al. 2024, arXiv 2405.14577, section 3).

    L = CE(harmless) + β · noise − α · log A

Pairs share a history H: harmful is (H, i) with the forgotten item, harmless (H, i_p) with i_p from P(i). All terms are
restricted to target positions where the two SIDs differ; how many there are is noted. ``noise`` is the mean over
decoder blocks of the squared MMD (``mmd``) between the harmful batch's feed-forward outputs, a
target's positions concatenated, and as many draws of N(0, 1): the outputs are trained to be distributed like noise; no
noise is added. A = 1 + (CE + Σ_j CE_j) / (n + 1) over the embedding output and the n blocks' outputs, each through
final norm and head. Updates all trainable parameters.

Deviations, each with its reason:
- ``retain_weight`` adds the NLL of retain targets, which the official code lacks: harmless pairs share their histories
  with the forget set and say little about other users. ``repnoise-faithful`` goes without, and has the official noise
  positions.
- The official code norms the last hidden state, which is already normed, a second time. Here CE_n is normed once, so
  it equals CE, and the last layer has twice the weight of the others.
- A position is masked out of a mean. Official multiplies logits by the mask and drops labels of id 0.
- "Position" is the one that predicts a token. Official masks its noise at the positions whose input token differs
  (``noise_at=read``): at the first differing token, both answers have the same state until it is read.
- At least 64 rows per batch, the last small batch joined to the one before: at the official 4, the MMD is mostly the
  bias of its estimate.
- Hooks are removed after each step. Warm-up over a tenth of the steps, then constant (official: cosine).

Item-text samples of a recommender that learned titles are not unlearned. For interaction requests i stays in the
catalogue, and P(i) is drawn from all other items.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.recommender import StepOutput
from genrec_unlearn_bench.data.examples import BoolArray, IntArray
from genrec_unlearn_bench.seeding import numpy_generator, torch_generator
from genrec_unlearn_bench.sids.table import SidTable
from genrec_unlearn_bench.unlearning.anatomy import Anatomy, anatomy, tapped
from genrec_unlearn_bench.unlearning.descent import DescentConfig, PairedBatch, Search, Terms, backward, descend
from genrec_unlearn_bench.unlearning.likelihood import forward, token_nll
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.sampling import paired_batches, positive_set, without_small_end

LEAST = 64
KERNELS = 5

CLOSED = -1e8
"""Below any logit that a network produces: tokens that a backbone masks out of a level's softmax."""


class RepNoiseConfig(DescentConfig):
    """Weights of the terms; α and β are the official demo's."""

    search = Search(alpha=(0.1, 1.0), beta=(1e-3, 1e-1))

    batch_size: int = Field(default=128, ge=LEAST)
    """Pairs per step, and as many retain examples."""
    warmup: float = Field(default=0.1, ge=0, le=1)
    """Share of the planned steps in which the learning rate rises linearly from 0; constant afterwards."""
    alpha: float = Field(default=1.0, ge=0)
    """α, weight of −log A."""
    beta: float = Field(default=1e-3, ge=0)
    """β, weight of the noise term."""
    retain_weight: float = Field(default=1.0, ge=0)
    """Weight of the NLL of retain targets; 0 is the paper's loss."""
    neighbours: int = Field(default=5, ge=1)
    """Size of P(i), from which each example's harmless answer is drawn once."""
    noise_at: Literal["predicting", "read"] = "predicting"
    """Noise at positions where a differing token is predicted, or where one was read."""
    noise_scale: Literal["unit", "layer"] = "unit"
    """Standard deviation of the noise: 1 (unit), or that of the layer's outputs in this batch (layer)."""


class RepNoise(UnlearningMethod[RepNoiseConfig]):
    """RepNoise (arXiv 2405.14577): make the concept's representations distributed like noise."""

    name = "repnoise"
    Config = RepNoiseConfig
    variants: ClassVar[Variants] = {
        "repnoise-faithful": {"retain_weight": 0.0, "noise_at": "read"},
        "repnoise-read": {"noise_at": "read"},
    }

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        pairs = refusal_pairs(request, recommender.sids, config.neighbours)
        train, count = pairs.request.train, len(pairs.harmless)
        progress.note("pairs", count)
        progress.note("pairs_skipped", pairs.skipped)
        progress.note("positions_that_differ", pairs.differ.mean(0).tolist() if count else [])
        generator = torch_generator(request.seed, "noise")
        body = anatomy(model)

        def batches(epoch: int) -> Iterator[PairedBatch]:
            drawn = paired_batches(train, config.batch_size, numpy_generator(request.seed, "repnoise", epoch))
            return without_small_end(drawn, train, LEAST)

        def step(batch: PairedBatch) -> Terms:
            n, part = len(batch.forget), batch.forget
            mask = torch.from_numpy(pairs.differ[batch.forget_rows]).to(model.device)
            context = model.encode(part.histories(model.history_limit))
            codes = torch.cat([model.codes_of(part.targets), model.codes_of(pairs.harmless[batch.forget_rows])])
            rows = torch.arange(n, device=model.device).repeat(2)
            with tapped([block.mlp for block in body.decoder]) as caught:
                output = model.decode(context, codes, rows=rows, hidden=True)
            outputs = [body.at_targets(layer, context, codes.shape[1], rows=rows)[:n] for layer in caught]
            noised = mask if config.noise_at == "predicting" else F.pad(mask[:, :-1], (1, 0))
            noise = noise_distance(outputs, noised, generator, fitted=config.noise_scale == "layer")
            harmless = masked_nll(output.rows(slice(n, None)), mask)
            ascended = adversarial(body, output.rows(slice(0, n)), mask)
            loss = harmless + config.beta * noise - config.alpha * ascended.log()
            terms = {"harmless": harmless, "noise": noise, "adversarial": ascended}
            if config.retain_weight:
                kept = batch.retain
                terms["retain"] = token_nll(forward(model, kept))
                loss = loss + config.retain_weight * terms["retain"]
            backward(loss)
            return {**terms, "rows": n}

        descend(model, pairs.request, config, step, progress, batches=batches)
        return model


@dataclass(frozen=True, eq=False)
class RefusalPairs:
    """M pairs, in the order of the forget examples of ``request``, which is left with those that have a pair.

    Attributes:
        harmless: [M] retain items.
        differ: [M, L] positions where both SIDs have a content code and the codes differ.
        skipped: Number of forget examples without a pair: P(i) is empty, or the SIDs do not differ.
    """

    request: ForgetRequest
    harmless: IntArray
    differ: BoolArray
    skipped: int


def refusal_pairs(request: ForgetRequest, table: SidTable, neighbours: int) -> RefusalPairs:
    """Draw one item of P(i) for every forget example. In interaction requests it may be any other item."""
    forget = request.train.forget
    distinct, row = np.unique(forget.targets, return_inverse=True)
    positives = positive_set(request.features, table, distinct.astype(np.int64), request.items, neighbours)[row]
    found = (positives >= 0).sum(1)  # Missing items (-1) come last.
    place = (numpy_generator(request.seed, "refusals").random(len(forget)) * found).astype(np.int64)
    harmless = positives[np.arange(len(forget)), place]
    codes = table.quantised_codes
    one, two = codes[forget.targets], codes[np.maximum(harmless, 0)]
    differ = np.zeros((len(forget), table.levels), dtype=bool)
    differ[:, : codes.shape[1]] = (one >= 0) & (two >= 0) & (one != two)
    kept = (harmless >= 0) & differ.any(1)
    train = replace(request.train, forget=forget.subset(kept))
    return RefusalPairs(replace(request, train=train), harmless[kept], differ[kept], int((~kept).sum()))


def mmd(one: Tensor, two: Tensor) -> Tensor:
    """Scalar: squared maximum mean discrepancy of samples [n, D] and [n, D], the biased V-statistic, in float32.

    Five Gaussian kernels exp(−‖x − y‖² / b) are summed, with b = b0 · {1, 2, 4, 8, 16} and b0 a quarter of the mean
    squared distance between different points of the pooled sample (no gradient through b0). For two samples of one
    distribution it is not 0 but, in many dimensions, about 6.19 / n (every point is at distance 0 from itself): 1.55 at
    n = 4, 0.05 at n = 128. That part is noise, so small batches measure little else.
    """
    pooled = torch.cat([one, two]).float()
    squares = pooled.square().sum(1)
    # By squares and products: differences would take [2n, 2n, D].
    distances = (squares[:, None] + squares[None] - 2 * pooled @ pooled.T).clamp_min(0)
    distances = distances * ~torch.eye(len(pooled), dtype=torch.bool, device=pooled.device)
    count = len(pooled)
    narrowest = distances.detach().sum() / (count**2 - count) / 2 ** (KERNELS // 2)
    # All points coincide if a mask leaves nothing; every kernel is 1 then, whatever the width.
    narrowest = narrowest.clamp_min(torch.finfo(distances.dtype).tiny)
    kernels = torch.stack([torch.exp(-distances / (narrowest * 2**power)) for power in range(KERNELS)]).sum(0)
    n = len(one)
    return kernels[:n, :n].mean() + kernels[n:, n:].mean() - kernels[:n, n:].mean() - kernels[n:, :n].mean()


def noise_distance(
    outputs: Sequence[Tensor], mask: Tensor, generator: torch.Generator, *, fitted: bool = False
) -> Tensor:
    """Scalar: mean over layers of the MMD between a batch's ``outputs`` [n, L, D], the positions of a row concatenated,
    and draws of N(0, 1), or ``fitted`` to the standard deviation of the outputs. Both are 0 outside ``mask`` [n, L]."""
    distances = []
    for layer in outputs:
        noise = torch.randn(layer.shape, generator=generator).to(layer.device)
        if fitted:
            noise = noise * layer.detach()[mask].float().std()
        distances.append(mmd(*((values * mask[..., None]).flatten(1) for values in (layer, noise))))
    return torch.stack(distances).mean()


def adversarial(body: Anatomy, harmful: StepOutput, mask: Tensor) -> Tensor:
    """Scalar A = 1 + (CE + Σ_j CE_j) / (n + 1), CE_j through the logit lens at depth j, embeddings included.

    The last depth is the network's own output, so its loss counts twice.

    ``harmful`` has R targets with their n + 1 hidden states; ``mask`` [R, L] marks the positions that count.
    """
    final = masked_nll(harmful, mask)
    closed = harmful.logits.detach()[mask] < CLOSED
    losses = [final, final]
    for layer in harmful.hidden[:-1]:
        logits = body.lens(layer[mask]).float().masked_fill(closed, CLOSED)
        losses.append(F.cross_entropy(logits, harmful.labels[mask]))
    return 1 + torch.stack(losses).sum() / len(harmful.hidden)


def masked_nll(output: StepOutput, mask: Tensor) -> Tensor:
    """Scalar: mean negative log-likelihood of the target tokens in ``mask`` [R, L]."""
    return -output.token_log_probs()[mask].mean()
