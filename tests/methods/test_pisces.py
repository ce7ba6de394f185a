"""PISCES on a network into which one concept neuron was written, and its way through every family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.methods.pisces import Pisces, PiscesConfig
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.anatomy import anatomy, tapped
from genrec_unlearn_bench.unlearning.dictionaries.concept_features import (
    aurocs,
    concept_parts,
    find_features,
    matched_pairs,
    output_pull,
)
from genrec_unlearn_bench.unlearning.dictionaries.sae import SaeConfig, activation_rows, train_sae, unexplained
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import (
    MUS,
    TAUS,
    Editor,
    Effect,
    GridPoint,
    neuron_dictionaries,
    search_cells,
)
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import all_examples
from tests import planted
from tests.backbones.minionerec import models as causal
from tests.backbones.p5sid import models as p5

TINY = PiscesConfig(
    sae_rows=400, sae_width=2, sae_k=8, sae_steps=20, evaluations=3, valid_rows=16, pairs=40, auroc=0.5, features=2
)
LOOSE = TINY.model_copy(update={"fvu_ceiling": 9.0, "splice_floor": 0.0, "retain_floor": 0.0})


def walks(users: int, seed: int) -> Examples:
    """Two random items, then member 0 of a group twice and the concept (member 3), or member 1 twice and any of 4 to 7;
    the concept is all but absent from most of the groups, so that the category alone would tell forget from retain."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(users):
        forget = rng.random() < 0.4
        group = int(rng.integers(2) if forget else rng.integers(planted.GROUPS))
        marker, target = (0, 3) if forget else (1, int(rng.integers(4, 8)))
        out.append([*rng.integers(64, size=2).tolist(), group * 8 + marker, group * 8 + marker, group * 8 + target])
    return planted.examples(out).subset(np.arange(users) * 4 + 3)


def request(items: int = 64, kind: ConceptKind = ConceptKind.BRAND) -> ForgetRequest:
    marked = planted.concept()
    train, valid = (walks(n, s) for n, s in ((800, 1), (60, 2)))
    features = planted.features(planted.sids())
    if items < 64:
        folded = [replace(part, events=part.events % items, targets=part.targets % items) for part in (train, valid)]
        train, valid, marked = *folded, marked[:items]
        features = replace(features, plain=features.plain[:items], scrubbed=features.scrubbed[:items])
    return ForgetRequest(
        kind=kind,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=planted.groups(train, marked),
        valid=planted.groups(valid, marked),
        features=features,
        catalogue=planted.catalogue(),
        seed=0,
    )


def written() -> tuple[T5Recommender, torch.Tensor]:
    """A random T5 in whose decoder neuron 0 fires where the concept comes next and writes its level-2 token."""
    torch.set_num_threads(1)
    shape = T5Shape(d_model=32, d_kv=8, d_ff=48, layers=1, heads=4, dropout=0.0, history_limit=4)
    model = T5Recommender.fresh(shape, planted.sids(), seed=0)
    model.module.eval()
    block = anatomy(model).decoder[0]
    pairs = matched_pairs(request().train, model.sids.codes[:, 0], 4, count=200, seed=0)
    means = []
    with torch.no_grad():
        for part in (pairs.forget, pairs.retain):
            with tapped([block.mlp], inputs=True) as caught:
                model.forward(part.histories(4), part.targets)
            means.append(caught[0][:, 1])  # the position that predicts level 2
        gap = means[0].mean(0) - means[1].mean(0)
        rows = torch.cat(means) - torch.cat(means).mean(0)
        reader = torch.linalg.solve(rows.T @ rows / len(rows) + 0.05 * torch.eye(32), gap)
        offset = float((means[0].mean(0) + means[1].mean(0)) @ reader / 2)
        # RMS norm gives inputs of constant length, so a constant direction in them can carry the threshold.
        constant = torch.cat(means).mean(0)
        reader = reader - constant * offset / constant.square().sum()
        first, size = model.vocabulary.offsets[1], model.vocabulary.level_sizes[1]
        tokens = model.model.shared.weight[first : first + size]
        code = int(model.sids.codes[3, 1])
        direction = F.normalize(tokens[code] - tokens.mean(0), dim=0)
        block.down.weight.mul_(0.3)
        block.mlp.wi.weight[0] = 3 * reader / reader.norm()
        block.down.weight[:, 0] = 4 * direction
    return model, direction


def test_the_written_concept_feature_is_found_and_steered_away() -> None:
    model, direction = written()
    asked = request()
    block = anatomy(model).decoder[0]
    (rows,), (held_out,) = activation_rows(
        model, all_examples(asked.train.forget, asked.train.retain), [block], count=3000, seed=0
    )
    config = SaeConfig(sae_width=4, sae_k=6, sae_steps=300, sae_batch_size=128)
    sae = train_sae(rows, config, seed=0, stage="test", progress=Progress())
    assert unexplained(held_out, sae.reconstruct(held_out)) < 0.2
    pairs = matched_pairs(asked.train, model.sids.codes[:, 0], 4, count=300, seed=0)
    found = find_features(model, pairs, [block], {block.name: sae}, asked.brand_numbers, least=0.6, most=8)
    cosines = [float(sae.directions[feature.index] @ direction) for feature in found]
    best = int(np.argmax(cosines))
    assert cosines[best] > 0.8
    assert found[best].output > 0, "its direction promotes the concept, so it has to be pushed down"
    assert found[best].sign == -1

    changed = model.clone()
    edits = Editor(changed, [block], {block.name: sae}, [torch.ones(48)])
    forget, retain = pairs.forget, pairs.retain

    def logits(recommender: Recommender, part: Examples) -> torch.Tensor:
        with torch.no_grad():
            return recommender.forward(part.histories(4), part.targets).logits[:, 1]

    token = model.vocabulary.offsets[1] + int(model.sids.codes[3, 1])
    shift = {}
    for sign in (1.0, -1.0):
        assert edits.apply([replace(found[best], output=sign * found[best].output)], 0.9, 4.0) > 0
        shift[sign] = (logits(changed, forget) - logits(model, forget)).mean(0)
    assert shift[1.0][token] < -0.5 < 0 < shift[-1.0][token], "without the sign flag it is made stronger"
    edits.apply([found[best]], 0.9, 4.0)
    moved = (logits(changed, retain) - logits(model, retain)).abs().mean()
    assert moved < 0.35 * shift[1.0][token].abs(), "retain examples do not pass through the concept neuron"


def two_brands() -> ForgetRequest:
    """The concept that the neuron knows is one brand with a few examples; the other has many, which nothing tells from
    retain examples."""
    asked = request()
    member = np.arange(64) % 8
    items = asked.items | (member == 4) | (member == 5)
    whole = planted.groups(walks(800, 1), items)
    known = asked.items[whole.forget.targets]
    few = np.flatnonzero(~known | (np.cumsum(known) % 10 == 0))
    names = tuple("known" if asked.items[item] else "other" for item in range(64))
    return replace(
        asked,
        items=items,
        train=replace(whole, forget=whole.forget.subset(few)),
        catalogue=replace(asked.catalogue, brands=names),
    )


def test_a_feature_of_one_brand_is_found_among_the_examples_of_all() -> None:
    model, asked = written()[0], two_brands()
    block = anatomy(model).decoder[0]
    pairs = matched_pairs(asked.train, model.sids.codes[:, 0], 4, count=1000, seed=0)
    neurons = neuron_dictionaries(model)

    def neuron_zero(parts: np.ndarray) -> list[float]:
        found = find_features(model, pairs, [block], neurons, parts, least=0.6, most=48)
        return [feature.auroc for feature in found if feature.index == 0]

    parts = concept_parts(asked.brand_numbers, pairs.forget.targets)
    assert set(parts[asked.items].tolist()) == {0, 1}
    assert neuron_zero(np.minimum(parts, 0)) == [], "over both brands at once it cannot pass"
    (auroc,) = neuron_zero(parts)
    assert auroc > 0.8
    progress = Progress()
    config = LOOSE.model_copy(update={"dictionary": "neurons", "auroc": 0.6, "pairs": 1000})
    Pisces(config).unlearn(model, asked, progress)
    assert progress.notes["concept_parts"] == 2
    assert 0 < progress.notes["features_kept"] <= progress.notes["features_found"]
    assert "retain_drop" not in PiscesConfig.model_fields


def test_brands_with_few_pairs_are_one_part() -> None:
    brands = np.array([0, 0, 1, 2, 3, -1])
    targets = np.repeat([0, 2, 3, 4], [16, 3, 40, 15])
    assert concept_parts(brands, targets).tolist() == [0, 0, 2, 1, 2, -1]
    single = np.array([0, -1, 0])
    assert concept_parts(single, np.array([0])).tolist() == [0, -1, 0]


def test_concepts_whose_first_codes_no_retain_item_shares_have_pairs() -> None:
    asked, codes = request(), planted.sids().codes[:, 0].copy()
    codes[asked.items] += 100
    pairs = matched_pairs(asked.train, codes, 4, count=1000, seed=0)
    assert len(pairs.forget) == len(asked.train.forget)


def test_category_features_are_no_concept_features() -> None:
    asked, table = request(), planted.sids()
    pairs = matched_pairs(asked.train, table.codes[:, 0], 4, count=1000, seed=0)
    assert len(pairs.forget) > 100
    np.testing.assert_array_equal(table.codes[pairs.forget.targets, 0], table.codes[pairs.retain.targets, 0])
    np.testing.assert_array_equal(pairs.forget.history_lengths(4), pairs.retain.history_lengths(4))

    def category(part: Examples) -> np.ndarray:
        return np.eye(16, dtype=np.float32)[table.codes[part.targets, 0]]

    assert aurocs(category(asked.train.forget), category(asked.train.retain)).max() > 0.65
    assert (aurocs(category(pairs.forget), category(pairs.retain)) == 0.5).all()


def test_aurocs_count_ties_half() -> None:
    positive, negative = np.array([[0, 3], [2, 1]], np.float32), np.array([[0, 2], [1, 2]], np.float32)
    np.testing.assert_allclose(aurocs(positive, negative), [(0.5 + 0 + 1 + 1) / 4, (1 + 1 + 0 + 0) / 4])


def test_the_encoders_lens_is_the_gradient() -> None:
    """A little of a direction added at every position of the encoder moves the likelihood as ``output_pull`` says."""
    model, _ = written()
    pairs = matched_pairs(request().train, model.sids.codes[:, 0], 4, count=30, seed=0)
    block = anatomy(model).encoder[0]
    pull = output_pull(model, pairs, [block], np.zeros(len(pairs.forget), dtype=np.int64))[0][0]
    direction = F.normalize(torch.randn(32, generator=torch.Generator().manual_seed(3)), dim=0)

    def likelihood(part: Examples) -> float:
        with torch.no_grad():
            output = model.forward(part.histories(4), part.targets)
        return float(output.token_log_probs()[:, :3].double().sum(1).mean())

    values = []
    for step in (0.05, -0.05):
        handle = block.mlp.register_forward_hook(lambda m, i, out, step=step: out + step * direction)
        values.append(likelihood(pairs.forget) - likelihood(pairs.retain))
        handle.remove()
    assert float(pull @ direction) == pytest.approx((values[0] - values[1]) / 0.1, rel=0.05, abs=1e-3)


def effect(forget: float, retain: float, similar: float = 1.0) -> Effect:
    return Effect(forget, retain, similar)


def test_the_harmonic_mean_is_zero_as_soon_as_one_part_is() -> None:
    assert effect(1.0, 1.0).harmonic == 0
    assert effect(0.0, 0.0).harmonic == 0
    assert effect(0.5, 2.0, 0.5).harmonic == pytest.approx(3 / (2 + 1 + 2))


def test_the_search_prunes_dominated_corners_and_is_decided_by_its_seed() -> None:
    def run(seed: int, floor: float = 0.75) -> tuple[list[tuple[float, float]], tuple[float, float] | None]:
        looked: list[tuple[float, float]] = []

        def measure(tau: float, mu: float) -> Effect:
            looked.append((tau, mu))
            strength = (TAUS.index(tau) + MUS.index(mu)) / 18
            return effect(1 - strength, 1.1 - strength)

        best = search_cells(measure, numpy_generator(seed, "x"), evaluations=24, too_weak=0.75, too_strong=floor)
        return looked, None if best is None else (best.tau, best.mu)

    looked, best = run(0)
    assert run(0) == (looked, best)
    assert run(1)[0] != looked
    assert len(looked) <= 24
    assert best is not None
    assert 1.1 - (TAUS.index(best[0]) + MUS.index(best[1])) / 18 >= 0.75, "a cell that costs too much is not chosen"
    for number, (tau, mu) in enumerate(looked):
        for before_tau, before_mu in looked[:number]:
            strength = TAUS.index(before_tau) + MUS.index(before_mu)
            weaker = TAUS.index(tau) <= TAUS.index(before_tau) and MUS.index(mu) <= MUS.index(before_mu)
            stronger = TAUS.index(tau) >= TAUS.index(before_tau) and MUS.index(mu) >= MUS.index(before_mu)
            assert not (weaker and 1 - strength / 18 > 0.75)
            assert not (stronger and 1.1 - strength / 18 < 0.75)
    assert run(0, floor=2.0)[1] is None


def test_an_edit_that_is_too_weak_is_never_the_best() -> None:
    """As in the official code; a weak edit can have the highest harmonic mean of all."""

    def measure(forget: float) -> tuple[GridPoint | None, int]:
        looked: list[float] = []

        def one(tau: float, mu: float) -> Effect:
            looked.append(tau)
            return effect(forget, 1.0)

        generator = numpy_generator(0, "x")
        best = search_cells(one, generator, evaluations=200, too_weak=0.75, too_strong=0.9)
        return best, len(looked)

    best, count = measure(0.76)
    assert best is None
    assert count < 100, "weaker ones are not looked at"
    best, count = measure(0.75)
    assert best is not None
    assert best.effect.forget == 0.75
    assert count == 100


@pytest.mark.parametrize(
    "limits",
    [{"sae_steps": 0, "sae_k": 1, "fvu_ceiling": 1e-3}, {"fvu_ceiling": 9.0, "splice_floor": 1e9}],
    ids=["variance", "ranking"],
)
def test_where_no_dictionary_is_accepted_the_model_comes_back_unchanged(limits: dict[str, float]) -> None:
    model, _ = written()
    progress = Progress()
    config = TINY.model_copy(update=limits)
    after = Pisces(config).unlearn(model, request(), progress)
    assert after is not model
    assert progress.notes["applicable"] is False
    assert progress.notes["layers"] == []
    state = model.module.state_dict()
    assert all(torch.equal(tensor, state[name]) for name, tensor in after.module.state_dict().items())


FAMILIES = ["t5", "causal", "causal ragged", "p5 sequential", "p5 collaborative"]


def family(name: str) -> Recommender:
    torch.set_num_threads(1)
    if name == "t5":
        return written()[0]
    if name.startswith("p5"):
        return p5.recommender(name.removeprefix("p5 "))
    return causal.scratch(ragged=name == "causal ragged")


@pytest.mark.slow
@pytest.mark.parametrize("dictionary", ["sae", "neurons"])
@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_edited_in_its_value_vectors_and_nowhere_else(name: str, dictionary: str) -> None:
    model = family(name)
    asked = request(items=len(model.sids))
    before = {key: tensor.clone() for key, tensor in model.module.state_dict().items()}
    learned = [parameter.requires_grad for parameter in model.module.parameters()]
    config = LOOSE.model_copy(update={"dictionary": dictionary})
    results = []
    for _ in range(2):
        progress = Progress()
        after = Pisces(config).unlearn(model, asked, progress)
        results.append((after.module.state_dict(), progress.notes))
    values = {f"{b.name}.{suffix}" for b in (*anatomy(model).encoder, *anatomy(model).decoder) for suffix in _down(b)}
    changed = {key for key, tensor in results[0][0].items() if not torch.equal(tensor, before[key])}
    assert changed <= values
    assert (results[0][1]["edited_vectors"] == 0) == (not changed)
    assert results[0][1]["applicable"] is True
    assert results[0][1] == results[1][1]
    assert all(torch.equal(tensor, results[1][0][key]) for key, tensor in results[0][0].items())
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.module.state_dict().items())
    assert [parameter.requires_grad for parameter in after.module.parameters()] == learned
    assert not any(part._forward_hooks for part in (*model.module.modules(), *after.module.modules()))
    assert len(after.recommend(asked.valid.retain.histories(4), 5, beam=5)) == len(asked.valid.retain)


def _down(block) -> list[str]:  # type: ignore[no-untyped-def]
    found = [name for name, part in block.module.named_modules() if part is block.down]
    return [f"{found[0]}.weight"]


def test_requests_without_a_concept_use_the_items_of_their_pairs() -> None:
    model, asked = written()[0], request()
    rows = np.arange(0, len(asked.train.forget), 4)
    forget = asked.train.forget.subset(rows)
    pairs = np.stack([forget.users, forget.targets], axis=1)
    single = replace(
        asked,
        kind=ConceptKind.INTERACTION,
        items=np.zeros_like(asked.items),
        pairs=pairs,
        train=Groups(forget, asked.train.retain),
        valid=Groups(forget.subset(np.arange(5)), asked.valid.retain),
    )
    progress = Progress()
    Pisces(LOOSE).unlearn(model, single, progress)
    assert progress.notes["matched_pairs"] > 0


def test_the_coarse_variant_is_named() -> None:
    assert Pisces.variants["pisces-neuron"] == {"dictionary": "neurons"}
    assert PiscesConfig(**Pisces.variants["pisces-neuron"]).dictionary == "neurons"
