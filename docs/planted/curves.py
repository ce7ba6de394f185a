"""Draws what each method does to a planted concept as it is given more time, at three degrees of token overlap.

``python -m docs.planted.curves`` from the repository's root: writes curves.csv, curves.svg and curves.png beside this
file, in minutes on one thread, the same each time. ``--from-csv`` draws again without running anything.

One rule sets every method: its default configuration, with the largest learning rate of the grid (runs are
short here), a batch of 64, and the length of training on the x axis. Nothing is tuned, for no method and for no Ω.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.evaluation.ranking import gain, hit
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.reporting.titles import declared_controls
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from genrec_unlearn_bench.unlearning.search import LEARNING_RATES
from tests import planted_overlap
from tests.planted_overlap import OVERLAPS, OverlapWorld

HERE = Path(__file__).parent
EPOCHS = (1, 2, 4, 8)
BEAM = 64
"""All 64 items: nothing is pruned, so that a low score means a low rank."""


class Point(NamedTuple):
    """One model, measured. ``epochs`` is -1 for a method that has no length of training."""

    overlap: float
    method: str
    epochs: int
    forget: float
    retain: float


def fields(config: type[Any], epochs: int) -> dict[str, Any]:
    """The one rule."""
    known = config.model_fields
    found: dict[str, Any] = {"batch_size": 64}
    if "lr" in known:
        found["lr"] = max(LEARNING_RATES)
    # As in the defaults, a fifth of TRACER's epochs is hard; SCRUB's max-epochs are three of five rounds.
    found |= {"epochs": epochs, "hard_epochs": max(1, round(epochs / 5)), "max_epochs": max(1, round(0.6 * epochs))}
    return {name: value for name, value in found.items() if name in known}


def lasting(config: type[Any]) -> bool:
    """Whether a longer training can be asked for."""
    return "epochs" in config.model_fields


def measured(model: Recommender, world: OverlapWorld) -> tuple[float, float]:
    """Forget HR@1 and retain NDCG@10."""

    def ranks(part: Examples) -> Any:
        return model.recommend(part.histories(model.history_limit), BEAM, beam=BEAM).ranks(part.targets)

    return float(hit(ranks(world.test.forget), 1).mean()), float(gain(ranks(world.test.retain), 10).mean())


def measurements() -> Iterator[Point]:
    """Every point of the figure."""
    controls = declared_controls()
    known = {name: entry for name, entry in methods().items() if entry.kind == "method"}
    names = [name for name, entry in known.items() if not entry.variant_of or name in controls]
    # The same weights at every Ω, as no concept item is met in training: see tests/planted_overlap.py.
    retrained = planted_overlap.retrained(OVERLAPS[0])
    for overlap in OVERLAPS:
        world = planted_overlap.trained(overlap)
        yield Point(overlap, "original", -1, *measured(world.original, world))
        yield Point(overlap, "retrain", -1, *measured(retrained.with_sids(world.original.sids), world))
        for name in names:
            found: type[UnlearningMethod[Any]] = load_class(find_method(name), UnlearningMethod)  # type: ignore[type-abstract]
            for epochs in EPOCHS if lasting(found.Config) else (-1,):
                torch.manual_seed(0)
                method = found(found.Config.model_validate({**fields(found.Config, epochs), **known[name].fields}))
                model = method.unlearn(world.original, world.request, Progress())
                yield Point(overlap, name, epochs, *measured(model, world))


def main() -> None:
    """Measure (or read), write, draw."""
    table = HERE / "curves.csv"
    if "--from-csv" not in sys.argv:
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(True, warn_only=True)
        with table.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Point._fields)
            for point in measurements():
                print(*point, flush=True)
                writer.writerow([f"{value:.4f}" if isinstance(value, float) else value for value in point])
    with table.open(encoding="utf-8", newline="") as file:
        rows = [
            Point(float(row["overlap"]), row["method"], int(row["epochs"]), float(row["forget"]), float(row["retain"]))
            for row in csv.DictReader(file)
        ]
    from docs.planted.figure import draw

    draw(rows, HERE / "curves.svg", HERE / "curves.png")


if __name__ == "__main__":
    main()
