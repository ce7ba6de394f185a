"""History influence: planted rankers that ignore histories, follow the concept, or follow everything."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from genrec_unlearn_bench.data.examples import PAD, Histories
from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.history_influence import matched_places, measure_influence
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.progress import Progress

from .planted import PlantedRanker, PlantedRecommender, context, decode_groups, evaluated, examples, lists, split, table

SIZE = 120
CONCEPT = range(10)
Key = tuple[str, Group, int | None]


def random_histories(rows: int, seed: int, length: int = 6) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, SIZE, size=generator.integers(1, length + 1)).tolist()
        + generator.integers(0, 10, size=generator.integers(0, 3)).tolist()
        for _ in range(rows)
    ]


def planted_task(seed: int = 0, rows: int = 60):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    forget = examples(random_histories(rows, seed + 1), generator.integers(0, 10, size=rows).tolist())
    retain = examples(random_histories(rows, seed + 2), generator.integers(10, SIZE, size=rows).tolist())
    return split(SIZE, forget, retain, concept=CONCEPT)


def start_of(histories: Histories, items: np.ndarray) -> np.ndarray:  # type: ignore[type-arg]
    """A list's first item, as a function of the chosen items of the history alone."""
    weights = np.where((histories.items != PAD) & items[np.maximum(histories.items, 0)], histories.items + 1, 0)
    return np.asarray(weights.sum(axis=1))


def answer_from(mask: np.ndarray):  # type: ignore[no-untyped-def,type-arg]
    def answer(histories: Histories, k: int, beam: int) -> Ranking:
        starts = start_of(histories, mask)
        return lists([[(int(start) * 7 + place) % SIZE for place in range(k)] for start in starts], k)

    return answer


def by_key(values: tuple[MetricValue, ...]) -> dict[Key, MetricValue]:
    return {(v.metric, v.group, v.beam): v for v in values}


def test_a_ranker_that_ignores_histories_is_not_influenced_at_all() -> None:
    ranker = PlantedRanker(lambda histories, k, beam: lists([list(range(SIZE))] * len(histories), k))
    values = by_key(evaluated(context(ranker, planted_task())).values)
    for group in (Group.FORGET, Group.RETAIN):
        for name in ("js", "js-matched", "js-excess", "change@10", "change@10-matched", "change@10-excess"):
            value = values[f"history.{name}", group, 50]
            assert value.value == 0.0
            assert value.n is not None
            assert value.n > 20
        assert values["history.js-excess", group, 50].interval == (0.0, 0.0)


def test_a_ranker_that_reads_the_concept_alone_shows_all_of_it_as_excess() -> None:
    concept = np.zeros(SIZE, dtype=np.bool_)
    concept[list(CONCEPT)] = True
    follower = PlantedRanker(answer_from(concept))
    values = by_key(evaluated(context(follower, planted_task())).values)
    for group in (Group.FORGET, Group.RETAIN):
        forget = values["history.change@10", group, 50].value
        excess = values["history.change@10-excess", group, 50]
        assert forget is not None
        assert forget > 0.4
        assert values["history.js-matched", group, 50].value == 0.0
        assert excess.value == pytest.approx(forget, abs=1e-12)
        assert excess.interval is not None
        assert excess.interval[0] > 0


def test_a_ranker_that_reads_retain_items_alone_shows_none() -> None:
    retain = np.ones(SIZE, dtype=np.bool_)
    retain[list(CONCEPT)] = False
    values = by_key(evaluated(context(PlantedRanker(answer_from(retain)), planted_task())).values)
    for group in (Group.FORGET, Group.RETAIN):
        assert values["history.js", group, 50].value == 0.0
        excess = values["history.js-excess", group, 50]
        assert excess.interval is not None
        assert excess.interval[1] < 0


@pytest.mark.parametrize(("key", "column"), [("js", "js"), ("change@10", "change")])
def test_the_intervals_are_t_intervals_that_of_the_excess_a_paired_one(key: str, column: str) -> None:
    everything = np.ones(SIZE, dtype=np.bool_)
    result = evaluated(context(PlantedRanker(answer_from(everything)), planted_task(3)))
    values = by_key(result.values)
    rows = result.per_user[(result.per_user["group"] == "retain") & (result.per_user["beam"] == 50)]
    forget, control = rows[f"{column}_forget"], rows[f"{column}_matched"]
    for suffix, numbers in (("", forget), ("-matched", control), ("-excess", forget - control)):
        value = values[f"history.{key}{suffix}", Group.RETAIN, 50]
        measured = numbers.dropna().to_numpy()
        interval = ttest_1samp(measured, 0).confidence_interval(0.95)
        assert value.n == len(measured)
        assert value.interval == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_what_is_dropped() -> None:
    marked = np.array([[True, False, False, True], [False, True, False, False]])
    histories = Histories(np.array([[0, 20, 21, 1], [30, 2, PAD, PAD]]), np.array([0, 1]))
    assert histories.without_places(marked).items.tolist() == [[20, 21], [30, PAD]]


def test_each_concept_item_is_paired_with_the_nearest_retain_item() -> None:
    wanted = np.array([[0, 0, 0, 0, 1], [1, 0, 0, 0, 0], [0, 0, 0, 1, 1], [1, 0, 0, 1, 1], [0, 1, 0, 0, 0]], dtype=bool)
    real = np.array([[1] * 5, [1] * 5, [1] * 5, [1] * 5, [1, 1, 0, 0, 0]], dtype=bool)
    places = matched_places(real & ~wanted, wanted, np.random.default_rng(0))
    assert places.astype(int).tolist() == [
        [0, 0, 0, 1, 0],
        [0, 1, 0, 0, 0],
        [0, 1, 1, 0, 0],  # the last one first: both retain items right before them
        [0, 1, 1, 0, 0],  # three wanted, two there
        [1, 0, 0, 0, 0],
    ]


def test_of_two_equally_near_items_either_is_taken_and_never_more_than_were_wanted() -> None:
    generator = np.random.default_rng(1)
    wanted = np.tile(np.array([False, False, True, False, False]), (4000, 1))
    shares = matched_places(~wanted, wanted, generator).mean(axis=0)
    np.testing.assert_allclose(shares, [0, 0.5, 0, 0.5, 0], atol=0.03)
    random = generator.random((2000, 12)) < 0.3
    candidates = ~random & (np.arange(12) < generator.integers(4, 13, size=2000)[:, None])
    places = matched_places(candidates, random, generator)
    assert not (places & ~candidates).any()
    assert (places.sum(axis=1) == np.minimum(random.sum(axis=1), candidates.sum(axis=1))).all()


def test_the_control_stands_where_the_concept_stands_and_not_anywhere() -> None:
    """Concept items are planted late; a uniform control would stand five places earlier in the mean."""
    generator = np.random.default_rng(2)
    wanted = np.zeros((3000, 12), dtype=bool)
    wanted[np.arange(3000), generator.integers(8, 12, size=3000)] = True
    places = matched_places(~wanted, wanted, generator)
    distance = np.abs(wanted.argmax(axis=1) - places.argmax(axis=1))
    assert (distance == 1).all()
    assert abs(wanted.argmax(axis=1).mean() - places.argmax(axis=1).mean()) < 0.3


def test_who_counts_and_who_is_left_out() -> None:
    histories = [
        [50, 51, 52],  # no concept item
        [1, 2, 50],  # two concept items, one other: left out
        [1, 50, 51],  # counts
        [1, 1, 50, 51],  # the same item twice is two places: counts
        [],  # nothing at all
        [3, 50, 51, 52, 53, 54],  # the concept item lies beyond what the model reads
    ]
    task = split(SIZE, examples([], []), examples(histories, [60] * 6), concept=CONCEPT)
    asked: list[list[int]] = []

    def answer(read: Histories, k: int, beam: int) -> Ranking:
        asked.extend(row[row != PAD].tolist() for row in read.items)
        return lists([list(range(SIZE))] * len(read), k)

    ranker = PlantedRecommender(answer, table([[0]] * SIZE), limit=5)
    setting = context(ranker, task)
    _, retain = decode_groups(setting)
    asked.clear()
    influence = measure_influence(setting, retain, Progress())
    assert influence["concept_in_history"].tolist() == [0, 2, 1, 2, 0, 0]
    assert np.isfinite(influence["js_forget"]).tolist() == [False, False, True, True, False, False]
    assert np.isfinite(influence["js_matched"]).tolist() == [False, False, True, True, False, False]
    # Forget drops first (longest first), then the matched ones, each as long as its twin.
    assert sorted(map(sorted, asked[:2])) == [[50, 51], [50, 51]]
    assert sorted(map(len, asked[2:])) == [2, 2]
    assert all(row.count(1) == len([x for x in row if x < 10]) > 0 for row in asked[2:])
    value = by_key(evaluated(setting).values)["history.js", Group.RETAIN, 50]
    assert value.n == 2
    assert value.note is not None
    assert value.note.startswith("1 examples left out")


def test_a_model_served_without_the_concept_items_loses_nothing_by_the_drop() -> None:
    concept = np.zeros(SIZE, dtype=np.bool_)
    concept[list(CONCEPT)] = True
    everything = np.ones(SIZE, dtype=np.bool_)
    ranker = PlantedRecommender(answer_from(everything), table([[0]] * SIZE), limit=4, ignored=concept)
    values = by_key(evaluated(context(ranker, planted_task(5))).values)
    for group in (Group.FORGET, Group.RETAIN):
        assert values["history.js", group, 50].value == 0.0
        assert values["history.change@10", group, 50].value == 0.0
        random = values["history.js-matched", group, 50].value
        assert random is not None
        assert random > 0.1


def test_what_a_filtered_model_reads_is_what_counts() -> None:
    # It reads two items. The concept item of the first history lies before them; in the second it would have been
    # read, had it not been dropped, and 52 is read in its place.
    concept = np.zeros(SIZE, dtype=np.bool_)
    concept[list(CONCEPT)] = True
    asked: list[list[int]] = []

    def answer(read: Histories, k: int, beam: int) -> Ranking:
        asked.extend(row[row != PAD].tolist() for row in read.items)
        return lists([list(range(SIZE))] * len(read), k)

    ranker = PlantedRecommender(answer, table([[0]] * SIZE), limit=2, ignored=concept)
    task = split(SIZE, examples([], []), examples([[3, 50, 51], [53, 52, 3, 50]], [60, 60]), concept=CONCEPT)
    setting = context(ranker, task)
    _, retain = decode_groups(setting)
    asked.clear()
    influence = measure_influence(setting, retain, Progress())
    assert influence["concept_in_history"].tolist() == [0, 1]
    assert influence["js_forget"][1] == 0.0
    # The forget drop asks nothing; the matched one takes one of the two items that are read.
    assert asked in ([[52]], [[50]])


def test_interaction_requests_drop_the_users_own_pairs() -> None:
    # Item 7 is forgotten by user 0 alone: user 1 has it too, and it is nothing special there.
    histories = [[7, 50, 51], [7, 50, 51]]
    task = split(
        SIZE, examples([[60]], [7], users=[0]), examples(histories, [70, 71], users=[0, 1]), pairs=[(0, 7), (1, 9)]
    )
    ranker = PlantedRanker(answer_from(np.ones(SIZE, dtype=np.bool_)))
    setting = context(ranker, task)
    _, retain = decode_groups(setting)
    influence = measure_influence(setting, retain, Progress())
    assert influence["concept_in_history"].tolist() == [1, 0]
    assert np.isfinite(influence["js_forget"]).tolist() == [True, False]


def test_draws_depend_on_the_seed_alone() -> None:
    task = planted_task(8)
    everything = answer_from(np.ones(SIZE, dtype=np.bool_))

    def random_side(seed: int) -> np.ndarray:  # type: ignore[type-arg]
        frame = evaluated(context(PlantedRanker(everything), task, seed=seed)).per_user
        return frame["js_matched"].to_numpy()

    np.testing.assert_array_equal(random_side(0), random_side(0))
    assert not np.array_equal(random_side(0), random_side(1), equal_nan=True)
