"""The edit of value vectors, against the paper's formula written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.minionerec.backbone import LoraShape
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.dictionaries.sae import TopKSae
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import (
    Editor,
    Feature,
    NeuronDictionary,
    early_scale,
    steered,
    value_vectors,
)
from tests.backbones.minionerec import models as causal
from tests.unlearning.test_anatomy import t5

SIZE, WIDTH, NEURONS = 8, 20, 12


def dictionary(seed: int = 0, size: int = SIZE) -> TopKSae:
    """Encoder and decoder differ, biases and scale are not trivial: taking one for the other shows."""
    draw = torch.Generator().manual_seed(seed)
    decoder = F.normalize(torch.randn(WIDTH, size, generator=draw))
    encoder = decoder + 0.3 * torch.randn(WIDTH, size, generator=draw)
    bias, centre = (0.1 * torch.randn(count, generator=draw) for count in (WIDTH, size))
    return TopKSae(encoder, bias, decoder, centre, scale=3.0, k=2)


def vectors(size: int = SIZE) -> Tensor:
    torch.set_num_threads(1)
    return torch.randn(NEURONS, size, generator=torch.Generator().manual_seed(1))


def feature(index: int, output: float = 1.0, block: str = "block") -> Feature:
    return Feature(block, index, 0.9, output)


def by_hand(rows: Tensor, sae: TopKSae, wanted: dict[int, int], tau: float, mu: float, signs: Tensor) -> Tensor:
    """The paper's edit, one value vector and one feature after another."""
    dots = {f: (rows @ (sae.encoder[f] / sae.scale)).abs() for f in wanted}
    largest = max(float(values.max()) for values in dots.values())
    out = rows.clone()
    for j in range(len(rows)):
        codes = F.relu((rows[j] / sae.scale - sae.centre) @ sae.encoder.T + sae.bias)
        before = sae.scale * (codes @ sae.directions + sae.centre)
        for f, sign in wanted.items():
            if dots[f][j] > tau * dots[f].max():
                codes[f] = largest * mu * sign * signs[j]
        out[j] = sae.scale * (codes @ sae.directions + sae.centre) + (rows[j] - before)
    return out


@pytest.mark.parametrize("tau", [0.9, 0.5, 0.2])
def test_the_edit_is_the_papers_also_where_features_share_a_vector(tau: float) -> None:
    rows, sae = vectors(), dictionary()
    signs = torch.where(torch.arange(NEURONS) % 3 == 0, -1.0, 1.0)
    places, fresh = steered(rows, sae, [feature(4, 1.0), feature(7, -0.5)], signs, tau, 5.0)
    expected = by_hand(rows, sae, {4: -1, 7: 1}, tau, 5.0, signs)
    torch.testing.assert_close(rows.index_copy(0, places, fresh), expected, rtol=1e-4, atol=1e-4)


def test_both_features_reach_a_shared_vector() -> None:
    rows, sae = vectors(), dictionary()
    places, fresh = steered(rows, sae, [feature(4), feature(7)], torch.ones(NEURONS), 0.2, 5.0)
    alone = [steered(rows, sae, [feature(f)], torch.ones(NEURONS), 0.2, 5.0) for f in (4, 7)]
    shared = set(alone[0][0].tolist()) & set(alone[1][0].tolist())
    assert shared
    directions = torch.linalg.lstsq(sae.directions[[4, 7]].T, (fresh - rows[places]).T).solution
    for j in shared:
        assert (directions[:, places.tolist().index(j)].abs() > 1e-3).all()


def test_setting_a_feature_to_its_own_code_changes_nothing() -> None:
    """decode(a) + error == v_j, however little the dictionary says about v_j."""
    rows, sae = vectors(), dictionary()
    strengths = (rows @ sae.encoder_rows[4]).abs()
    place = int(strengths.argmax())
    code = float(sae.weight_codes(rows[place : place + 1])[0, 4])
    mu = code / float(strengths[place])
    places, fresh = steered(rows, sae, [feature(4, -1.0)], torch.ones(NEURONS), 0.999, mu)
    assert places.tolist() == [place]
    torch.testing.assert_close(fresh, rows[places], atol=1e-6, rtol=0)
    error = rows[places] - sae.decode(sae.weight_codes(rows[places]))
    assert error.norm() > 0.1 * rows[places].norm(), "without the error term, this edit would change the weights a lot"


def test_the_sign_of_the_output_score_and_of_the_neuron_turn_the_push_round() -> None:
    rows, sae = vectors(), dictionary()
    signs = torch.ones(NEURONS)
    ahead = {}
    for name, output, sign in (("neg", 1.0, signs), ("pos", -1.0, signs), ("turned", 1.0, -signs)):
        places, fresh = steered(rows, sae, [feature(4, output)], sign, 0.9, 8.0)
        ahead[name] = ((fresh - rows[places]) @ sae.directions[4]).max()
    assert ahead["neg"] < 0 < ahead["pos"]
    assert ahead["turned"] == ahead["pos"]


def test_a_neurons_own_dictionary_replaces_the_whole_value_vector() -> None:
    rows = vectors()
    places, fresh = steered(rows, NeuronDictionary(rows), [feature(3)], torch.ones(NEURONS), 0.99, 4.0)
    assert places.tolist() == [3]
    torch.testing.assert_close(fresh[0], -4.0 * rows[3], rtol=1e-4, atol=1e-4)


def test_early_blocks_are_pushed_less() -> None:
    assert [round(early_scale(index, 26), 2) for index in (0, 8, 9, 25)] == [0.1, 1.0, 1.0, 1.0]
    assert [early_scale(index, 4) for index in range(4)] == [0.1, 1.0, 1.0, 1.0]
    assert early_scale(0, 1) == 1.0


def editor(original: Recommender, model: Recommender, sae: TopKSae, place: int) -> Editor:
    block = anatomy(original).decoder[place]
    return Editor(model, [block], {block.name: sae}, [torch.ones(block.down.in_features)])


@pytest.mark.parametrize("family", ["t5", "causal", "causal lora"])
def test_an_editor_changes_columns_of_one_matrix_and_puts_them_back(family: str) -> None:
    lora = LoraShape(rank=2, alpha=4) if family == "causal lora" else None
    original: Recommender = t5() if family == "t5" else causal.scratch(lora=lora)
    model = original.clone()
    block = anatomy(original).decoder[1]
    sae, chosen = dictionary(size=32), feature(4, block=block.name)
    before = value_vectors(block.down)
    scaled = 6.0 * early_scale(1, len(anatomy(original).decoder))
    places, fresh = steered(before, sae, [chosen], torch.ones(len(before)), 0.5, scaled)
    edits = editor(original, model, sae, 1)
    assert edits.apply([chosen], 0.5, 6.0) == len(places)
    after = value_vectors(anatomy(model).decoder[1].down)
    torch.testing.assert_close(after[places], fresh, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(after, before.index_copy(0, places, fresh), rtol=1e-4, atol=1e-4)
    state: dict[str, Any] = original.module.state_dict()
    changed = [name for name, tensor in model.module.state_dict().items() if not torch.equal(tensor, state[name])]
    assert len(changed) == 1, "only one W_out may change, and no adapter"
    assert "lora" not in changed[0]
    assert edits.apply([], 0.5, 6.0) == 0
    assert all(torch.equal(tensor, state[name]) for name, tensor in model.module.state_dict().items())
    assert not np.isnan(float(after.sum()))
