"""What a method's training step does at a chosen point, without training: gradients and terms of one batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses import retain_loss
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch


@dataclass
class Caught:
    """The student before its first step, and what ``descend`` was given to train it."""

    model: Recommender
    step: Callable[[PairedBatch], Mapping[str, Tensor | float]]
    batches: Callable[[int], Any] | None
    epochs: int
    terms: dict[str, float] = field(default_factory=dict)

    def gradient(self, batch: PairedBatch) -> Tensor:
        """All gradients of one step as one vector; its terms are in ``terms``."""
        self.model.module.eval()
        self.model.module.zero_grad(set_to_none=True)
        self.terms = {name: float(torch.as_tensor(value).detach()) for name, value in self.step(batch).items()}
        return flat_gradient(self.model)


def flat_gradient(model: Recommender) -> Tensor:
    parts = [torch.zeros_like(p) if p.grad is None else p.grad for p in model.module.parameters()]
    return torch.cat([part.detach().flatten() for part in parts]).clone()


def caught(
    monkeypatch: pytest.MonkeyPatch,
    module: ModuleType,
    method: UnlearningMethod[Any],
    model: Recommender,
    request: ForgetRequest,
) -> Caught:
    """Run ``method.unlearn`` with a training loop that trains nothing and keeps what it was called with."""
    found: list[Caught] = []

    def descend(student: Recommender, request: ForgetRequest, config: Any, step: Any, progress: Progress, **given: Any):
        found.append(Caught(student, step, given.get("batches"), config.epochs))

    monkeypatch.setattr(module if hasattr(module, "descend") else retain_loss, "descend", descend)
    method.unlearn(model, request, Progress())
    return found[0]


def batch_of(request: ForgetRequest, count: int = 12) -> PairedBatch:
    rows = np.arange(count)
    train = request.train
    return PairedBatch(train.forget.subset(rows), train.retain.subset(rows), rows, rows)


def ragged_batch(model: Recommender, request: ForgetRequest, count: int = 12) -> PairedBatch:
    """Retain examples on both sides, whose targets are of different length on each."""
    retain = request.train.retain
    lengths = (model.sids.codes[retain.targets] >= 0).sum(1)
    short, long = (np.flatnonzero(lengths == size) for size in (lengths.min(), lengths.max()))
    assert lengths.min() < lengths.max()
    rows = np.sort(np.concatenate([short[:count], long[:count]])).astype(np.int64)
    one, two = rows[::2], rows[1::2]
    return PairedBatch(retain.subset(one), retain.subset(two), one, two)


def gradient_of(model: Recommender, loss: Callable[[Recommender], Tensor]) -> Tensor:
    model.module.zero_grad(set_to_none=True)
    loss(model).backward()  # type: ignore[no-untyped-call]
    return flat_gradient(model)


def cosine(one: Tensor, two: Tensor) -> float:
    return float(torch.nn.functional.cosine_similarity(one.double(), two.double(), dim=0))
