"""The official presets in numbers: steps, batches and learning rates against the schedulers of the official codes.

Rows are counted as those codes count them; P5-SID's figures are in the logs that its authors published.
"""

from __future__ import annotations

import math

import pytest
import torch
from transformers import get_scheduler

from genrec_unlearn_bench.backbones import load_backbone
from genrec_unlearn_bench.backbones.config import Scale, Schedule
from genrec_unlearn_bench.backbones.etegrec.backbone import EtegrecConfig
from genrec_unlearn_bench.pipeline.request import changed

BEAUTY = 131_413
"""Train targets of leave-one-out: 198,502 interactions, less three of each of 22,363 users."""


def official_rates(name: str, warmup: int, total: int, counts: int = 1) -> list[float]:
    """Rate by update of transformers' schedule, moved on ``counts`` times an update."""
    optimiser = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(name, optimiser, num_warmup_steps=warmup, num_training_steps=total)
    (factor,) = scheduler.lr_lambdas
    return [factor(counts * step) for step in range(math.ceil(total / counts) + 1)]


def same_curve(ours: Schedule, official: list[float], *, tolerance: float = 1e-9) -> None:
    """Equal at every step after the warm-up, and one step ahead in it: the official one spends a step at rate 0."""
    assert official[0] == 0 or not ours.warmup
    for step in range(0, len(official) - 1, max(1, ours.warmup // 50)):
        expected = official[step + 1] if step < ours.warmup else official[step]
        assert ours.factor(step) == pytest.approx(expected, abs=tolerance), step


def test_p5_counts_ten_samples_an_interaction_on_two_gpus() -> None:
    training = load_backbone("p5sid").presets[Scale.OFFICIAL].training
    total = training.steps(BEAUTY)
    # "Batch per epoch: 10267", "Total steps: 205340", and 64 rows a GPU, in the logs of the repository.
    assert training.batch_size == 2 * 64
    assert math.ceil(math.ceil(BEAUTY * 10 / 2) / 64) == 10_267
    assert total == pytest.approx(20 * 10_267, rel=3e-4)
    rates = training.rates(total)
    assert rates.warmup == pytest.approx(10_267, rel=3e-4)
    same_curve(rates, official_rates("linear", rates.warmup, total))
    assert (training.lr, training.weight_decay, training.epsilon) == (1e-3, 0.01, 1e-6)


def test_letter_warms_up_over_a_hundredth_whatever_the_data() -> None:
    training = load_backbone("letter").presets[Scale.OFFICIAL].training
    for rows in (BEAUTY, 36_000, 5_000):
        total = training.steps(rows)
        assert total == 200 * math.ceil(rows / (2 * 256 * 2))
        rates = training.rates(total)
        assert abs(rates.warmup - math.ceil(0.01 * total)) <= 1
        same_curve(rates, official_rates("cosine", rates.warmup, total))


def test_minionerec_decays_linearly_after_twenty_steps() -> None:
    training = load_backbone("mor").presets[Scale.OFFICIAL].training
    rates = training.rates(1_500)
    assert (rates.warmup, training.batch_size, training.lr, training.weight_decay) == (20, 1024, 3e-4, 0.0)
    same_curve(rates, official_rates("linear", 20, 1_500))


@pytest.mark.parametrize("rows", [122 * 2048, 250_001])
def test_etegrec_counts_a_step_once_a_gpu(rows: int) -> None:
    """accelerate moves a schedule on once a process; its length is counted before the loader is split among them."""
    config = load_backbone("etegrec").presets[Scale.OFFICIAL]
    assert isinstance(config, EtegrecConfig)
    joint, counted = config.joint, 400 * math.ceil(rows / 512)
    assert (joint.batch_size, joint.parts) == (4 * 512, 4)
    recommender, tokenizer = joint.rates(rows)
    rounding = {"tolerance": 1e-9 if rows % 2048 == 0 else 0.01}
    same_curve(recommender, official_rates("cosine", 8000, counted, 4), **rounding)
    same_curve(tokenizer, official_rates("cosine", 8000 // 2, counted // 2, 4), **rounding)
    # Each of the two learns in every other epoch: the recommender's rate stops half-way down, the tokenizer's at 0.
    steps = 200 * math.ceil(rows / 2048)
    assert recommender.factor(steps) == pytest.approx(0.53, abs=0.01)
    assert tokenizer.factor(steps) == pytest.approx(0, abs=1e-3)
    second = config.second
    assert (second.lr, second.steps(rows)) == (5e-4, 100 * math.ceil(rows / 2048))
    last = math.ceil(100 * math.ceil(rows / 512) / 4)
    same_curve(second.rates(second.steps(rows)), official_rates("cosine", 0, 4 * last, 4), **rounding)


def test_other_scales_have_none_of_it() -> None:
    """A field that is new is no part of a key where it is at its default."""
    new = {"epsilon", "parts", "titles_to_title", "unseen_prompt", "clustering", "linear_decay"}
    for name in ("tiger", "letter", "p5sid", "mor", "etegrec"):
        family = load_backbone(name)
        for scale in (Scale.SMOKE, Scale.SMALL, Scale.PAPER):
            for preset in (family.presets[scale], family.sid_presets[scale]):
                parts = [preset.model_dump(), *(one for one in preset.model_dump().values() if isinstance(one, dict))]
                assert not new & {field for part in parts for field in part}, (name, scale)
        assert changed(family.presets[Scale.SMALL], {}, where="test") == family.presets[Scale.SMALL]


def test_weights_in_bfloat16_would_drop_the_steps_of_unlearning() -> None:
    """Why ``mor`` keeps float32 weights where the official code loads bfloat16 ones."""
    weights = 0.02 * torch.randn(100_000, generator=torch.Generator().manual_seed(0))
    kept = weights.bfloat16()

    def unmoved(step: float) -> float:
        return float((kept - step == kept).float().mean())

    assert unmoved(3e-5) > 0.6  # a step at TRACER's rate for the language model
    assert unmoved(1e-4) > 0.1  # the last third of official training lies below it
    assert float(((weights - 3e-5) == weights).float().mean()) == 0
    assert load_backbone("mor").presets[Scale.OFFICIAL].precision == "float32"
