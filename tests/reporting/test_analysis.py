"""The statistics of a table's cells on planted cases: families, marks, verdicts and equivalence by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Mark, Unmarked, Verdict, analyse
from genrec_unlearn_bench.reporting.board import Board, Row
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.statistics.paired import holm, paired_tests
from tests.reporting.planting import FORGET, RETAIN, board_of, measure, plant, rows

ORIGINAL = [0.50, 0.51, 0.49, 0.52, 0.48]


def analysed(board: Board, *measures: Measure, baseline: str | None = None) -> BlockAnalysis:
    shown = measures or (FORGET, RETAIN)
    return analyse(board, statistics_protocol(1), measures=shown, baseline=baseline).blocks[0]


def row_of(found: BlockAnalysis, label: str) -> Row:
    return next(row for row in found.block.rows if row.label == label)


def cell(found: BlockAnalysis, label: str, measure_: Measure = FORGET) -> object:
    return found.cells[label, measure_]


def test_means_spreads_and_intervals_are_scipys() -> None:
    numbers = [0.1, 0.14, 0.11, 0.2, 0.13]
    found = analysed(board_of(rows(tracer=numbers))).cells["tracer", FORGET]
    low, high = stats.t.interval(0.95, 4, loc=np.mean(numbers), scale=stats.sem(numbers))
    assert (found.mean, found.sd) == (pytest.approx(np.mean(numbers)), pytest.approx(np.std(numbers, ddof=1)))
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert found.n == 5
    assert found.seeds == tuple(numbers)


def test_the_test_against_the_baseline_is_paired_and_corrected_over_rows_and_primary_measures() -> None:
    a, b = [0.30, 0.33, 0.29, 0.31, 0.30], [0.49, 0.52, 0.48, 0.50, 0.50]
    board = board_of(
        plant("original", {"forget:hr@10": ORIGINAL, "retain:ndcg@10": [0.2, 0.21, 0.2, 0.22, 0.2]}),
        plant("a", {"forget:hr@10": a, "retain:ndcg@10": [0.19, 0.2, 0.2, 0.2, 0.18]}),
        plant("b", {"forget:hr@10": b, "retain:ndcg@10": [0.2, 0.2, 0.21, 0.2, 0.2]}),
    )
    found = analysed(board)
    raw = {
        (label, each): stats.ttest_rel(
            [result.values[each] for result in row_of(found, label).results.values()],
            [result.values[each] for result in row_of(found, "original").results.values()],
        ).pvalue
        for label in ("a", "b")
        for each in (FORGET, RETAIN)
    }
    order = sorted(raw, key=lambda key: raw[key])
    corrected, last = {}, 0.0
    for place, key in enumerate(order):
        last = max(last, min(1.0, raw[key] * (len(order) - place)))
        corrected[key] = last
    for key in raw:
        difference = found.cells[key].difference
        assert difference is not None
        assert difference.p == pytest.approx(raw[key])
        assert difference.p_holm == pytest.approx(corrected[key])
        assert difference.p_sign_flip is None
    assert found.against_baseline == 4
    assert found.pairs == 2
    assert found.cells["a", FORGET].difference.verdict is Verdict.BETTER  # type: ignore[union-attr]


def test_an_exploratory_measure_is_corrected_together_with_the_primary_ones() -> None:
    first, second = measure("forget:ndcg@10"), measure("forget:hr@5")
    names = ("forget:hr@10", "forget:ndcg@10", "forget:hr@5")
    better = [0.3, 0.33, 0.29, 0.31, 0.3]
    board = board_of(plant("original", dict.fromkeys(names, ORIGINAL)), plant("a", dict.fromkeys(names, better)))
    found = analysed(board, FORGET, first, second)
    assert found.primary == (FORGET, RETAIN)
    assert found.against_baseline == 1
    # The same numbers thrice: one test among the primary measures, two with a further one, which ever else is shown.
    alone = analysed(board, FORGET, first).cells["a", first].difference
    assert found.cells["a", first].difference == alone
    for each, tests in ((FORGET, 1), (first, 2), (second, 2)):
        difference = found.cells["a", each].difference
        assert difference is not None
        assert difference.p is not None
        assert difference.p_holm == pytest.approx(tests * difference.p)


def test_a_ranked_baseline_is_tested_among_all_pairs() -> None:
    def spread(by: float) -> list[float]:
        return [x - by * (1 + 0.1 * i) for i, x in enumerate(ORIGINAL)]

    board = board_of(*(plant(f"m{i}", {"forget:hr@10": spread(0.01 * i * i)}) for i in range(4)))
    found = analysed(board, FORGET, baseline="m1")
    assert found.against_baseline == found.pairs == 6
    raw = sorted(
        paired_tests([np.subtract(spread(0.01 * i * i), spread(0.01 * j * j))]).p[0]
        for i in range(4)
        for j in range(i + 1, 4)
    )
    corrected = holm(raw)
    for name in ("m0", "m2", "m3"):
        difference = found.cells[name, FORGET].difference
        assert difference is not None
        assert difference.p_holm == pytest.approx(corrected[int(np.argmin(np.abs(raw - np.float64(difference.p))))])
    assert found.cells["m1", FORGET].difference is None


def test_a_gap_is_compared_by_its_magnitude() -> None:
    gap = measure("forget:gap.history.js/50")
    truth = [0.0] * 5
    planted = {"retrain": truth, "original": [0.1, 0.12, 0.11, 0.1, 0.12], "a": [-0.01, -0.02, -0.01, -0.03, -0.02]}
    board = board_of(*(plant(name, {"forget:history.js/50": values}) for name, values in planted.items()))
    difference = analysed(board, gap).cells["a", gap].difference
    assert difference is not None
    distance = np.abs(planted["a"]) - np.abs(planted["original"])
    expected = paired_tests([distance])
    assert difference.estimate == pytest.approx(distance.mean())
    assert (difference.low, difference.high) == pytest.approx((expected.low[0], expected.high[0]))
    assert difference.p == pytest.approx(expected.p[0])
    assert difference.verdict is Verdict.BETTER


def test_lower_is_better_on_the_forget_side_and_higher_on_the_retain_side() -> None:
    values = {
        "low": [0.10, 0.11, 0.10, 0.12, 0.10],
        "middle": [0.25, 0.26, 0.24, 0.25, 0.26],
        "high": [0.40, 0.42, 0.39, 0.41, 0.40],
    }
    found = analysed(board_of(*(plant(name, {"forget:hr@10": v, "retain:ndcg@10": v}) for name, v in values.items())))
    marks = {each: {name: found.cells[name, each].mark.value for name in values} for each in (FORGET, RETAIN)}
    assert marks[FORGET] == {"low": "best", "middle": "second", "high": "plain"}
    assert marks[RETAIN] == {"low": "plain", "middle": "second", "high": "best"}
    assert found.cells["low", FORGET].rank == (1, 1)
    assert found.cells["low", RETAIN].rank == (3, 3)


def test_the_best_set_holds_all_that_are_not_separable_from_the_best_and_the_second_follows() -> None:
    noise = np.array([0.0, 0.01, -0.01, 0.005, -0.005])
    turned = noise[::-1]
    found = analysed(
        board_of(
            rows(
                best=list(0.1 + noise),
                tied=list(0.101 + turned),
                second=list(0.3 + 1.1 * noise),
                third=list(0.5 + noise + 0.001 * turned),
                fourth=list(0.6 + 1.4 * noise + 0.001 * turned),
                fifth=list(0.7 + 1.8 * noise + 0.001 * turned),
            )
        )
    )
    marks = {row.label: found.cells[row.label, FORGET].mark.value for row in found.block.rows}
    assert marks == dict.fromkeys(("third", "fourth", "fifth"), "plain") | {
        "best": "best",
        "tied": "best",
        "second": "second",
    }
    assert found.unmarked[FORGET] is None
    ranks = {row.label: found.cells[row.label, FORGET].rank for row in found.block.rows}
    assert ranks == {
        "best": (1, 2),
        "tied": (1, 2),
        "second": (3, 3),
        "third": (4, 4),
        "fourth": (5, 5),
        "fifth": (6, 6),
    }
    letters = {row.label: set(found.cells[row.label, FORGET].letters) for row in found.block.rows}
    assert letters["best"] & letters["tied"]
    assert not letters["best"] & letters["second"]
    assert not letters["second"] & letters["third"]


def test_where_all_are_tied_nothing_is_marked() -> None:
    found = analysed(board_of(rows(a=[0.1, 0.3, 0.2], b=[0.3, 0.1, 0.2], c=[0.2, 0.2, 0.21])))
    assert {found.cells[label, FORGET].mark for label in "abc"} == {Mark.PLAIN}
    assert found.unmarked[FORGET] is Unmarked.TIED
    assert all(found.cells[label, FORGET].rank is None for label in "abc"), "every rank is open to each of them"
    assert all(not found.cells[label, FORGET].letters for label in "abc"), "all would share one"


NOISE = np.array([0.0, 0.01, -0.01, 0.005, -0.005])


def marked(**values: np.ndarray) -> tuple[Unmarked | None, dict[str, str]]:
    found = analysed(board_of(rows(**{name: list(numbers) for name, numbers in values.items()})))
    marks = {row.label: found.cells[row.label, FORGET].mark.value for row in found.block.rows}
    return found.unmarked[FORGET], {name: mark for name, mark in marks.items() if mark != "plain"}


def test_a_best_set_of_more_than_a_third_is_not_marked() -> None:
    worse = {f"m{i}": 0.4 + 0.1 * i + NOISE[::-1] for i in range(3)}
    why, marks = marked(a=0.1 + NOISE, b=0.1005 + NOISE[::-1], **worse)
    assert (why, marks) == (Unmarked.LARGE, {})


def test_a_best_set_with_a_row_that_is_worse_than_the_baseline_is_not_marked() -> None:
    worse = {f"m{i}": 0.4 + 0.1 * i + NOISE[::-1] for i in range(5)}
    assert marked(original=0.3 + NOISE, a=0.1 + NOISE, **worse)[1]["a"] == "best"
    assert marked(original=0.01 + 1.3 * NOISE[::-1], a=0.1 + NOISE, **worse) == (Unmarked.WORSE, {})


def test_a_best_set_that_skips_a_better_mean_is_not_marked() -> None:
    worse = {f"m{i}": 0.8 + 0.1 * i + NOISE[::-1] for i in range(5)}
    wild = np.array([0.05, 0.6, 0.1, 0.7, 0.3])
    assert marked(a=0.1 + NOISE, b=0.2 + NOISE[::-1], wild=wild, **worse) == (Unmarked.UNORDERED, {})


def test_untested_measures_have_means_and_are_in_no_family() -> None:
    cost = measure("cost.unlearn-seconds")
    board = board_of(
        *(plant(name, {"forget:hr@10": ORIGINAL, "cost.unlearn-seconds": ORIGINAL}) for name in ("original", "a", "b"))
    )
    found = analyse(board, statistics_protocol(1), measures=(FORGET, cost), untested=frozenset({cost})).blocks[0]
    assert found.cells["a", cost].mean == pytest.approx(np.mean(ORIGINAL))
    assert found.cells["a", cost].difference is None
    assert cost not in found.unmarked


def test_near_the_oracle_is_best_for_a_gap_on_either_side() -> None:
    gap = measure("forget:gap.hr@10")
    retrain = [0.10, 0.12, 0.11, 0.09, 0.10]
    near = [x - 0.01 - 0.001 * i for i, x in enumerate(retrain)]
    far = [x + 0.3 + 0.01 * i for i, x in enumerate(retrain)]
    farther = [x + 0.5 + 0.02 * i for i, x in enumerate(retrain)]
    found = analysed(board_of(rows(retrain=retrain, near=near, far=far, farther=farther)), gap)
    assert found.cells["near", gap].mark is Mark.BEST
    assert found.cells["near", gap].mean == pytest.approx(-0.012)
    assert found.cells["far", gap].mark is Mark.SECOND


def test_references_and_diverged_rows_are_neither_ranked_nor_tested() -> None:
    good = [0.1, 0.11, 0.12, 0.1, 0.11]
    diverged = [
        *plant("npo", {"forget:hr@10": good[:4]}),
        *plant("npo", {"forget:hr@10": [0.0]}, first_seed=4, diverged=True),
    ]
    found = analysed(board_of(rows(original=ORIGINAL, popularity=good, tracer=good), diverged))
    for label in ("original", "popularity", "npo"):
        assert found.cells[label, FORGET].rank is None
        assert found.cells[label, FORGET].mark is Mark.PLAIN
        assert found.cells[label, FORGET].difference is None
    # A diverged run's numbers count nowhere.
    assert found.cells["npo", FORGET].seeds == (0.1, 0.11, 0.12, 0.1, None)
    assert found.cells["npo", FORGET].n == 4
    assert found.against_baseline == 2
    assert found.pairs == 0


def test_missing_seeds_are_left_out_of_pairs_and_not_filled() -> None:
    found = analysed(board_of(rows(original=ORIGINAL, tracer=[0.2, 0.25, 0.22])))
    difference = found.cells["tracer", FORGET].difference
    assert difference is not None
    assert difference.n == 3
    expected = stats.ttest_rel([0.2, 0.25, 0.22], ORIGINAL[:3])
    assert difference.p == pytest.approx(expected.pvalue)
    assert difference.estimate == pytest.approx(np.mean([0.2, 0.25, 0.22]) - np.mean(ORIGINAL[:3]))


def test_one_seed_is_underpowered_and_not_insignificant() -> None:
    found = analysed(board_of(rows(original=[0.5], tracer=[0.1])))
    difference = found.cells["tracer", FORGET].difference
    assert difference is not None
    assert difference.verdict is Verdict.UNDERPOWERED
    assert difference.p is None
    assert found.cells["tracer", FORGET].sd is None
    assert found.against_baseline == 0


@pytest.mark.parametrize(("seeds", "verdict"), [(5, Verdict.UNDERPOWERED), (6, Verdict.BETTER)])
def test_a_difference_without_spread_is_judged_by_the_sign_flip(seeds: int, verdict: Verdict) -> None:
    base = [0.5 + 0.01 * i for i in range(seeds)]
    # One measure, so that the family is of one test: 2 ** -4 = .0625 with five seeds, .03125 with six.
    board = board_of(plant("original", {"forget:hr@10": base}), plant("a", {"forget:hr@10": [x - 0.25 for x in base]}))
    difference = analysed(board).cells["a", FORGET].difference
    assert difference is not None
    assert difference.exact
    assert difference.p == pytest.approx(2.0 ** (1 - seeds))
    assert difference.verdict is verdict


def test_the_sign_flip_stands_beside_from_six_seeds_up() -> None:
    base = [0.5, 0.52, 0.49, 0.51, 0.5, 0.48]
    found = analysed(board_of(rows(original=base, tracer=[x - 0.2 - 0.01 * i for i, x in enumerate(base)])))
    difference = found.cells["tracer", FORGET].difference
    assert difference is not None
    assert difference.p_sign_flip == pytest.approx(2 / 64)


def test_equivalence_is_to_the_oracle_within_the_spread_of_oracles() -> None:
    retrain = [0.10, 0.14, 0.12, 0.11, 0.13]
    same, far = (
        [x + 0.001 * (-1) ** i for i, x in enumerate(retrain)],
        [x + 0.2 + 0.01 * i for i, x in enumerate(retrain)],
    )
    found = analysed(board_of(rows(retrain=retrain, same=same, far=far, equal=retrain)))
    gaps = [abs(a - b) for i, a in enumerate(retrain) for b in retrain[i + 1 :]]
    assert found.margins[FORGET] == pytest.approx(np.quantile(gaps, 0.95))
    verdicts = {label: found.cells[label, FORGET].equivalence.verdict for label in ("same", "far", "equal")}  # type: ignore[union-attr]
    assert verdicts == {"same": Likeness.EQUIVALENT, "far": Likeness.DIFFERENT, "equal": Likeness.IDENTICAL}
    assert found.cells["retrain", FORGET].equivalence is None


def test_a_margin_is_at_least_one_test_example() -> None:
    found = analysed(board_of(rows(retrain=[0.0] * 5, tracer=[0.0] * 5)))
    assert found.margins[FORGET] == 0.0
    known = [
        *plant("retrain", {"forget:hr@10": [0.0] * 5}, examples=200),
        *plant("tracer", {"forget:hr@10": [0.0, 0.0, 0.005, 0.0, 0.0]}, examples=200),
    ]
    found = analysed(board_of(known))
    assert found.margins[FORGET] == pytest.approx(0.005)
    assert found.cells["tracer", FORGET].equivalence.verdict is Likeness.EQUIVALENT  # type: ignore[union-attr]
    # So is that of a measure which is no mean over users, but of counted examples.
    area = measure("forget:relearning.area.mixed")
    known = [*plant("retrain", {"forget:relearning.area.mixed": [0.0] * 5}, examples=400)]
    assert analysed(board_of(known), area).margins[area] == pytest.approx(0.0025)


def test_without_oracle_or_baseline_there_are_means_and_no_tests() -> None:
    found = analysed(board_of(rows(tracer=[0.1, 0.2, 0.3])))
    assert found.baseline is None
    assert found.cells["tracer", FORGET].difference is None
    assert found.cells["tracer", FORGET].equivalence is None
    assert found.margins[FORGET] is None


def test_a_tie_down_to_the_noise_stays_a_tie() -> None:
    numbers = [0.1, 0.12, 0.11, 0.13, 0.1]
    found = analysed(
        board_of(rows(npo=numbers, simnpo=numbers, far=[x + 0.3 + 0.01 * i for i, x in enumerate(numbers)]))
    )
    one, two = found.cells["npo", FORGET], found.cells["simnpo", FORGET]
    assert (one.mark, one.rank, one.letters) == (two.mark, two.rank, two.letters)
