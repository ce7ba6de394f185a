"""What is refused before a method is asked to do anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import lay_ground
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.trained import original, tokens
from genrec_unlearn_bench.pipeline.unlearned import unlearned
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from tests.pipeline.conftest import Bench


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_an_original_that_is_no_number_is_refused_by_the_parameters_name(trained: Bench, value: float) -> None:
    setting = settle(trained.request("filter-history"))
    room = Workroom(setting, trained.store, trained.told, Shelf())
    with determinism(1):
        ground = lay_ground(room)
        sids = tokens(room, ground)
        before = original(room, ground, sids)
        spoilt = replace(before, load=_spoiling(before.load, value))
        with pytest.raises(CorruptArtefact, match=r"encoder\.final_layer_norm\.weight holds NaN or infinity") as told:
            unlearned(room, ground, sids, spoilt)
    assert told.value.where == str(before.stage.path)
    assert told.value.hint is not None
    assert not list(trained.root.rglob(".draft-*"))


def _spoiling(load: Callable[[], Any], value: float) -> Callable[[], Any]:
    def broken() -> Any:
        model = load()
        with torch.no_grad():
            dict(model.module.named_parameters())["encoder.final_layer_norm.weight"][3] = value
        return model

    return broken
