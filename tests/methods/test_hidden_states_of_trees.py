"""RMU, RepNoise and BLUR on P5's trees, whose SIDs differ in length and end in a token of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from genrec_unlearn_bench.methods.blur import Blur, BlurConfig
from genrec_unlearn_bench.methods.repnoise import RepNoise, RepNoiseConfig, refusal_pairs
from genrec_unlearn_bench.methods.rmu import Rmu, RmuConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.steering import Steering
from tests.backbones.p5sid.models import recommender
from tests.small import small_request

METHODS = {
    "rmu": Rmu(RmuConfig(epochs=1, site="both")),
    "repnoise": RepNoise(RepNoiseConfig(epochs=1)),
    "blur": Blur(BlurConfig(epochs=1)),
}


@pytest.mark.parametrize("kind", ["sequential", "collaborative"])
@pytest.mark.parametrize("name", METHODS)
def test_they_run_on_trees(name: str, kind: str) -> None:
    method: Any = METHODS[name]
    progress = Progress()
    method.unlearn(recommender(kind), small_request(), progress)
    assert not progress.diverged
    assert progress.steps


@pytest.mark.parametrize("kind", ["sequential", "collaborative"])
@torch.no_grad()
def test_ends_and_ordinals_are_neither_steered_nor_noised(kind: str) -> None:
    model, request = recommender(kind), small_request()
    part = request.train.forget
    (caught,) = Steering(model, request, where="decoder", depth=None, kappa=1.0).states(model, part)
    tree, codes = model.sids.tree, model.codes_of(part.targets)
    assert tree is not None
    assert torch.equal(caught.concept, (codes >= 0) & (codes < tree.content))
    assert torch.equal(caught.others, codes >= 0)
    pairs = refusal_pairs(request, model.sids, 5)
    kept = model.codes_of(pairs.request.train.forget.targets)
    assert not (torch.from_numpy(pairs.differ) & ((kept < 0) | (kept >= tree.content))).any()
