"""Measures what every method does to a planted concept, and every way of moving its tokens, at three token overlaps.

``python -m docs.planted.measure --seeds 8 --all-methods 1`` from the repository's root adds the rows that are missing
to worlds.csv beside this file, the same numbers each time; it can be stopped and started again at any time. A seed
draws the network's weights, its batches and those of the methods; users and catalogue stay the same.

One rule sets every method: its default configuration, with the largest learning rate of the grid (runs are short here)
and batches of 64. Nothing is tuned, for no method and for no Ω.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender, SoftSids, exposed
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.ranking import gain, hit
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.reporting.wording import declared_controls
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.sids.overlap import overlap
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from genrec_unlearn_bench.unlearning.losses.suppression import Objective
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.search import LEARNING_RATES
from genrec_unlearn_bench.unlearning.tokens.soft_tokens import PhiTrainer
from tests import planted_overlap
from tests.planted_overlap import LEVELS, OVERLAPS, OverlapWorld

if TYPE_CHECKING:
    from methods.tracer import Tracer

TABLE = Path(__file__).with_name("worlds.csv")
BEAM = 64
"""All 64 items: nothing is pruned, so that a low score means a low rank."""

ARMS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "retain-only": ("retain-only", {}),
    "relabel": ("relabel", {}),
    **{f"random-reassign[lambda_forget={x}]": ("random-reassign", {"lambda_forget": x}) for x in (0.0, 0.04, 0.4)},
    "tracer-no-reassignment": ("tracer-no-reassignment", {}),
    **{
        f"tracer-no-reassignment[lambda_forget={x}]": ("tracer-no-reassignment", {"lambda_forget": x})
        for x in (0.6, 1.0)
    },
    "tracer-zero-phi": ("tracer-zero-phi", {}),
    **{f"tracer[phi_lr={rate}]": ("tracer", {"phi_lr": rate}) for rate in (0.03, 0.1, 0.3, 1.0)},
}
"""The rows of the grid ``reassignment``: a label, as cells of that grid are named, with a method and its fields. And
training without new IDs at larger λ1: what forgetting as much costs without moving tokens."""


class Point(NamedTuple):
    """One model, measured; NaN where a quantity does not exist. Forget scores are HR@1, retain scores NDCG@10."""

    overlap: float
    seed: int
    row: str
    served: float
    exposed: float
    worst: float
    """Mean over examples of the larger one."""
    retain: float
    near: float
    """Retain examples whose target is next to a concept item, as ``near_concept`` has them."""
    moved: int
    """Concept items with a new ID."""
    omega: float
    """Overlap of the served IDs."""
    cos_soft_start: float
    """cos(∇L_F, ∇L_R) at the start of TRACER's soft phase, and below at its end and in the finished model."""
    cos_soft_end: float
    cos_end: float


def near_concept() -> np.ndarray:
    """[64] the retain items that share five of six codes with a concept item where Ω is 1/2. They are also its
    neighbours in the circle, and the same items at every Ω."""
    concept, stems = planted_overlap.concept(), planted_overlap.sids(0.5).codes[:, : LEVELS - 1]
    shared = (stems[:, None] == stems[concept][None]).all(axis=2).any(axis=1)
    return np.asarray(shared & ~concept)


def conflict(model: Recommender, world: OverlapWorld, soft: SoftSids | None = None) -> float:
    """cos(∇L_F, ∇L_R) over all parameters, on all forget examples and as many retain examples of the training set.

    L_F is the log-likelihood of the original content codes, without its bound: the bounded gradient is 0 once all is
    forgotten. Negative: a step that lowers one raises the other.
    """
    train = world.request.train
    rows = numpy_generator(0, "conflict").choice(len(train.retain), size=len(train.forget), replace=False)
    retain = train.retain.subset(np.sort(rows).astype(np.int64))
    parameters = [parameter for parameter in model.module.parameters() if parameter.requires_grad]

    def gradient(part: Examples, codes: torch.Tensor, sign: int) -> torch.Tensor:
        context = model.encode(part.histories(model.history_limit), soft=soft)
        loss = sign * token_nll(model.decode(context, codes.to(model.device)))
        found = torch.autograd.grad(loss, parameters, allow_unused=True)
        pairs = zip(parameters, found, strict=True)
        return torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for p, g in pairs])

    original = torch.from_numpy(world.original.sids.codes[train.forget.targets])
    forgotten = gradient(train.forget, original, -1)
    kept = gradient(retain, model.codes_of(retain.targets), 1)
    return float(torch.cosine_similarity(forgotten, kept, dim=0))


@dataclass
class _Watched:
    """The cosines around TRACER's soft phase; NaN for methods that have none."""

    start: float = float("nan")
    end: float = float("nan")


def _watch(method: UnlearningMethod[Any], world: OverlapWorld) -> _Watched:
    """Measure the conflict around a soft phase of ``method``; changes nothing else about it."""
    watched = _Watched()
    if method.name != "tracer":  # a class of the registry's own loading, so not ``methods.tracer``'s
        return watched
    tracer = cast("Tracer", method)
    phase, config = tracer._soft_phase, tracer.config

    def measured(
        model: Recommender, objective: Objective, phi: PhiTrainer, optimizer: torch.optim.Optimizer, progress: Progress
    ) -> int:
        def at(temperature: float) -> float:
            probs = tuple(level.detach() for level in phi.tokens.assignment_probs(temperature))
            return conflict(model, world, phi.tokens.soft_sids(probs))

        watched.start = at(config.temperature_start)
        steps = phase(model, objective, phi, optimizer, progress)
        watched.end = at(config.temperature_end)
        return steps

    tracer._soft_phase = measured  # type: ignore[method-assign]
    return watched


def measured(model: Recommender, world: OverlapWorld, row: str, watched: _Watched) -> Point:
    """All scores of one model."""

    def ranks(served: Recommender, part: Examples) -> Any:
        return served.recommend(part.histories(model.history_limit), BEAM, beam=BEAM).ranks(part.targets)

    weights = exposed(model, world.original.sids)
    if weights is None:
        raise ValueError(f"{row} cannot be decoded in the original IDs")
    forget, retain = world.test.forget, world.test.retain
    served, held = (hit(ranks(each, forget), 1) for each in (model, weights))
    kept = gain(ranks(model, retain), 10)
    moved = (model.sids.codes != world.original.sids.codes).any(axis=1)
    return Point(
        world.overlap,
        world.request.seed,
        row,
        float(served.mean()),
        float(held.mean()),
        float(np.maximum(served, held).mean()),
        float(kept.mean()),
        float(kept[near_concept()[retain.targets]].mean()),
        int(moved.sum()),
        overlap(model.sids, planted_overlap.concept()).quantised,
        watched.start,
        watched.end,
        conflict(model, world),
    )


def unlearned(world: OverlapWorld, row: str) -> Point:
    """Run one method or arm, and measure it."""
    name, fields = ARMS.get(row, (row, {}))
    found: type[UnlearningMethod[Any]] = load_class(find_method(name), UnlearningMethod)  # type: ignore[type-abstract]
    rule = {"batch_size": 64, "lr": max(LEARNING_RATES)}
    given = {field: value for field, value in rule.items() if field in found.Config.model_fields}
    torch.manual_seed(world.request.seed)
    method = found(found.Config.model_validate(given | dict(methods()[name].fields) | dict(fields)))
    watched = _watch(method, world)
    return measured(method.unlearn(world.original, world.request, Progress()), world, row, watched)


def wanted_rows(seed: int, all_methods: int) -> list[str]:
    """The arms at every seed, and at the first ones every other method and control."""
    controls = declared_controls()
    known = {name: entry for name, entry in methods().items() if entry.kind == "method"}
    names = [name for name, entry in known.items() if not entry.variant_of or name in controls]
    named = {name for name, _ in ARMS.values()}
    return [*ARMS, *(name for name in names if seed < all_methods and name not in named)]


def missing_points(seeds: int, all_methods: int, done: set[tuple[float, int, str]]) -> Iterator[Point]:
    """Every point that is not there yet, those of the largest overlap first."""
    # One retrained network for every Ω, as no concept item is met in training: see tests/planted_overlap.py.
    retrained = cache(lambda seed: planted_overlap.retrained(OVERLAPS[0], seed))
    for wanted, seed in product(sorted(OVERLAPS, reverse=True), range(seeds)):
        rows = ["original", "retrain", *wanted_rows(seed, all_methods)]
        rows = [row for row in rows if (wanted, seed, row) not in done]
        if not rows:
            continue
        world = planted_overlap.trained(wanted, seed)
        for row in rows:
            if row == "original":
                yield measured(world.original, world, row, _Watched())
            elif row == "retrain":
                yield measured(retrained(seed).with_sids(world.original.sids), world, row, _Watched())
            else:
                yield unlearned(world, row)


def read_points(table: Path = TABLE) -> list[Point]:
    """The table by overlap and seed; empty where there is none."""
    if not table.is_file():
        return []
    with table.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))[1:]
    points = [Point(*(kind(text) for kind, text in zip(_KINDS, row, strict=True))) for row in rows]
    return sorted(points, key=lambda point: (point.overlap, point.seed))


_KINDS: tuple[Any, ...] = (float, int, str, *[float] * 5, int, *[float] * 4)


def main() -> None:
    """Measure what is missing, and add each point to the table as soon as it is there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=8, help="seeds of the arms")
    parser.add_argument("--all-methods", type=int, default=1, help="of these, seeds of all other methods too")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    done = {(point.overlap, point.seed, point.row) for point in read_points()}
    with TABLE.open("a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not done:
            writer.writerow(Point._fields)
        for point in missing_points(chosen.seeds, chosen.all_methods, done):
            writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in point])
            file.flush()
            print(*point, flush=True)


if __name__ == "__main__":
    main()
