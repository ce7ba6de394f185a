"""TIGER's presets keep the recipe that public reproductions stand or fall with (docs/backbones.md)."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.backbones.config import Scale, Schedule
from genrec_unlearn_bench.backbones.tiger import Tiger

INDUSTRIAL_ROWS = 19_885


@pytest.mark.parametrize("scale", list(Scale))
def test_recipe(scale: Scale) -> None:
    config = Tiger.presets[scale]
    training = config.training
    total = training.steps(INDUSTRIAL_ROWS)
    schedule = Schedule(training.schedule, training.warmup_steps, total)
    assert training.warmup_steps <= total // 10, "none of the warm-up is cut off"
    assert schedule.factor(0) < 0.05
    assert max(schedule.factor(step) for step in range(0, total, 50)) <= 1
    assert schedule.factor(total - 1) < 0.25, "the rate falls to the end"
    assert total // training.evaluation_steps(INDUSTRIAL_ROWS) >= 4, (
        "the best weights on validation can be told from the last ones"
    )
    assert training.temperature == 1.0
    assert (config.shape.dropout > 0) == (scale is not Scale.SMOKE)


def test_official_is_the_papers() -> None:
    config = Tiger.presets[Scale.OFFICIAL]
    shape, training = config.shape, config.training
    assert (shape.layers, shape.d_model, shape.heads, shape.d_kv, shape.d_ff) == (4, 128, 6, 64, 1024)
    assert (shape.user_tokens, shape.history_limit, shape.dropout) == (2000, 20, 0.1)
    assert (training.lr, training.batch_size, training.steps(INDUSTRIAL_ROWS)) == (1e-2, 256, 200_000)
    assert training.patience >= training.evaluations, "the paper does not stop early"
