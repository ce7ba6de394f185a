"""A recommender with random weights, of the shape and SID table of another: the floor of probing."""

from __future__ import annotations

from genrec_unlearn_bench.backbones.minionerec.network import adapted, random_network
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender, sid_vocabulary
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.seeding import derive

__all__ = ["untrained"]


def untrained(recommender: Recommender, seed: int) -> Recommender:
    """A model of the same family, shape, table, prompts and serving rules, with the family's initial weights.

    Buffers of the network (P5's words of the users) are kept: they are data, not learned. A model that
    started from a pretrained one starts from random weights here as well.

    Deviation: ETEGRec's initial weights are of the deviation that its code fixes; a preset that rescales them does not
    leave that in the shape.

    Raises:
        NotMeasurable: The family is not supported.
    """
    drawn = derive(seed, "untrained")
    fresh: Recommender
    if isinstance(recommender, CausalRecommender):
        shape = recommender.shape
        tokens = sid_vocabulary(shape, recommender.sids.level_sizes).size
        model = adapted(random_network(shape, tokens, seed=drawn), shape, seed=drawn)
        fresh = type(recommender)(
            model.to(recommender.device),  # type: ignore[arg-type]
            shape,
            recommender.sids,
            recommender.serving,
            recommender.text,
        )
    elif isinstance(recommender, T5Recommender):
        fresh = type(recommender).fresh(recommender.shape, recommender.sids, seed=drawn, device=str(recommender.device))
        fresh = fresh.with_serving(recommender.serving)
    else:
        raise NotMeasurable(f"nobody has said how a {type(recommender).__name__} starts without training")
    kept = dict(recommender.module.named_buffers())
    for name, buffer in fresh.module.named_buffers():
        buffer.copy_(kept[name])
    return fresh
