from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LETTER_PRESETS, LetterSidConfig
from genrec_unlearn_bench.sids.kmeans import balanced_assignment
from genrec_unlearn_bench.sids.letter import (
    CodeClusters,
    LetterTerms,
    alignment_loss,
    batched_clusters,
    bounded_assignment,
    diversity_loss,
    letter_sids,
)
from genrec_unlearn_bench.sids.quantise import quantise
from genrec_unlearn_bench.sids.rqvae import Quantised, RqVae
from genrec_unlearn_bench.sids.table import SidTable
from tests.sids.planted import planted, purity

CONFIG = LetterSidConfig(
    levels=2, codes=16, dim=8, hidden=(32,), epochs=60, batch_size=128, warmup_epochs=5, clusters=4, alpha=0.1
)


def run(features: np.ndarray, vectors: np.ndarray, **fields: Any) -> SidTable:
    torch.set_num_threads(1)
    fit = fields.pop("fit", np.ones(len(features), dtype=bool))
    seed, progress = fields.pop("seed", 0), fields.pop("progress", Progress())
    config = CONFIG.model_copy(update=fields)
    return letter_sids(features, vectors, config, seed=seed, device="cpu", progress=progress, fit_rows=fit)


def behaviour(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features of weak texts, behaviour that cuts across their groups, and the behaviour's vectors."""
    data = planted(coarse=4, fine=4, items=16, dim=24, noise=0.3)
    # The fine group is what users go by; in the texts it is the smaller part.
    spread = np.random.default_rng(seed).standard_normal((len(data.fine), 8)) * 0.1
    vectors = 2 * np.eye(8)[data.fine] + spread
    return data.features, data.fine, vectors.astype(np.float32)


@pytest.mark.slow
def test_behaviour_that_texts_hardly_show_reaches_the_first_codes() -> None:
    features, groups, vectors = behaviour()
    mixed = vectors[np.random.default_rng(1).permutation(len(vectors))]

    def shared(alpha: float, with_vectors: np.ndarray) -> float:
        """How far items with one first code are items that one group of users takes; a quarter by chance."""
        return purity(run(features, with_vectors, alpha=alpha, codes=8, lr=5e-3).codes[:, 0], groups)

    without, real, random = shared(0.0, vectors), shared(1.0, vectors), shared(1.0, mixed)
    assert without < 0.4
    assert real > without + 0.25
    assert real > random + 0.15, "it is the vectors' content that counts"


def test_without_its_terms_it_is_the_plain_tokenizer() -> None:
    features, _, vectors = behaviour()
    config = CONFIG.model_copy(update={"alpha": 0.0, "beta_diversity": 0.0, "epochs": 6})
    plain = quantise(features, config, seed=0, device="cpu", progress=Progress())
    table = run(features, vectors, alpha=0.0, beta_diversity=0.0, epochs=6)
    assert plain.digest == table.digest
    assert run(features, vectors, alpha=0.0, beta_diversity=1.0, epochs=6).digest != plain.digest


def test_the_same_seed_gives_the_same_bits() -> None:
    features, _, vectors = behaviour()
    torch.manual_seed(1)
    one = run(features, vectors, epochs=8)
    torch.manual_seed(2)
    two, other = run(features, vectors, epochs=8), run(features, vectors, epochs=8, seed=1)
    assert one.digest == two.digest
    assert one.latents is not None
    assert two.latents is not None
    np.testing.assert_array_equal(one.latents, two.latents)
    assert one.digest != other.digest


def test_rows_that_are_not_fitted_on_leave_no_trace() -> None:
    features, _, vectors = behaviour()
    fit = np.ones(len(features), dtype=bool)
    fit[::5] = False
    changed, broken = features.copy(), vectors.copy()
    changed[~fit] += 3
    broken[~fit] = np.nan
    one, two = (run(features, each, fit=fit, epochs=6) for each in (vectors, broken))
    assert one.digest == two.digest, "nobody reads the vectors of unknown items"
    moved = run(changed, vectors, fit=fit, epochs=6)
    assert one.codebooks is not None
    assert moved.codebooks is not None
    np.testing.assert_array_equal(one.codebooks[0], moved.codebooks[0])
    assert len(one) == len(features)


def test_sinkhorn_balances_the_last_level_alone_and_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from genrec_unlearn_bench.sids import rqvae

    seen: list[tuple[torch.Tensor, torch.Tensor]] = []
    real = rqvae.sinkhorn_codes

    def spy(distances: torch.Tensor, **options: Any) -> torch.Tensor:
        codes = real(distances, **options)
        seen.append((distances, codes))
        return codes

    monkeypatch.setattr(rqvae, "sinkhorn_codes", spy)
    features, _, vectors = behaviour()
    table = run(features, vectors, epochs=4, batch_size=256)
    # 256 items are one batch: one call an epoch, and none while checkpoints are compared or codes are given.
    assert len(seen) == 4
    assert max(int(torch.bincount(codes).max()) for _, codes in seen) <= 2 * 256 / 16
    assert table.quantised_levels == 2


def test_colliding_items_are_encoded_again_and_the_rest_told_apart() -> None:
    features, _, vectors = behaviour()
    features[1], vectors[1] = features[0], vectors[0]
    table = run(features, vectors, epochs=8)
    kept = run(features, vectors, epochs=8, collision_token=False)
    untouched = run(features, vectors, epochs=8, collision_token=False, resolve_rounds=0)
    assert len(np.unique(table.codes, axis=0)) == len(features)
    assert table.levels == 3
    assert kept.levels == 2
    distinct = [len(np.unique(each.codes, axis=0)) for each in (untouched, kept)]
    assert distinct[0] < distinct[1] < len(features)


def test_losses_are_noted() -> None:
    features, _, vectors = behaviour()
    progress = Progress()
    run(features, vectors, epochs=30, recluster_epochs=5, progress=progress)
    logged = [step.losses["alignment"] for step in progress.steps if step.stage == "sids.letter"]
    assert len(logged) == 5
    assert logged[-1] < logged[0]
    assert progress.notes["sids_alignment_loss"]


def test_presets_have_four_levels() -> None:
    for scale in ("smoke", "small", "paper", "official"):
        config = LETTER_PRESETS[scale]
        assert config.levels == 4
        assert config.sinkhorn == "last"
        assert config.resolve_rounds == 20
        assert config.collision_token == (scale != "official")
        assert scale == "smoke" or config.codes == 256
    assert LETTER_PRESETS["official"].dim == 32
    assert LETTER_PRESETS["official"].cluster_bounds == (10, 60)


def test_bad_input_is_named() -> None:
    features, _, vectors = behaviour()
    with pytest.raises(DataFault, match="not finite"):
        run(features, np.full_like(vectors, np.inf))
    with pytest.raises(ConfigError, match="do not fill"):
        parse(LetterSidConfig, {"codes": 16, "clusters": 9}, where="test")
    with pytest.raises(ConfigError, match="quantiser"):
        parse(LetterSidConfig, {"quantiser": "rkmeans"}, where="test")


TERMS = LetterSidConfig(levels=2, codes=12, dim=4, hidden=(8,), clusters=3, alpha=0.5, beta_diversity=0.25)


def model(config: LetterSidConfig = TERMS) -> RqVae:
    made = RqVae(torch.zeros(6), 1.0, config, seed=0)
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for book in made.codebooks:
            book.copy_(torch.randn(book.shape, generator=generator))
    return made


def test_alignment_by_hand() -> None:
    quantised = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    collaborative = torch.tensor([[3.0, 0.0], [1.0, 1.0]])
    # Scores [[3, 1], [0, 2]]: neither scaled nor normalised.
    expected = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-2))) / 2
    assert math.isclose(float(alignment_loss(quantised, collaborative)), expected, rel_tol=1e-6)
    assert not math.isclose(float(alignment_loss(2 * quantised, collaborative)), expected, rel_tol=1e-2)


def test_alignment_draws_a_vector_to_its_own_item_and_from_the_others() -> None:
    quantised = torch.zeros(2, 2, requires_grad=True)
    collaborative = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    alignment_loss(quantised, collaborative).backward()
    assert quantised.grad is not None
    # At zero both items are equally likely, so the gradient is (mean - own) / B.
    torch.testing.assert_close(quantised.grad, (torch.full((2, 2), 0.5) - collaborative) / 2)


def test_diversity_by_hand() -> None:
    book = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0]])
    # The scores of codeword 0 are [1, 0, 2]; without itself [0, 2].
    loss = diversity_loss(book[[0]], torch.tensor([0]), book, torch.tensor([2]))
    assert math.isclose(float(loss), math.log(1 + math.exp(-2)), rel_tol=1e-6)


def test_diversity_equals_a_naive_loop_and_moves_the_codebook() -> None:
    generator = torch.Generator().manual_seed(0)
    book = torch.randn(12, 4, generator=generator, requires_grad=True)
    codes = torch.randint(12, (20,), generator=generator)
    positives = (codes + 1 + torch.randint(11, (20,), generator=generator)) % 12
    losses = []
    for code, positive in zip(codes.tolist(), positives.tolist(), strict=True):
        others = [k for k in range(12) if k != code]
        scores = torch.stack([book[code] @ book[k] for k in others])
        losses.append(torch.logsumexp(scores, 0) - book[code] @ book[positive])
    naive = torch.stack(losses).mean()
    ours = diversity_loss(functional.embedding(codes, book), codes, book, positives)
    torch.testing.assert_close(ours, naive)
    expected, found = torch.autograd.grad(naive, book)[0], torch.autograd.grad(ours, book)[0]
    torch.testing.assert_close(found, expected)


def test_positives_are_uniform_over_the_other_members() -> None:
    labels = torch.tensor([0, 1, 0, 2, 1, 0, 2, 0])
    clusters = CodeClusters(labels)
    for code in range(8):
        drawn = clusters.others(torch.full((6000,), code), torch.Generator().manual_seed(code)).numpy()
        members = [k for k in range(8) if labels[k] == labels[code] and k != code]
        values, counts = np.unique(drawn, return_counts=True)
        assert values.tolist() == members
        assert (np.abs(counts * len(members) / 6000 - 1) < 0.1).all()


def test_the_terms_are_weighted_and_averaged_over_levels() -> None:
    made, vectors = model(), torch.randn(30, 4, generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([4, 7, 11, 29])
    quantised = made.quantise(torch.randn(4, 4, generator=torch.Generator().manual_seed(3)))

    def total(alpha: float, beta: float) -> float:
        config = TERMS.model_copy(update={"alpha": alpha, "beta_diversity": beta})
        terms = LetterTerms(vectors, config, seed=0, progress=Progress())
        terms.start_epoch(made, 0)
        return float(terms.loss(made, rows, quantised).detach())

    chosen = quantised.words.sum(1).detach()
    assert math.isclose(total(1, 0), float(alignment_loss(chosen, vectors[rows])), rel_tol=1e-5)
    assert math.isclose(total(0.5, 0.25), 0.5 * total(1, 0) + 0.25 * total(0, 1), rel_tol=1e-5)
    assert total(0, 1) > 0


def test_alignment_reaches_the_encoder_and_not_the_codebooks() -> None:
    made = model()
    terms = LetterTerms(torch.eye(4), TERMS.model_copy(update={"beta_diversity": 0.0}), seed=0, progress=Progress())
    terms.start_epoch(made, 0)
    quantised = made.quantise(made.encoder(torch.randn(4, 6, generator=torch.Generator().manual_seed(4))))
    terms.loss(made, torch.arange(4), quantised).backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in made.encoder.parameters())
    assert all(book.grad is None or book.grad.abs().max() == 0 for book in made.codebooks)


def test_clusters_are_made_anew_every_so_many_epochs() -> None:
    made = model()
    terms = LetterTerms(torch.eye(4), TERMS.model_copy(update={"recluster_epochs": 3}), seed=0, progress=Progress())
    seen = []
    for epoch in range(7):
        terms.start_epoch(made, epoch)
        seen.append(terms.clusters)
    assert [i for i in range(1, 7) if seen[i] is not seen[i - 1]] == [3, 6]
    lower, upper = TERMS.cluster_bounds
    for level in seen[0]:
        assert int(level.size.min()) >= max(lower, 2)
        assert int(level.size.max()) <= upper


def clustered(books: torch.Tensor, clusters: int, lower: int, upper: int, seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return batched_clusters(books, clusters, lower=lower, upper=upper, iterations=6, generator=draw)


@given(st.integers(2, 6), st.integers(2, 4), st.integers(0, 5), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_sizes_stay_within_their_bounds(clusters: int, lower: int, spread: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.integers(clusters * lower, clusters * (lower + spread) + 1))
    # One far-off blob, and points on the same spot.
    points = rng.standard_normal((2, count, 3)).round(1) + 50 * (rng.random((2, count, 1)) < 0.8)
    labels = clustered(torch.from_numpy(points), clusters, lower, lower + spread, seed)
    assert labels.shape == (2, count)
    for level in labels.numpy():
        sizes = np.bincount(level, minlength=clusters)
        assert len(sizes) == clusters
        assert lower <= sizes.min() <= sizes.max() <= lower + spread


@pytest.mark.parametrize(("lower", "upper", "loss"), [(0, 256, 1e-6), (10, 60, 0.01), (20, 30, 0.05)])
def test_a_bounded_assignment_is_hardly_dearer_than_the_cheapest(lower: int, upper: int, loss: float) -> None:
    generator = torch.Generator().manual_seed(0)
    points, centres = torch.randn(3, 256, 8, generator=generator), torch.randn(3, 10, 8, generator=generator)
    distances = torch.cdist(points, centres).square()
    found = bounded_assignment(distances, lower=lower, upper=upper)
    for one, labels in zip(distances.double().numpy(), found.numpy(), strict=True):
        best = balanced_assignment(one, lower=lower, upper=upper)
        assert one[np.arange(256), labels].sum() <= (1 + loss) * one[np.arange(256), best].sum()


def test_planted_clusters_of_all_codebooks_are_found_together() -> None:
    """Ten runs miss none of forty groups."""
    rng = np.random.default_rng(0)
    own = np.stack([rng.permutation(np.repeat(np.arange(10), 25)) for _ in range(4)])
    books = torch.from_numpy(10 * np.eye(10)[own] + 0.1 * rng.standard_normal((4, 250, 10)))
    labels = clustered(books, 10, 10, 60, 0)
    assert all(len(np.unique(own[level] * 10 + labels[level].numpy())) == 10 for level in range(4))
    assert torch.equal(labels, clustered(books, 10, 10, 60, 0))
    assert not torch.equal(labels, clustered(books, 10, 10, 60, 1))


def test_the_official_tokenizer_is_that_of_the_shipped_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """alpha 0.01, beta 1e-4, clusters anew before each of 20,000 epochs, and not on the CPU."""
    config = LETTER_PRESETS["official"]
    assert (config.alpha, config.beta_diversity, config.epochs, config.batch_size) == (0.01, 1e-4, 20_000, 1024)
    assert (config.recluster_epochs, config.clusters, config.cluster_bounds) == (1, 10, (10, 60))
    assert (config.levels, config.codes, config.dim, config.weight_decay, config.lr) == (4, 256, 32, 1e-4, 1e-3)
    assert all(LETTER_PRESETS[scale].alpha == 0.1 for scale in ("smoke", "small", "paper"))
    made = RqVae(torch.zeros(6), 1.0, config.model_copy(update={"hidden": (16,)}), seed=0)
    with torch.no_grad():
        for book in made.codebooks:
            book.copy_(torch.randn(book.shape, generator=torch.Generator().manual_seed(1)))
    monkeypatch.setattr(RqVae, "books", lambda model: pytest.fail("codebooks were copied to the host"))
    terms = LetterTerms(torch.eye(4, 32), config, seed=0, progress=Progress())
    seen = []
    for epoch in range(2):
        terms.start_epoch(made, epoch)
        assert [int(level.size.min()) >= 10 and int(level.size.max()) <= 60 for level in terms.clusters] == [True] * 4
        seen.append(torch.stack([level.order for level in terms.clusters]))
    assert not torch.equal(*seen)


def test_straight_through_shows_codewords_and_passes_gradients_to_latents() -> None:
    latents = torch.randn(3, 4, requires_grad=True)
    words = torch.randn(3, 2, 4, requires_grad=True)
    quantised = Quantised(torch.zeros(3, 2, dtype=torch.long), torch.stack([latents, latents.detach()], 1), words)
    torch.testing.assert_close(quantised.straight_through, words.sum(1))
    quantised.straight_through.sum().backward()
    torch.testing.assert_close(latents.grad, torch.ones(3, 4))
    assert words.grad is None
