from __future__ import annotations

import numpy as np
import torch

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.health import health
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.rqvae import DeadCodes, RqVae
from genrec_unlearn_bench.sids.table import nearest_codes
from tests.sids.planted import planted, purity

CONFIG = SidConfig(
    quantiser="rqvae",
    levels=2,
    codes=32,
    dim=8,
    hidden=(32,),
    epochs=60,
    batch_size=128,
    warmup_epochs=5,
    dead_code_epochs=5,
    resolve_rounds=0,
    collision_token=False,
)


def run(features: np.ndarray, config: SidConfig = CONFIG, seed: int = 0, progress: Progress | None = None):
    return quantise(features, config, seed=seed, device="cpu", progress=progress or Progress())


def test_planted_hierarchy_is_learnt_and_codes_are_used() -> None:
    data = planted(coarse=16, fine=4)
    progress = Progress()
    table = run(data.features, progress=progress)
    report = health(table)
    assert purity(table.codes[:, 0], data.coarse) >= 0.95
    assert all(level.perplexity >= 12 for level in report.levels)
    assert report.levels[0].used >= 24
    error = progress.notes["sids_reconstruction_error"]
    assert isinstance(error, float)
    assert error < 0.25
    assert not progress.diverged


def test_trained_codebooks_beat_random_ones() -> None:
    table = run(planted(coarse=16, fine=4).features)
    assert table.latents is not None
    trained = health(table).levels[-1].error
    rng = np.random.default_rng(0)
    books = tuple(table.latents[rng.choice(len(table), 32)] * scale for scale in (1.0, 0.3))
    residual = table.latents.astype(np.float64)
    codes = nearest_codes(table.latents, books)
    for level, book in enumerate(books):
        residual -= book[codes[:, level]]
    random = (residual**2).sum() / ((table.latents - table.latents.mean(0)) ** 2).sum()
    assert trained is not None
    assert trained < 0.5 * random


def test_training_lowers_the_reconstruction_error() -> None:
    def error(epochs: int) -> float:
        progress = Progress()
        run(planted().features, CONFIG.model_copy(update={"epochs": epochs}), progress=progress)
        value = progress.notes["sids_reconstruction_error"]
        assert isinstance(value, float)
        return value

    assert error(60) < 0.5 * error(2)


def test_the_same_seed_gives_the_same_bits() -> None:
    features = planted().features
    config = CONFIG.model_copy(update={"epochs": 12})
    one, two, other = run(features, config), run(features, config), run(features, config, seed=1)
    assert one.digest == two.digest
    assert one.latents is not None
    assert two.latents is not None
    assert one.latents.tobytes() == two.latents.tobytes()
    assert one.codebooks is not None
    assert two.codebooks is not None
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.codebooks, two.codebooks, strict=True))
    assert other.latents is not None
    assert not np.array_equal(one.latents, other.latents)


def test_codes_are_the_argmin_of_the_tables_distances() -> None:
    table = run(planted().features, CONFIG.model_copy(update={"epochs": 6}))
    again = np.stack([d.argmin(1) for d in table.distances(np.arange(len(table)))], axis=1)
    np.testing.assert_array_equal(again, table.codes)


def test_the_checkpoint_with_fewest_collisions_is_kept() -> None:
    progress = Progress()
    table = run(planted().features, progress=progress)
    looked = [step for step in progress.steps if step.stage == "sids.rqvae"]
    assert len(looked) >= 5
    best = min(looked, key=lambda step: (step.losses["collisions"], step.losses["reconstruction"]))
    assert progress.notes["sids_best_epoch"] == best.step
    distinct = len(np.unique(table.codes, axis=0))
    assert abs((1 - distinct / len(table)) - best.losses["collisions"]) < 0.02


def dead_case(patience: int) -> tuple[RqVae, torch.Tensor, torch.optim.Optimizer, DeadCodes]:
    config = CONFIG.model_copy(update={"dead_code_epochs": patience, "codes": 16})
    model = RqVae(torch.zeros(24), 1.0, config, seed=0)
    inputs = torch.from_numpy(planted(coarse=16, fine=4).features)
    with torch.no_grad():
        # Half of the codewords lie where nothing ever goes.
        latents = model.encoder(inputs)
        for book in model.codebooks:
            book[:8] = latents[:8]
            book[8:] = 1e3
    return model, inputs, torch.optim.AdamW(model.parameters(), lr=1e-3), DeadCodes(model, config)


def epoch(model: RqVae, inputs: torch.Tensor, optimiser: torch.optim.Optimizer, dead: DeadCodes) -> torch.Tensor:
    loss, quantised = model(inputs)
    optimiser.zero_grad()
    loss.total.backward()
    optimiser.step()
    dead.count(quantised.codes)
    dead.end_epoch(model, inputs, optimiser)
    return quantised.codes


def test_dead_codes_are_revived_after_the_patience_and_used() -> None:
    model, inputs, optimiser, dead = dead_case(patience=3)
    for _ in range(2):
        codes = epoch(model, inputs, optimiser, dead)
        assert dead.restarted == 0
        assert codes[:, 0].max() < 8
    epoch(model, inputs, optimiser, dead)
    assert dead.restarted >= 16
    book = model.codebooks[0].detach()
    assert book.abs().max() < 100
    state = optimiser.state[model.codebooks[0]]["exp_avg_sq"]
    assert (state[8:] == 0).all()
    with torch.no_grad():
        revived = model.quantise(model.encoder(inputs)).codes
    assert len(torch.unique(revived[:, 0])) >= 15
    assert len(torch.unique(revived[:, 1])) >= 12


def test_dead_codes_stay_dead_with_restarts_off() -> None:
    model, inputs, optimiser, dead = dead_case(patience=0)
    for _ in range(8):
        codes = epoch(model, inputs, optimiser, dead)
    assert dead.restarted == 0
    assert codes[:, 0].max() < 8


def test_sinkhorn_in_training_evens_the_last_level() -> None:
    features = planted(coarse=16, fine=3, noise=0.2).features

    def perplexity(option: str, seed: int) -> float:
        config = CONFIG.model_copy(update={"sinkhorn": option, "epochs": 20, "dead_code_epochs": 0})
        return health(run(features, config, seed=seed)).levels[-1].perplexity

    assert sum(perplexity("last", seed) for seed in range(3)) > 1.1 * sum(perplexity("off", seed) for seed in range(3))


def test_fewer_items_than_codes_and_constant_features() -> None:
    few = run(planted(coarse=3, fine=2, items=1).features, CONFIG.model_copy(update={"epochs": 3}))
    assert len(np.unique(few.codes, axis=0)) == 6
    flat = run(np.ones((5, 4), np.float32), CONFIG.model_copy(update={"epochs": 3}))
    assert len(np.unique(flat.codes, axis=0)) == 1
