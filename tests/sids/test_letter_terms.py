from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.config import LetterSidConfig
from genrec_unlearn_bench.sids.letter import CodeClusters, LetterTerms, alignment_loss, diversity_loss
from genrec_unlearn_bench.sids.rqvae import Quantised, RqVae

CONFIG = LetterSidConfig(levels=2, codes=12, dim=4, hidden=(8,), clusters=3, alpha=0.5, beta_diversity=0.25)


def model(config: LetterSidConfig = CONFIG) -> RqVae:
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


def test_a_lone_codeword_is_refused() -> None:
    with pytest.raises(ValueError, match="no other member"):
        CodeClusters(torch.tensor([0, 0, 1]))


def test_the_terms_are_weighted_and_averaged_over_levels() -> None:
    made, vectors = model(), torch.randn(30, 4, generator=torch.Generator().manual_seed(2))
    rows = torch.tensor([4, 7, 11, 29])
    quantised = made.quantise(torch.randn(4, 4, generator=torch.Generator().manual_seed(3)))

    def total(alpha: float, beta: float) -> float:
        config = CONFIG.model_copy(update={"alpha": alpha, "beta_diversity": beta})
        terms = LetterTerms(vectors, config, seed=0, progress=Progress())
        terms.start_epoch(made, 0)
        return float(terms(made, rows, quantised).detach())

    chosen = quantised.words.sum(1).detach()
    assert math.isclose(total(1, 0), float(alignment_loss(chosen, vectors[rows])), rel_tol=1e-5)
    assert math.isclose(total(0.5, 0.25), 0.5 * total(1, 0) + 0.25 * total(0, 1), rel_tol=1e-5)
    assert total(0, 1) > 0


def test_alignment_reaches_the_encoder_and_not_the_codebooks() -> None:
    made = model()
    terms = LetterTerms(torch.eye(4), CONFIG.model_copy(update={"beta_diversity": 0.0}), seed=0, progress=Progress())
    terms.start_epoch(made, 0)
    quantised = made.quantise(made.encoder(torch.randn(4, 6, generator=torch.Generator().manual_seed(4))))
    terms(made, torch.arange(4), quantised).backward()
    assert all(weight.grad is not None and weight.grad.abs().max() > 0 for weight in made.encoder.parameters())
    assert all(book.grad is None or book.grad.abs().max() == 0 for book in made.codebooks)


def test_clusters_are_made_anew_every_so_many_epochs() -> None:
    made = model()
    terms = LetterTerms(torch.eye(4), CONFIG.model_copy(update={"recluster_epochs": 3}), seed=0, progress=Progress())
    seen = []
    for epoch in range(7):
        terms.start_epoch(made, epoch)
        seen.append(terms.clusters)
    assert [i for i in range(1, 7) if seen[i] is not seen[i - 1]] == [3, 6]
    lower, upper = CONFIG.cluster_bounds
    for level in seen[0]:
        assert int(level.size.min()) >= max(lower, 2)
        assert int(level.size.max()) <= upper


def test_other_widths_are_bridged_by_a_map_that_is_learned() -> None:
    made = model()
    terms = LetterTerms(torch.randn(9, 7), CONFIG, seed=0, progress=Progress())
    terms.start_epoch(made, 0)
    assert [tuple(weight.shape) for weight in terms.parameters()] == [(7, 4)]
    assert not list(LetterTerms(torch.randn(9, 4), CONFIG, seed=0, progress=Progress()).parameters())
    terms(made, torch.arange(3), made.quantise(torch.randn(3, 4))).backward()
    (weight,) = terms.parameters()
    assert weight.grad is not None
    assert weight.grad.abs().max() > 0


def test_straight_through_shows_codewords_and_passes_gradients_to_latents() -> None:
    latents = torch.randn(3, 4, requires_grad=True)
    words = torch.randn(3, 2, 4, requires_grad=True)
    quantised = Quantised(torch.zeros(3, 2, dtype=torch.long), torch.stack([latents, latents.detach()], 1), words)
    torch.testing.assert_close(quantised.straight_through, words.sum(1))
    quantised.straight_through.sum().backward()
    torch.testing.assert_close(latents.grad, torch.ones(3, 4))
    assert words.grad is None
