"""Expert and novice contexts, guided targets and guided decoding, against hand computations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from genrec_unlearn_bench.data.examples import PAD, Histories
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.decoding.beam import beam_search
from genrec_unlearn_bench.decoding.trie import Trie
from genrec_unlearn_bench.methods.elm import guided_targets, tempered
from genrec_unlearn_bench.unlearning.guidance import Contexts, GuidedSession, guided_items
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import positive_set
from tests import planted
from tests.backbones.p5sid.models import recommender

torch.set_num_threads(1)
MARKED = planted.concept()
LISTS = [[3, 0, 1, 11, 2, 4], [0, 1], [3, 11], [], [0, 1, 2, 4, 5], [3]]
ROWS = Histories.of(LISTS, users=range(6))


def request(kind: ConceptKind = ConceptKind.BRAND) -> ForgetRequest:
    train, valid = (planted.examples(planted.sequences(n, 7, s)) for n, s in ((40, 1), (10, 2)))
    single = kind is ConceptKind.INTERACTION
    hit = np.arange(len(train)) % 9 == 0
    pairs = np.stack([train.users[hit], train.targets[hit]], 1)
    return ForgetRequest(
        catalogue=planted.catalogue(),
        kind=kind,
        items=np.zeros_like(MARKED) if single else MARKED,
        pairs=pairs if single else np.zeros((0, 2), dtype=np.int64),
        train=Groups(train.subset(hit), train.subset(~hit)) if single else planted.groups(train, MARKED),
        valid=planted.groups(valid, MARKED),
        features=planted.features(planted.sids()),
        seed=0,
    )


def contexts(asked: ForgetRequest, count: int = 3) -> Contexts:
    return Contexts(asked, planted.sids(), count=count)


def test_contexts_are_as_long_as_the_history_and_hold_what_they_should() -> None:
    drawn = contexts(request()).draw(ROWS, np.random.default_rng(0))
    expert, novice = drawn.expert.items, drawn.novice.items
    for part in (expert, novice):
        np.testing.assert_array_equal(part == PAD, ROWS.items == PAD)
    nearest = positive_set(request().features, planted.sids(), np.array([3, 11]), MARKED, 1)[:, 0]
    # The three oldest items that are no concept items give way, concept items and the rest stay.
    assert MARKED[expert[0, [0, 1, 2, 3, 4]]].all()
    np.testing.assert_array_equal(expert[0, [0, 3, 5]], [3, 11, 4])
    np.testing.assert_array_equal(novice[0], [nearest[0], 0, 1, nearest[1], 2, 4])
    assert MARKED[expert[1, :2]].all(), "fewer than m: all there are"
    assert not MARKED[novice[1, :2]].any()
    np.testing.assert_array_equal(expert[2, :2], [3, 11], "nothing but concept items")
    np.testing.assert_array_equal(novice[2, :2], nearest)
    np.testing.assert_array_equal(expert[4, 3:5], [4, 5])
    np.testing.assert_array_equal(novice[4, 3:5], [4, 5], "without concept items, as many are replaced as in the other")
    assert not MARKED[novice[novice != PAD]].any()
    np.testing.assert_array_equal(drawn.base.items, ROWS.items)


def test_every_draw_is_new_and_repeats_with_the_seed() -> None:
    made = contexts(request())
    first, again = (made.draw(ROWS, np.random.default_rng(1)).expert.items for _ in range(2))
    np.testing.assert_array_equal(first, again)
    generator = np.random.default_rng(1)
    assert any((made.draw(ROWS, generator).expert.items != first).any() for _ in range(3))


def test_single_interactions_are_a_concept_for_their_own_user_alone() -> None:
    pairs = np.array([[0, 1], [0, 5], [2, 3]])
    asked = replace(request(ConceptKind.INTERACTION), pairs=pairs)
    same = Histories.of([[1, 2, 9, 8]] * 3, users=[0, 1, 2])
    drawn = contexts(asked).draw(same, np.random.default_rng(0))
    assert set(drawn.expert.items[0]) <= {1, 5}
    np.testing.assert_array_equal(drawn.expert.items[1], same.items[1], "user 1 asked for nothing")
    np.testing.assert_array_equal(drawn.expert.items[2], [3, 3, 3, 8])
    assert drawn.novice.items[0, 0] not in (1, 5, 3)
    np.testing.assert_array_equal(drawn.novice.items[0, 1:], same.items[0, 1:])
    assert drawn.novice.items[1, 3] == 8


def random_logs(*shape: int, seed: int = 0) -> Tensor:
    return (3 * torch.randn(shape, generator=torch.Generator().manual_seed(seed))).log_softmax(-1).double()


@pytest.mark.parametrize("floor", [0.0, 0.05])
def test_equal_contexts_or_no_eta_give_the_top_of_the_original(floor: float) -> None:
    base, other, third = random_logs(5, 4, 40), random_logs(5, 4, 40, seed=1), random_logs(5, 4, 40, seed=2)
    own = base.argsort(-1)[..., 5]
    same = guided_targets(base, other, other, own, eta=1000.0, top=7, floor=floor)
    none = guided_targets(base, other, third, own, eta=0.0, top=7, floor=floor)
    kept = base.exp() >= base.exp().topk(7, -1).values[..., -1:]
    kept &= base.exp() >= floor * base.exp().amax(-1, keepdim=True)
    expected = base.masked_fill(~kept, -torch.inf).softmax(-1)
    assert torch.equal(same, none)
    torch.testing.assert_close(same, expected, rtol=0, atol=1e-15)


def test_targets_turn_from_what_the_expert_likes_and_stay_plausible_and_legal() -> None:
    base = torch.tensor([0.4, 0.3, 0.2, 0.099, 0.001]).log()
    base = torch.cat([base, torch.tensor([-torch.inf])])
    expert = torch.tensor([0.8, 0.1, 0.05, 0.049, 0.001, 0.0]).log()
    novice = torch.tensor([0.1, 0.2, 0.5, 0.1, 0.1, 0.0]).log()
    own = torch.tensor(0)
    made = guided_targets(base, expert, novice, own, eta=1.0, top=50, floor=0.05)
    before = base.exp()
    assert made[0] < before[0]
    assert made[2] > before[2]
    assert made[4] == 0, "implausible, although the novice prefers it most"
    assert made[5] == 0, "no code of this level"
    free = guided_targets(base, expert, novice, own, eta=1000.0, top=50)
    np.testing.assert_allclose(free.numpy(), np.eye(6)[4], atol=1e-9)  # the official η: one dead code, for certain


def test_where_the_model_is_sure_of_the_target_the_target_does_not_set_the_mark() -> None:
    """Against the overall maximum nothing but the forgotten code would be left, and erasing would teach it."""
    base = torch.tensor([0.99, 0.006, 0.004]).log()
    expert, novice = torch.tensor([0.995, 0.003, 0.002]).log(), torch.tensor([0.6, 0.3, 0.1]).log()
    made = guided_targets(base, expert, novice, torch.tensor(0), eta=3.0, top=50, floor=0.05)
    assert made[0] < 0.05
    assert guided_targets(base, expert, novice, torch.tensor(1), eta=3.0, top=50, floor=0.05)[0] == 1


def test_temperature_is_that_of_the_logits() -> None:
    logits = torch.randn(3, 9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(
        tempered(logits.log_softmax(-1), 1.2), (logits.double() / 1.2).log_softmax(-1), atol=1e-6, rtol=0
    )


class Table:
    """A session that looks its logits up by the last token; beams are remembered by nobody."""

    def __init__(self, seed: int, batch: int = 2, vocabulary: int = 9) -> None:
        draw = torch.Generator().manual_seed(seed)
        self.first = torch.randn(batch, vocabulary, generator=draw)
        self.next = torch.randn(batch, vocabulary, vocabulary, generator=draw)

    def start_window(self, window: slice) -> Tensor:
        return self.first.log_softmax(-1)[..., window]

    def step_window(self, parents: Tensor, tokens: Tensor, window: slice) -> Tensor:
        chosen = torch.stack([self.next[row][tokens[row]] for row in range(len(tokens))])
        return chosen.log_softmax(-1)[..., window]


def test_the_guided_session_is_the_formula_and_the_search_finds_its_best_path() -> None:
    parts = [Table(seed) for seed in (1, 2, 3)]
    session = GuidedSession(*parts, weight=3.0)
    codes = np.array([[0, 0], [0, 1], [1, 2], [2, 0], [2, 2], [1, 0]])
    offsets, sizes = (3, 6), (3, 3)

    def combined(values: list[Tensor], first: int) -> Tensor:
        p0, expert, novice = (v[..., first : first + 3].log_softmax(-1) for v in values)
        return (p0 - 3 * (expert - novice)).log_softmax(-1)

    start = combined([p.first for p in parts], 3)
    torch.testing.assert_close(session.start_window(slice(3, 6)), start)
    second = torch.stack([combined([p.next[:, 3 + a] for p in parts], 6) for a in range(3)], 1)
    scores = torch.stack([start[:, a] + second[:, a, b] for a, b in codes], 1)
    trie = Trie.build(codes, sizes, blocked=np.array([False] * 4 + [True, False]))
    scores[:, 4] = -torch.inf
    found = beam_search(session, trie, offsets, beam=5)
    np.testing.assert_array_equal(trie.items[found.leaves[:, 0].numpy()], scores.argmax(1).numpy())
    torch.testing.assert_close(found.log_probs[:, 0], scores.amax(1))


def test_implausible_tokens_come_last_and_unguided() -> None:
    base = torch.tensor([[5.0, 4.0, -9.0, -8.0]])
    expert, novice = torch.tensor([[0.0, 0.0, -9.0, 0.0]]), torch.tensor([[0.0, 0.0, 9.0, 0.0]])
    parts = []
    for logits in (base, expert, novice):
        part = Table(0, 1, 4)
        part.first = logits
        parts.append(part)
    free, held = (GuidedSession(*parts, weight=3.0, floor=floor).start_window(slice(0, 4))[0] for floor in (0.0, 0.05))
    assert free.argmax() == 2
    assert held.argsort(descending=True).tolist() == [0, 1, 3, 2]


@pytest.mark.parametrize("kind", [ConceptKind.BRAND, ConceptKind.INTERACTION])
@pytest.mark.parametrize("tree", ["rqvae", "sequential", "collaborative"])
def test_guided_items_are_leaves_that_nobody_asked_to_forget(tree: str, kind: ConceptKind) -> None:
    model, asked = recommender(tree), request(kind)
    made, part = Contexts(asked, model.sids, count=3), asked.train.forget
    histories = part.histories(model.history_limit)
    found = guided_items(model, histories, made, np.random.default_rng(0), weight=3.0, floor=0.05)
    assert found.shape == (len(part),)
    sid = [tuple(code) for code in model.sids.codes]
    if kind is ConceptKind.BRAND:
        assert not {sid[item] for item in found} & {sid[item] for item in asked.item_ids}
    else:
        own = {(int(user), sid[item]) for user, item in asked.pairs}
        assert not own & {(int(user), sid[item]) for user, item in zip(part.users, found, strict=True)}
    again = guided_items(model, histories, made, np.random.default_rng(0), weight=3.0, floor=0.05)
    np.testing.assert_array_equal(found, again)
