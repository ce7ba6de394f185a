"""A forget set in parts: nothing lost, nothing twice, nothing that was forgotten handed out again."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit, Groups
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.pipeline.stages.stream import Stream, divide
from tests.evaluation.planted import examples, item_table, split
from tests.pipeline.stream_world import brands, concept_split, events, interaction_split, rows

KINDS = list(ConceptKind)


def stream_of(kind: ConceptKind, count: int) -> Stream:
    found = interaction_split() if kind is ConceptKind.INTERACTION else concept_split(kind)
    return divide(found, brands(), count)


def data_digest(split: ForgetSplit) -> str:
    """blake2b-128 over everything that a task as it is asked holds: concepts, and the examples of all parts."""
    state = hashlib.blake2b(digest_size=16)
    arrays = [split.items, split.pairs]
    for groups in (split.train, split.valid, split.test):
        for part in (groups.forget, groups.retain):
            arrays += [part.users, part.targets, part.times, part.starts, part.ends, part.events, part.event_users]
    for array in arrays:
        state.update(f"{array.shape}".encode())
        state.update(np.ascontiguousarray(array, dtype="<i8").tobytes())
    return state.hexdigest()


@pytest.mark.parametrize("kind", KINDS)
def test_requests_are_the_forget_set_without_overlap(kind: ConceptKind) -> None:
    stream = stream_of(kind, 4)
    whole = stream.split
    assert np.array_equal(sum(portion.items.astype(int) for portion in stream.requests), whole.items.astype(int))
    pairs = [tuple(pair) for portion in stream.requests for pair in portion.pairs.tolist()]
    assert sorted(pairs) == sorted(map(tuple, whole.pairs.tolist()))
    assert len(set(pairs)) == len(pairs)
    assert sum(portion.interactions for portion in stream.requests) == len(whole.train.forget)
    for part in (whole.train.forget, whole.valid.forget, whole.test.forget):
        assert set(stream.owners(part).tolist()) <= {0, 1, 2, 3}
    assert [portion.number for portion in stream.requests] == [1, 2, 3, 4]
    first = stream.asked(1)
    taken = rows(first.train.forget) + rows(first.train.retain)
    assert sorted(taken) == sorted(rows(whole.train.forget) + rows(whole.train.retain))
    assert len(set(taken)) == len(taken)


@pytest.mark.parametrize("kind", KINDS)
def test_later_requests_are_retain_data_and_earlier_ones_are_gone(kind: ConceptKind) -> None:
    stream = stream_of(kind, 4)
    whole = stream.split
    single = kind is ConceptKind.INTERACTION
    for number in range(1, 5):
        asked = stream.asked(number)
        owners = stream.owners(whole.train.forget)
        assert set(rows(asked.train.forget)) <= set(rows(whole.train.forget.subset(owners == number - 1)))
        retain = set(rows(asked.train.retain))
        assert retain.isdisjoint(rows(whole.train.forget.subset(owners < number)))
        waiting = set(rows(whole.train.forget.subset(owners >= number)))
        # What is left out has nothing but forgotten items in its history.
        assert len(waiting - retain) <= len(waiting) // 5
        assert (number < 4) == bool(waiting)
        gone = stream.so_far(number - 1) if number > 1 else None
        for part in (asked.train, asked.valid):
            for side in (part.forget, part.retain):
                assert (side.ends > side.starts).all()
                met = events(side)
                if gone is not None and single:
                    assert met.isdisjoint(map(tuple, gone.pairs.tolist()))
                elif gone is not None:
                    assert not any(gone.items[item] for _, item in met)
        if not single:
            mine = stream.requests[number - 1].items
            assert not mine[np.concatenate([asked.train.retain.targets, asked.valid.retain.targets])].any()
            assert mine[asked.train.forget.targets].all()
            assert any(mine[item] for _, item in events(asked.train.retain)), "histories keep this request's own items"


def test_validation_of_an_interaction_request_has_no_train_interactions_on_its_retain_side() -> None:
    stream = stream_of(ConceptKind.INTERACTION, 3)
    assert rows(stream.asked(1).valid.retain) == rows(stream.split.valid.retain)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_measured_grows_on_one_side_and_stays_on_the_other(kind: ConceptKind) -> None:
    stream = stream_of(kind, 4)
    sizes = []
    for number in range(1, 5):
        measured = stream.so_far(number)
        assert measured.test.retain is stream.split.test.retain
        assert (stream.owners(measured.test.forget) < number).all()
        sizes.append(len(measured.test.forget))
    assert sizes == sorted(sizes)
    last = stream.so_far(4)
    assert rows(last.test.forget) == rows(stream.split.test.forget)
    assert np.array_equal(last.items, stream.split.items)
    assert sorted(last.pairs.tolist()) == sorted(stream.split.pairs.tolist())


def test_brands_stay_whole_and_are_named() -> None:
    stream = stream_of(ConceptKind.BRAND, 3)
    named = [name for portion in stream.requests for name in portion.names]
    assert sorted(named) == ["brand 0", "brand 1", "brand 2", "brand 3"]
    for portion in stream.requests:
        found = {brands().brands[item] for item in np.flatnonzero(portion.items)}
        assert found == set(portion.names)
        assert portion.concepts == len(portion.names)


def test_users_stay_whole() -> None:
    stream = stream_of(ConceptKind.INTERACTION, 5)
    users = [set(portion.pairs[:, 0].tolist()) for portion in stream.requests]
    assert sum(map(len, users)) == len(set.union(*users))
    assert [portion.concepts for portion in stream.requests] == [len(found) for found in users]
    assert not any(portion.items.any() for portion in stream.requests)


def sized(sizes: list[int], digest: str = "") -> ForgetSplit:
    """An item for every size, with so many forget examples; and one retain item."""
    targets = [item for item, size in enumerate(sizes) for _ in range(size)]
    other = len(sizes)
    forget = examples([[other]] * len(targets), targets)
    retain = examples([[other]] * 3, [other] * 3)
    found = split(other + 1, forget, retain, concept=range(other))
    return replace(found, kind=ConceptKind.ITEM, manifest=found.manifest.model_copy(update={"digest": digest}))


def test_requests_are_as_even_as_concepts_allow() -> None:
    stream = divide(sized([9, 1, 2, 3, 4, 5]), item_table(7), 3)
    assert sorted(portion.interactions for portion in stream.requests) == [7, 8, 9]
    [alone] = [portion for portion in stream.requests if portion.interactions == 9]
    assert np.flatnonzero(alone.items).tolist() == [0]


def test_concepts_without_train_interactions_are_asked_along_with_others() -> None:
    stream = divide(sized([2, 0, 2, 0]), item_table(5), 2)
    assert sorted(portion.interactions for portion in stream.requests) == [2, 2]
    assert sum(int(portion.items.sum()) for portion in stream.requests) == 4
    with pytest.raises(UsageError, match="has 2 items with train interactions, so it cannot be asked in 3 requests"):
        divide(sized([2, 0, 2, 0]), item_table(5), 3)


def test_the_order_is_drawn_for_the_task_and_the_same_each_time() -> None:
    def order(digest: str) -> list[int]:
        stream = divide(sized([5, 4, 3, 2, 1], digest), item_table(6), 5)
        return [int(np.flatnonzero(portion.items)[0]) for portion in stream.requests]

    assert order("a") == order("a")
    drawn = {tuple(order(str(number))) for number in range(60)}
    assert len(drawn) > 10
    assert len({first for first, *_ in drawn}) == 5, "no concept always comes first"


@pytest.mark.parametrize(
    ("kind", "words", "there"), [("brand", "brands", 4), ("item", "items", 8), ("price", "items", 8)]
)
def test_more_requests_than_concepts_are_refused_with_their_number(kind: str, words: str, there: int) -> None:
    found = concept_split(ConceptKind(kind))
    with pytest.raises(UsageError, match=f"has {there} {words} with train interactions") as told:
        divide(found, brands(), there + 1)
    assert told.value.hint is not None
    assert f"--requests {there} at most" in told.value.hint
    assert len(divide(found, brands(), there).requests) == there


def test_sides_with_events_of_their_own_are_joined_with_the_right_histories() -> None:
    found = concept_split(ConceptKind.ITEM)
    apart = replace(found.train.forget, events=found.train.forget.events.copy(), starts=found.train.forget.starts + 0)
    # Other events in front, so that the two sides share none.
    shifted = replace(
        apart,
        events=np.concatenate([[63, 63], apart.events]),
        event_users=np.concatenate([[0, 0], apart.event_users]),
        starts=apart.starts + 2,
        ends=apart.ends + 2,
    )
    one = divide(found, brands(), 2).asked(1).train.retain
    two = divide(replace(found, train=Groups(shifted, found.train.retain)), brands(), 2).asked(1).train.retain
    assert len(two.events) > len(one.events)
    assert np.array_equal(one.histories().items, two.histories().items)
    assert rows(one) == rows(two)


def test_the_digest_is_of_what_is_asked_and_of_nothing_else() -> None:
    stream = stream_of(ConceptKind.BRAND, 4)
    again = stream_of(ConceptKind.BRAND, 4)
    digests = [data_digest(stream.asked(number)) for number in range(1, 5)]
    assert digests == [data_digest(again.asked(number)) for number in range(1, 5)]
    assert len(set(digests)) == 4
    moved = replace(
        stream.split, train=Groups(stream.split.train.forget, stream.split.train.retain.subset(np.arange(9)))
    )
    assert data_digest(moved) != data_digest(stream.split)
