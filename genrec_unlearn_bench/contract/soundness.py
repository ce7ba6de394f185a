"""Checks of any method's result, however little it has learned: for ``bench check``, the smoke matrix and tests.

The original is unchanged; the result is an ordinary recommender that survives being saved; its lists are well formed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.decode import decode
from genrec_unlearn_bench.evaluation.invariants import check_invariants
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, user_mean
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator

__all__ = ["Fingerprint", "fingerprint", "list_faults", "result_faults"]

BEAM = 10


@dataclass(frozen=True)
class Fingerprint:
    """A recommender's state: content, and the modes, flags and hooks that a method may forget to put back."""

    weights: str
    names: tuple[str, ...]
    sids: str
    serving: str
    training: bool
    trainable: tuple[bool, ...]
    hooks: int

    @property
    def content(self) -> tuple[str, str, str]:
        """The part that decides its lists."""
        return self.weights, self.sids, self.serving


def fingerprint(recommender: Recommender) -> Fingerprint:
    """The state, weights to the bit."""
    state = recommender.module.state_dict()
    weights = hashlib.blake2b(digest_size=16)
    for name, tensor in state.items():
        weights.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        weights.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return Fingerprint(
        weights=weights.hexdigest(),
        names=tuple(state),
        sids=recommender.sids.digest,
        serving=_rules(recommender.serving),
        training=recommender.module.training,
        trainable=tuple(parameter.requires_grad for parameter in recommender.module.parameters()),
        hooks=sum(_hooks(part) for part in recommender.module.modules()),
    )


def _hooks(part: torch.nn.Module) -> int:
    """Hooks on a part of the network, but for those that transformers installs to collect hidden states and keeps."""
    found = (*part._forward_hooks.values(), *part._forward_pre_hooks.values())
    return sum(not str(getattr(hook, "__module__", "")).startswith("transformers.") for hook in found)


def _rules(rules: ServingRules) -> str:
    return " ".join("-" if mask is None else np.packbits(mask).tobytes().hex() for mask in vars(rules).values())


def result_faults(before: Fingerprint, result: Recommender, folder: Path) -> Iterator[str]:
    """Faults of the recommender that a method returned; it is saved below ``folder`` and read again."""
    after = fingerprint(result)
    if not all(bool(torch.isfinite(weight).all()) for weight in result.module.parameters()):
        yield "weights that are not finite"
    if after.names != before.names:
        yield f"other parameters than the original's: {', '.join(sorted({*after.names} ^ {*before.names})[:4])} …"
    elif after.trainable != before.trainable:
        yield "parameters that no longer require gradients, or newly do"
    if after.hooks > before.hooks:
        yield f"{after.hooks - before.hooks} hooks were left behind"
    if after.names != before.names:
        # Loading would only say the same again.
        return
    result.save(folder)
    if fingerprint(type(result).load(folder)).content != after.content:
        yield "saved and loaded, it is another model"


def list_faults(model: Recommender, test: Groups, rows: int) -> Iterator[str]:
    """Faults of the lists of at most ``rows`` forget and as many retain users: bounds between the ranking
    metrics, items that stand there twice, places out of order, items that are not served."""
    values: list[MetricValue] = []
    for group, part in ((Group.FORGET, test.forget), (Group.RETAIN, test.retain)):
        examples = _some(part, rows, group)
        # A served model that drops items from histories is given the whole history, as it drops before it cuts.
        cut = None if model.serving.ignored is not None else model.history_limit
        ranking = decode(model, examples.histories(cut), beam=BEAM, label=group.value, progress=Progress())
        yield from (f"{group.value} lists: {fault}" for fault in _order_faults(model, ranking))
        ranks = ranking.ranks(examples.targets)
        values += [user_mean(metric.name, group, metric.of(ranks), beam=BEAM) for metric in RANK_METRICS]
    yield from check_invariants(values)


def _order_faults(model: Recommender, ranking: Ranking) -> Iterator[str]:
    filled = ranking.items >= 0
    if not filled[:, 0].all():
        yield f"{int((~filled[:, 0]).sum())} are empty"
    if any(len(np.unique(row[row >= 0])) < int((row >= 0).sum()) for row in ranking.items):
        yield "an item stands in one twice"
    steps = np.diff(np.where(filled, ranking.log_probs, -np.inf), axis=1)
    if np.isnan(ranking.log_probs).any() or (steps > 1e-5)[filled[:, 1:]].any():
        yield "scores are not in order"
    blocked = model.serving.blocked
    if blocked is not None and blocked[ranking.items[filled]].any():
        yield "a blocked item is served"


def _some(part: Examples, rows: int, group: Group) -> Examples:
    if len(part) <= rows:
        return part
    chosen = numpy_generator(0, "soundness", group.value).choice(len(part), size=rows, replace=False)
    return part.subset(np.sort(chosen).astype(np.int64))
