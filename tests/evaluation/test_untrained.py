"""A model that has learned nothing: another's shape and table, random weights of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.minionerec.backbone import LoraShape
from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.examples import Histories
from genrec_unlearn_bench.evaluation.measurement import NotMeasurable
from genrec_unlearn_bench.evaluation.probing.states import untrained
from tests import small
from tests.backbones.etegrec import world as etegrec
from tests.backbones.minionerec import models as minionerec
from tests.backbones.p5sid import models as p5sid
from tests.evaluation.planted import PlantedRecommender, lists, table
from tests.planted import sids

FAMILIES: dict[str, Callable[[], Recommender]] = {
    "t5": small.t5,
    "causal": small.causal,
    "causal with adapters": lambda: minionerec.scratch(lora=LoraShape(rank=2)),
    "p5sid": lambda: p5sid.recommender("sequential"),
    "etegrec": lambda: etegrec.fresh(sids()),
}


def moved(one: Recommender, two: Recommender) -> float:
    """Share of the weight matrices that differ."""
    pairs = zip(one.module.parameters(), two.module.parameters(), strict=True)
    differ = [not torch.equal(a, b) for a, b in pairs if a.ndim > 1]
    return sum(differ) / len(differ)


@pytest.mark.parametrize("family", FAMILIES)
def test_shape_and_table_stay_and_weights_do_not(family: str) -> None:
    source = FAMILIES[family]()
    weights = {name: value.clone() for name, value in source.module.state_dict().items()}
    fresh = untrained(source, 0)
    assert type(fresh) is type(source)
    assert fresh.sids is source.sids
    own = fresh.module.state_dict()
    assert {name: value.shape for name, value in own.items()} == {name: value.shape for name, value in weights.items()}
    assert moved(source, fresh) > 0.85
    assert all(torch.equal(value, weights[name]) for name, value in source.module.state_dict().items())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_seed_fixes_the_weights(family: str) -> None:
    source = FAMILIES[family]()
    first, again, other = untrained(source, 0), untrained(source, 0), untrained(source, 1)
    assert moved(first, again) == 0
    # Half of an adapter starts at zero.
    assert moved(first, other) > 0.65


def test_it_does_not_depend_on_what_was_learned() -> None:
    source = small.t5()
    first = untrained(source, 0)
    with torch.no_grad():
        for parameter in source.module.parameters():
            parameter.add_(1.0)
    assert moved(first, untrained(source, 0)) == 0


def test_it_is_served_as_the_other_and_reads_the_same_prompts() -> None:
    source = p5sid.recommender("sequential")
    ignored = np.arange(64) == 3
    fresh = untrained(source.with_serving(ServingRules(ignored=ignored)), 0)
    assert fresh.serving.ignored is ignored
    histories = Histories.of([[3, 9, 1]], users=[4])
    read, expected = fresh.encode(histories), source.with_serving(fresh.serving).encode(histories)
    assert torch.equal(read.position_items, expected.position_items)
    words = [torch.equal(a, b) for a, b in zip(fresh.module.buffers(), source.module.buffers(), strict=True)]
    assert words
    assert all(words)


def test_a_model_with_text_keeps_its_tokenizer(tmp_path: Path) -> None:
    source = minionerec.pretrained(tmp_path / "qwen")
    fresh = untrained(source, 0)
    assert fresh.text is source.text  # type: ignore[attr-defined]
    assert moved(source, fresh) > 0.85
    assert fresh.recommend(Histories.of([[1, 2]]), 3, beam=3).items.shape == (1, 3)


def test_a_family_nobody_has_described_is_refused() -> None:
    planted = PlantedRecommender(lambda histories, k, beam: lists([[0]], k), table([[0], [1]]))
    with pytest.raises(NotMeasurable, match="how a PlantedRecommender starts without training"):
        untrained(planted, 0)
