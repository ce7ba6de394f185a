from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.backbone import MiniOneRecConfig
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import SoftSids
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.losses.suppression import (
    ItemTexts,
    Objective,
    UnlearningLossConfig,
    train_with_discrete_sids,
)
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from tests.backbones.checkpoints import qwen_folder
from tests.backbones.minionerec.models import spread
from tests.planted import catalogue, concept, examples, features, groups, sequences, sids


def request(marked: np.ndarray | None = None) -> ForgetRequest:
    marked = concept() if marked is None else marked
    part = groups(examples(sequences(20, 9, 1)), marked)
    pairs = np.zeros((0, 2), dtype=np.int64)
    return ForgetRequest(ConceptKind.BRAND, marked, pairs, part, part, features(sids()), catalogue=catalogue(), seed=0)


def recommender(folder: Path, **config: Any) -> Any:
    qwen_folder(folder)
    made = MiniOneRecConfig(checkpoint=str(folder), history_limit=4, training={"weight_decay": 0.0}, **config)
    model = CausalRecommender.pretrained(made, str(folder), sids(), seed=0, device="cpu")
    spread(model.model)
    model.module.eval()
    return model


def test_draws_go_round_all_concept_items() -> None:
    drawn = ItemTexts(request(), sids())
    found = np.concatenate([drawn.draw(3) for _ in range(8)])
    assert sorted(found.tolist()) == sorted(np.repeat(np.flatnonzero(concept()), 3).tolist())
    assert len(set(drawn.draw(100).tolist())) == 8
    nothing = replace(request(), items=np.zeros(64, dtype=bool))
    assert len(ItemTexts(nothing, sids()).draw(5)) == 0


@torch.no_grad()
def test_terms_are_token_means_of_both_directions_and_the_ordinal_is_left_out(tmp_path: Path) -> None:
    model = recommender(tmp_path / "qwen")
    made = request()
    texts, again = ItemTexts(made, sids()), ItemTexts(made, sids())
    kept = np.array([0, 9, 40])
    terms = texts.losses(model, kept, 4, bounded=False)
    assert terms is not None

    def mean(items: np.ndarray) -> float:
        titles = [made.catalogue.titles[item] for item in items]
        to_sid = model.align(items, titles, to="sid").token_log_probs()[:, :3]
        to_title = model.align(items, titles, to="title")
        count = to_sid.numel() + int(to_title.mask.sum())
        return float(to_sid.sum() + to_title.token_log_probs().sum()) / count

    assert float(terms.forget) == pytest.approx(mean(again.draw(4)), rel=1e-5)
    assert float(terms.retain) == pytest.approx(-mean(kept), rel=1e-5)


@torch.no_grad()
def test_the_forget_term_is_about_the_original_sids_wherever_items_have_moved(tmp_path: Path) -> None:
    model = recommender(tmp_path / "qwen")
    items = np.flatnonzero(concept())
    codes = sids().codes[items].copy()
    codes[:, 0] = 15
    moved = model.with_sids(sids().reassigned(items, codes))
    before, after = (ItemTexts(request(), sids()).losses(m, items[:0], 8, bounded=False) for m in (model, moved))
    assert before is not None
    assert after is not None
    assert float(before.forget) == float(after.forget)


@torch.no_grad()
def test_bounded_terms_stop_at_the_uniform_level(tmp_path: Path) -> None:
    model = recommender(tmp_path / "qwen")
    terms = ItemTexts(request(), sids()).losses(model, np.array([0]), 8, bounded=True)
    free = ItemTexts(request(), sids()).losses(model, np.array([0]), 8, bounded=False)
    assert terms is not None
    assert free is not None
    assert float(free.forget) < -math.log(16)
    assert float(terms.forget) >= -math.log(model.vocabulary.size)
    assert float(terms.forget) > float(free.forget)


def test_samples_are_mixed_in_by_their_number_and_only_where_titles_were_learned(tmp_path: Path) -> None:
    model = recommender(tmp_path / "qwen")
    made = request()
    forget, retain = made.train.forget.subset(np.arange(8)), made.train.retain.subset(np.arange(8))
    found = {
        share: Objective(UnlearningLossConfig(text_share=share), made, sids()).losses(model, forget, retain)
        for share in (0.0, 0.5)
    }
    assert found[0.0].text_fraction == 0.0
    assert "text_fraction" not in found[0.0].log_values()
    assert found[0.5].log_values()["text_fraction"] == pytest.approx(4 / 12)
    texts = ItemTexts(made, sids()).losses(model, retain.targets[:4], 4, bounded=True)
    assert texts is not None
    torch.testing.assert_close(found[0.5].forget, found[0.0].forget * 2 / 3 + texts.forget / 3)
    torch.testing.assert_close(found[0.5].retain, found[0.0].retain * 2 / 3 + texts.retain / 3)
    plain = recommender(tmp_path / "plain", text_tasks=False)
    assert Objective(UnlearningLossConfig(), made, sids()).losses(plain, forget, retain).text_fraction == 0.0


@pytest.mark.slow
def test_without_item_texts_a_model_still_knows_the_titles_of_the_concept(tmp_path: Path) -> None:
    """A model that was taught every item's title, unlearned with and without item-text samples."""
    learned = recommender(tmp_path / "qwen")
    made = request()
    titles = made.catalogue.titles

    def scores(model: Any) -> torch.Tensor:
        output = model.align(everything, titles, to="title")
        return output.token_log_probs().sum(1) / output.mask.sum(1)

    everything = np.arange(64)
    optimizer = torch.optim.AdamW(learned.module.parameters(), lr=5e-3)
    for _ in range(60):
        optimizer.zero_grad()
        (-scores(learned).mean()).backward()
        optimizer.step()
    found = {}
    for share in (0.0, 1.0):
        model = learned.clone()
        config = UnlearningLossConfig(lr=1e-3, batch_size=16, text_share=share, lambda_forget=1.0)
        train_with_discrete_sids(model, Objective(config, made, sids()), epochs=4, progress=Progress(), stage="hard")
        with torch.no_grad():
            told = scores(model)
        found[share] = float(told[concept()].mean()), float(told[~concept()].mean())
    without, with_texts = (found[share][1] - found[share][0] for share in (0.0, 1.0))
    assert with_texts > without + 0.08, found  # nats a token; titles share all words but the last


@pytest.mark.parametrize("lora", [None, {"rank": 2, "alpha": 4}])
def test_half_precision_weights_learn_soft_and_hard(tmp_path: Path, lora: dict[str, int] | None) -> None:
    model = recommender(tmp_path / "qwen", precision="bfloat16", lora=lora)
    made = request()
    weights = tuple(torch.full((8, 16), 1 / 16, requires_grad=True) for _ in range(3))
    rows = torch.full((64,), -1)
    rows[torch.from_numpy(made.item_ids)] = torch.arange(8)
    forget, retain = made.train.forget.subset(np.arange(6)), made.train.retain.subset(np.arange(6))
    config = UnlearningLossConfig()
    losses = Objective(config, made, sids()).losses(model, forget, retain, SoftSids(rows, weights))
    assert losses.forget_output.logits.dtype == torch.float32
    losses.total(config).backward()
    learned = [parameter for parameter in model.module.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None and bool(parameter.grad.isfinite().all()) for parameter in learned)
    assert all(weight.grad is not None for weight in weights)
