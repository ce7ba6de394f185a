"""What docs/planted measures beside scores, and that the pages say what its tables hold."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from docs.planted.measure import TABLE, _watch, conflict, near_concept, read_points
from docs.planted.report import PAGES, RECORDS, filled, grid_cells, recorded_scores, sections
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class
from genrec_unlearn_bench.unlearning.likelihood import token_nll
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from tests import planted_overlap
from tests.planted_overlap import OverlapWorld


def untrained(overlap: float = 0.5) -> OverlapWorld:
    model = T5Recommender.fresh(planted_overlap.SHAPE, planted_overlap.sids(overlap), seed=0)
    return OverlapWorld(overlap, planted_overlap.request(), planted_overlap.measured_part(), model)


def test_one_retain_item_in_each_group_is_next_to_the_concept() -> None:
    near, concept = np.flatnonzero(near_concept()), np.flatnonzero(planted_overlap.concept())
    assert len(near) == len(concept) == 8
    np.testing.assert_array_equal(near // 8, concept // 8)
    assert set(np.abs(near - concept) % 6) == {1}, "its neighbour in the circle of eight"


@pytest.mark.slow
def test_the_conflict_is_the_cosine_of_the_two_gradients() -> None:
    """After one step along -∇L_F, by how much L_R has changed has the sign of the cosine."""
    world = untrained()
    found = conflict(world.original, world)
    assert -1 < found < 0, "an untrained network learns the concept's codes and the others' together"
    train = world.request.train
    forget = train.forget.histories(3)
    parameters = list(world.original.module.parameters())

    def retain_loss() -> torch.Tensor:
        context = world.original.encode(train.retain.histories(3))
        return token_nll(world.original.decode(context, world.original.codes_of(train.retain.targets)))

    before = float(retain_loss().detach())
    context = world.original.encode(forget)
    loss = -token_nll(world.original.decode(context, world.original.codes_of(train.forget.targets)))
    for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
        parameter.data -= 1e-3 * gradient / gradient.norm().clamp_min(1e-12)
    assert float(retain_loss().detach()) > before


@pytest.mark.slow
def test_watching_tracer_changes_nothing_but_the_numbers_it_adds() -> None:
    found = load_class(find_method("tracer"), UnlearningMethod)  # type: ignore[type-abstract]
    config = found.Config.model_validate({"lr": 1e-3, "batch_size": 256, "epochs": 2, "hard_epochs": 1, "phi_lr": 1.0})
    world, models = untrained(0.25), []
    for watch in (False, True):
        method = found(config)
        watched = _watch(method, world) if watch else None
        models.append(method.unlearn(world.original, world.request, Progress()))
    assert watched is not None
    assert np.isfinite([watched.start, watched.end]).all()
    assert watched.start != watched.end
    np.testing.assert_array_equal(models[0].sids.codes, models[1].sids.codes)
    for one, two in zip(*(model.module.parameters() for model in models), strict=True):
        assert torch.equal(one, two)


def test_the_pages_hold_what_the_tables_do() -> None:
    assert TABLE.is_file()
    assert len({(point.overlap, point.seed, point.row) for point in read_points()}) == len(read_points())
    assert not RECORDS.is_file() or {(s.world, s.seed, s.row) for s in recorded_scores()} <= set(grid_cells())
    parts = sections()
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert filled(text, parts) == text, "run python -m docs.planted.report"


@pytest.mark.parametrize("row", ["original", "tracer-no-reassignment", "relabel"])
def test_no_row_forgets_less_in_the_worst_case_than_served_or_exposed(row: str) -> None:
    points = [point for point in read_points() if point.row == row]
    assert points
    assert all(point.worst >= max(point.served, point.exposed) - 1e-9 for point in points)
