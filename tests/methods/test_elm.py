"""ELM on small recommenders: what teaches, what is taught, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.early_stopping import validation_ndcg
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, LoraShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.methods.elm import Elm, ElmConfig, soft_cross_entropy
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.guidance import Contexts
from genrec_unlearn_bench.unlearning.lora import early_blocks
from tests import planted as world
from tests.backbones.p5sid.models import recommender
from tests.planted import HISTORY, Planted
from tests.unlearning.test_guidance import request

torch.set_num_threads(1)
SHORT: dict[str, Any] = {"max_steps": 2, "batch_size": 16}


def t5() -> T5Recommender:
    shape = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=2, heads=4, dropout=0.0, history_limit=5)
    return T5Recommender.fresh(shape, world.sids(), seed=0)


def mor(*, lora: bool = False) -> CausalRecommender:
    network = NetworkShape(hidden=32, ffn=48, layers=3, heads=4, groups=2)
    shape = CausalShape(network=network, history_limit=5, lora=LoraShape(rank=4, alpha=8) if lora else None)
    return CausalRecommender.fresh(shape, world.sids(), seed=0)


MODELS = {
    "t5": t5,
    "mor": mor,
    "mor-lora": lambda: mor(lora=True),
    "p5-sequential": lambda: recommender("sequential"),
    "p5-collaborative": lambda: recommender("collaborative"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ConceptKind.BRAND, ConceptKind.INTERACTION])
@pytest.mark.parametrize("name", MODELS)
def test_every_family_and_kind_of_request_comes_back_plain_and_finite(name: str, kind: ConceptKind) -> None:
    original: Recommender = MODELS[name]()
    original.module.train()
    before = {key: value.clone() for key, value in original.module.state_dict().items()}
    progress = Progress()
    result = Elm(ElmConfig(**SHORT)).unlearn(original, request(kind), progress)
    assert not progress.diverged
    assert set(progress.steps[-1].losses) == {"retain", "erase", "consistency", "gradient_norm"}
    assert original.module.training
    assert all(torch.equal(value, before[key]) for key, value in original.module.state_dict().items())
    after = result.module.state_dict()
    assert list(after) == list(before)
    moved = {key for key in after if not torch.equal(after[key], before[key])}
    assert moved, "something was learned"
    early = tuple(f"{block.name}." for block in early_blocks(original))
    assert all(key.startswith(early) and "lora" not in key and "norm" not in key for key in moved)
    required = {key: value.requires_grad for key, value in original.module.named_parameters()}
    assert {key: value.requires_grad for key, value in result.module.named_parameters()} == required
    assert not any(part._forward_hooks for part in result.module.modules())


def test_the_student_reads_plain_histories_and_the_teacher_has_no_adapters(monkeypatch: pytest.MonkeyPatch) -> None:
    model, asked = t5(), request()
    seen: list[tuple[bool, np.ndarray, list[str]]] = []
    real = T5Recommender.encode

    def encode(self: T5Recommender, histories: Any, **options: Any) -> Any:
        layers: Any = [part for part in self.module.modules() if hasattr(part, "lora_A")]
        active = sorted({name for layer in layers for name in layer.active_adapters})
        seen.append((torch.is_grad_enabled(), histories.items, active))
        return real(self, histories, **options)

    monkeypatch.setattr(T5Recommender, "encode", encode)
    Elm(ElmConfig(max_steps=1, batch_size=500, consistency_weight=1.0)).unlearn(model, asked, Progress())
    assert [grad for grad, _, _ in seen] == [False, False, True, True], "targets, teacher, retain, erase + consistency"
    stacked, teacher, retain, forget = (items for _, items, _ in seen)
    assert all(active == ["unlearning"] if grad else active == [] for grad, _, active in seen)
    np.testing.assert_array_equal(teacher, retain)
    part = asked.train.forget
    plain = part.histories(5).items
    rows = {tuple(row) for row in plain}
    assert {tuple(row) for row in forget} == rows
    base, expert, novice = np.split(stacked, 3)
    np.testing.assert_array_equal(base, forget)
    assert (expert != base).any()
    assert (novice != base).any()
    np.testing.assert_array_equal(expert == -1, base == -1)


@pytest.mark.parametrize("name", ["t5", "mor"])
def test_targets_and_loss_stand_at_the_position_that_predicts_the_token(name: str) -> None:
    """Against decoding token by token, where no shift is possible."""
    model, asked = MODELS[name](), request()
    model.module.eval()
    elm = Elm(ElmConfig(eta=2.0, temperature=1.0, plausibility=0.0, top=1000))
    forget = asked.train.forget.subset(np.arange(6))
    contrast = Contexts(asked, model.sids, count=3).draw(forget.histories(5), np.random.default_rng(0))
    with torch.no_grad():
        targets = elm.targets(model, contrast, forget)
        output = model.forward(contrast.base, forget.targets)
        codes = model.codes_of(forget.targets)
        offsets, sizes = model.vocabulary.offsets, model.vocabulary.level_sizes
        opened = model.server()
        sessions = [opened(h) for h in (contrast.base, contrast.expert, contrast.novice)]
        every = slice(0, model.vocabulary.size)
        logits = [s.start_window(every) for s in sessions]
        total, count = 0.0, 0
        for level in range(model.sids.quantised_levels):
            window = slice(offsets[level], offsets[level] + sizes[level])
            p0, expert, novice = (x[:, window].log_softmax(-1).double() for x in logits)
            expected = (p0 - 2 * (expert - novice)).softmax(-1)
            torch.testing.assert_close(targets[:, level, : sizes[level]], expected, atol=1e-5, rtol=1e-4)
            total += float(-(expected * logits[0].log_softmax(-1)[:, window]).sum())
            count += len(forget)
            tokens = (codes[:, level] + offsets[level])[:, None]
            logits = [s.step_window(torch.zeros_like(tokens), tokens, every)[:, 0] for s in sessions]
        assert not targets[:, model.sids.quantised_levels :].any(), "the ordinal says nothing about an item"
    loss = float(soft_cross_entropy(output, targets, model.vocabulary))
    assert loss == pytest.approx(total / count, rel=1e-4)


def first_step(**weights: Any) -> tuple[dict[str, torch.Tensor], Progress]:
    progress = Progress()
    result = Elm(ElmConfig(**{**SHORT, **weights})).unlearn(t5(), request(), progress)
    return result.module.state_dict(), progress


@pytest.mark.parametrize("term", ["erase", "retain", "consistency"])
def test_each_of_the_three_terms_has_a_gradient_of_its_own(term: str) -> None:
    whole, full = first_step()
    without, rest = first_step(**{f"{term}_weight": 0.0})
    assert full.steps[0].losses["gradient_norm"] != pytest.approx(rest.steps[0].losses["gradient_norm"], rel=1e-3)
    assert any(not torch.equal(whole[key], without[key]) for key in whole)
    if term == "consistency":
        assert "consistency_items" not in rest.notes


def test_the_hard_retain_term_is_cross_entropy_with_the_originals_best_codes() -> None:
    model, part = t5(), request().train.retain.subset(np.arange(8))
    with torch.no_grad():
        original = model.forward(part.histories(5), part.targets)
        hard = Elm(ElmConfig()).retain(model, original, original)
        soft = Elm(ElmConfig(soft_retain=True)).retain(model, original, original)
    values = []
    for level, (first, size) in enumerate(zip(model.vocabulary.offsets, model.vocabulary.level_sizes, strict=True)):
        best = original.logits[:, level, first : first + size].argmax(-1) + first
        values.append(torch.nn.functional.cross_entropy(original.logits[:, level], best))
    assert float(hard) == pytest.approx(float(torch.stack(values).mean()), rel=1e-5)
    assert float(soft) == pytest.approx(0.0, abs=1e-6)


def test_elm_forgets_a_planted_concept_and_keeps_the_rest(planted: Planted) -> None:
    marked, part = planted.request.items, planted.test.forget
    progress = Progress()
    model = Elm(ElmConfig(batch_size=64)).unlearn(planted.original, planted.request, progress)

    def rate(recommender: Recommender) -> float:
        return float(marked[recommender.recommend(part.histories(HISTORY), 1, beam=10).items].mean())

    assert rate(planted.original) > 0.8
    assert rate(model) < 0.1
    kept = validation_ndcg(model, planted.test.retain) / validation_ndcg(planted.original, planted.test.retain)
    assert kept >= 0.97
    assert not progress.diverged
    lowered = model.target_log_probs(part.histories(HISTORY), part.targets).sum(1)
    assert lowered.isfinite().all()
    again = Elm(ElmConfig(batch_size=64)).unlearn(planted.original, planted.request, Progress()).module.state_dict()
    assert all(torch.equal(again[key], value) for key, value in model.module.state_dict().items()), (
        "same seed, same bits"
    )


@pytest.mark.slow
@pytest.mark.parametrize("variant", Elm.variants)
def test_every_variant_differs_from_elm(variant: str) -> None:
    whole, _ = first_step()
    varied, progress = first_step(**Elm.variants[variant])
    assert not progress.diverged
    assert any(not torch.equal(whole[key], varied[key]) for key in whole)
    moved = {key.split(".layer.")[0] for key in whole if not torch.equal(varied[key], t5().module.state_dict()[key])}
    assert len(moved) == (4 if variant == "elm-all-layers" else 2)
