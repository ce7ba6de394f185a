"""RMU's two losses: steer hidden states of a middle block to a fixed vector, or hold them at the original's.

Positions of a target: those that predict a content token (no collision ordinal, no end token of a tree). Positions of a
history: all tokens of concept items, because an omitted one would keep the item readable. Other tokens of a history
(template, separators, user tokens) also occur in retain histories, so steering them would contradict the retain loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.seeding import torch_generator
from genrec_unlearn_bench.unlearning.anatomy import Block, Stack, anatomy, tapped
from genrec_unlearn_bench.unlearning.likelihood import resting
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import example_batches

Where = Literal["decoder", "encoder", "both"]
BLOCKS = 3
ROWS_AT_ONCE = 256
MEASURED = 2048


@dataclass(frozen=True, eq=False)
class Site:
    """A block whose output is steered, at the concept items of a history or at the target.

    Attributes:
        below: ``block`` and up to two blocks before it, whose W_out is trained.
    """

    block: Block
    below: tuple[Block, ...]
    history: bool


@dataclass(frozen=True, eq=False)
class SiteStates:
    """[B, P, D] residual stream after a site's block, and the [B, P] positions to steer and to hold (for a target: all
    real ones), with the number of the brand at each."""

    states: Tensor
    concept: Tensor
    others: Tensor
    brands: Tensor


def sites(model: Recommender, where: Where, depth: float | None) -> tuple[Site, ...]:
    """Blocks to steer, from the input up. ``depth`` None means 0.5 of T5's stacks and 0.25 of a causal model's."""
    body = anatomy(model)
    share = depth if depth is not None else (0.25 if body.causal else 0.5)
    histories = () if where == "decoder" else (_site(body.history_blocks, share, history=True),)
    return histories if where == "encoder" else (*histories, _site(body.decoder, share, history=False))


class Steering:
    """RMU's losses on one request, with the control vectors u = c · r / ‖r‖, ``vectors`` [V, D] per site.

    r ~ Uniform[0, 1)^D, so u lies in the non-negative orthant; c = κ times the mean norm of the original's states at
    the steered positions. ``per_brand``: a vector per site and brand of a brand request, instead of one per site.
    """

    def __init__(
        self,
        original: Recommender,
        request: ForgetRequest,
        *,
        kappa: float,
        where: Where = "decoder",
        depth: float | None = None,
        per_brand: bool = False,
    ) -> None:
        self._original, self._where, self._depth = original, where, depth
        brands = request.brand_numbers.clip(0) if per_brand else np.zeros(len(request.items), dtype=np.int64)
        self._brands = torch.from_numpy(brands).to(original.device)
        self._affected = torch.from_numpy(request.affected_items).to(original.device)
        self._content = torch.from_numpy(original.sids.quantised_codes >= 0).to(original.device)
        self.norms = self._mean_norms(request.train.forget)
        self.vectors = []
        for site, norm in zip(sites(original, where, depth), self.norms, strict=True):
            generator = torch_generator(request.seed, "rmu", site.block.name)
            draw = torch.rand(int(brands.max()) + 1, site.block.down.out_features, generator=generator)
            self.vectors.append((kappa * norm * draw / draw.norm(dim=1, keepdim=True)).to(original.device))

    def parameters(self, model: Recommender) -> list[nn.Parameter]:
        """The trainable parameters in W_out of each site's blocks: the matrix, or its adapters.

        Raises BenchError for a W_out without trainable parameters (adapters that leave it out).
        """
        found: dict[int, nn.Parameter] = {}
        for site in sites(model, self._where, self._depth):
            for block in site.below:
                trained = [p for p in block.down.parameters() if p.requires_grad]
                if not trained:
                    raise BenchError(
                        f"the feed-forward output of {block.name} has nothing trainable",
                        hint="name down_proj among the backbone's lora.targets",
                    )
                found |= {id(p): p for p in trained}
        return list(found.values())

    def forget(self, model: Recommender, part: Examples) -> Tensor:
        """Scalar: mean over steered positions and dimensions of (h − u)², summed over sites; 0 without positions."""
        pairs = zip(self.states(model, part), self.vectors, strict=True)
        return torch.stack([_squares(at.states, own[at.brands], at.concept) for at, own in pairs]).sum()

    def retain(self, model: Recommender, part: Examples) -> Tensor:
        """Scalar: mean over held positions and dimensions of (h − h0)², summed over sites."""
        with resting(self._original):
            wanted = self.states(self._original, part)
        pairs = zip(self.states(model, part), wanted, strict=True)
        return torch.stack([_squares(caught.states, goal.states, caught.others) for caught, goal in pairs]).sum()

    def states(self, model: Recommender, part: Examples) -> list[SiteStates]:
        """Hidden states from one forward pass, which ends at the last site or, if none is in a decoder, the encoder."""
        places = sites(model, self._where, self._depth)
        codes = model.codes_of(part.targets)
        decoding = any(site.block.stack is Stack.DECODER for site in places)
        with tapped([site.block.module for site in places], stop=decoding) as caught:
            context = model.encode(part.histories(model.history_limit))
            if decoding:
                model.decode(context, codes)
        body, length = anatomy(model), codes.shape[1]
        found = []
        for site, states in zip(places, caught, strict=True):
            if site.history:
                known, real = context.position_items.clamp_min(0), context.position_items >= 0
                concept = self._affected[known] & real & context.mask
                at, others = body.at_history(states, context), context.mask & ~concept
                found.append(SiteStates(at, concept, others, self._brands[known]))
            else:
                targets = torch.from_numpy(part.targets).to(codes.device)
                content = nn.functional.pad(self._content[targets], (0, length - self._content.shape[1]))
                brands = self._brands[targets][:, None].expand(-1, length)
                found.append(SiteStates(body.at_targets(states, context, length), content, codes >= 0, brands))
        return found

    def _mean_norms(self, forget: Examples) -> list[float]:
        """Mean state norm per site, over at least ``MEASURED`` positions if there are as many."""
        places = len(sites(self._original, self._where, self._depth))
        sums, counts = torch.zeros(places), torch.zeros(places)
        with resting(self._original):
            for part in example_batches(forget, ROWS_AT_ONCE):
                norms = [c.states[c.concept].float().norm(dim=-1) for c in self.states(self._original, part)]
                sums += torch.tensor([float(found.sum()) for found in norms])
                counts += torch.tensor([float(len(found)) for found in norms])
                if bool((counts >= MEASURED).all()):
                    break
        if not bool((counts > 0).all()):
            raise BenchError(
                "no history of the forget set holds an affected item, so RMU finds nothing to steer there",
                hint="--set site=decoder",
            )
        return [float(mean) for mean in sums / counts]


def _site(blocks: tuple[Block, ...], share: float, *, history: bool) -> Site:
    """The site at ``share`` of the stack, never the last block unless it is the only one."""
    place = min(round(share * len(blocks)), max(len(blocks) - 2, 0))
    return Site(blocks[place], blocks[max(0, place - BLOCKS + 1) : place + 1], history)


def _squares(states: Tensor, goal: Tensor, mask: Tensor) -> Tensor:
    """Mean squared difference of [B, P, D] states and goals over the positions in ``mask`` and all dimensions."""
    if not bool(mask.any()):
        return states.new_zeros(())
    return nn.functional.mse_loss(states[mask].float(), goal[mask].float())
