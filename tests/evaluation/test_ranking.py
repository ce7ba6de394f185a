"""Ranks to metrics: by hand, against ir-measures, for planted rankers; ranks of semantic IDs beside ranks of items."""

from __future__ import annotations

import io

import ir_measures
import numpy as np
import pytest
from ir_measures import RR, Success, nDCG

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.catalogue import metric_spec
from genrec_unlearn_bench.evaluation.lists import trec_qrels, trec_run
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.evaluation.ranking import RANK_METRICS, gain, hit, sid_numbers, sid_ranks
from tests.evaluation.planted import PlantedRanker, context, evaluated, examples, lists, split


def test_by_hand() -> None:
    ranks = np.array([0, 1, 2, 5, 6, 10, 11], dtype=np.int64)
    expected = {
        "hr@1": [0, 1, 0, 0, 0, 0, 0],
        "hr@5": [0, 1, 1, 1, 0, 0, 0],
        "hr@10": [0, 1, 1, 1, 1, 1, 0],
        "ndcg@5": [0, 1, 1 / np.log2(3), 1 / np.log2(6), 0, 0, 0],
        "ndcg@10": [0, 1, 1 / np.log2(3), 1 / np.log2(6), 1 / np.log2(7), 1 / np.log2(11), 0],
        "mrr@10": [0, 1, 1 / 2, 1 / 5, 1 / 6, 1 / 10, 0],
    }
    assert set(expected) == set(RANK_METRICS)
    for name, values in expected.items():
        np.testing.assert_allclose(RANK_METRICS[name](ranks), values, rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(3))
def test_ir_measures_reads_the_same_from_exported_files(seed: int) -> None:
    generator = np.random.default_rng(seed)
    rows, catalogue, k = 300, 40, 12
    order = np.argsort(generator.random((rows, catalogue)), axis=1)[:, :k].astype(np.int64)
    # Short lists, empty lists, and targets beyond the catalogue's end of the list.
    filled = generator.integers(0, k + 1, size=rows)
    order[np.arange(k)[None, :] >= filled[:, None]] = -1
    # All scores equal: the order must not depend on how a reader of the run breaks ties.
    ranking = Ranking(order, np.zeros((rows, k), dtype=np.float32))
    targets = generator.integers(0, catalogue, size=rows).astype(np.int64)

    run = list(ir_measures.read_trec_run(io.StringIO("\n".join(trec_run(ranking, tag="run")))))
    qrels = list(ir_measures.read_trec_qrels(io.StringIO("\n".join(trec_qrels(targets)))))
    peers = {
        "hr@1": Success @ 1,
        "hr@5": Success @ 5,
        "hr@10": Success @ 10,
        "ndcg@5": nDCG @ 5,
        "ndcg@10": nDCG @ 10,
        "mrr@10": RR @ 10,
    }
    aggregate = ir_measures.calc_aggregate(list(peers.values()), qrels, run)
    single = {name: np.zeros(rows) for name in peers}
    for value in ir_measures.iter_calc(list(peers.values()), qrels, run):
        name = next(n for n, measure in peers.items() if measure == value.measure)
        single[name][int(value.query_id)] = value.value
    for name, score in RANK_METRICS.items():
        ours = score(ranking.ranks(targets))
        assert 0 < ours.mean() < 1
        np.testing.assert_allclose(ours, single[name], rtol=0, atol=1e-9)
        assert abs(ours.mean() - aggregate[peers[name]]) < 1e-9


@pytest.mark.parametrize("rank", [1, 4, 6, 10, 11, 0])
def test_a_ranker_that_puts_the_target_at_a_rank(rank: int) -> None:
    size = 80
    history = [[row] for row in range(20)]
    targets = [40 + row for row in range(20)]
    by_first = dict(zip(range(20), targets, strict=True))

    def answer(histories, k, beam):  # type: ignore[no-untyped-def]
        rows = []
        for first in histories.items[:, 0].tolist():
            row = [item for item in range(size) if item != by_first[first]]
            if rank:
                row.insert(rank - 1, by_first[first])
            rows.append(row)
        return lists(rows, k)

    ranker = PlantedRanker(answer)
    task = split(size, examples(history[:8], targets[:8]), examples(history[8:], targets[8:]), concept=range(40, 48))
    result = evaluated(context(ranker, task))
    by_key = {(v.metric, v.group, v.beam): v for v in result.values}
    for group, n in ((Group.FORGET, 8), (Group.RETAIN, 12)):
        for beam in (10, 50):
            for name, score in RANK_METRICS.items():
                value = by_key[name, group, beam]
                ranks = np.full(1, rank, dtype=np.int64)
                assert value.value == pytest.approx(float(score(ranks)[0]), abs=1e-15)
                assert value.n == n
                assert value.sd == pytest.approx(0.0, abs=1e-12)
    # A ranker without a beam is asked once for each group (once more for histories that lose items: none here).
    assert len(ranker.calls) == 2


def test_directions_follow_the_group() -> None:
    for spec in map(metric_spec, RANK_METRICS):
        assert spec.better == {Group.FORGET: Better.LOWER, Group.RETAIN: Better.HIGHER, Group.NEAR: Better.HIGHER}
        assert spec.range == (0.0, 1.0)


# Items 0 and 2 share an ID, and so do 3, 4 and 5.
CODES = np.array([[1, 1], [1, 2], [1, 1], [0, 3], [0, 3], [0, 3], [2, 0]])


def ranking(*lists: list[int]) -> Ranking:
    items = np.asarray(lists, dtype=np.int64)
    return Ranking(items, np.zeros(items.shape, dtype=np.float32))


def test_items_with_one_id_have_one_number() -> None:
    numbers = sid_numbers(CODES)
    assert numbers[0] == numbers[2]
    assert len(set(numbers[[3, 4, 5]])) == 1
    assert len(set(numbers.tolist())) == 4


def test_ids_count_once() -> None:
    found = ranking([3, 4, 5, 0, 2, 1], [0, 2, 1, 6, -1, -1], [0, 2, 1, 6, -1, -1], [6, -1, -1, -1, -1, -1])
    targets = np.array([2, 2, 6, 1])
    np.testing.assert_array_equal(found.ranks(targets), [5, 2, 4, 0])
    np.testing.assert_array_equal(sid_ranks(found, sid_numbers(CODES), targets), [2, 1, 3, 0])


def test_where_all_ids_differ_both_are_the_same() -> None:
    rng = np.random.default_rng(0)
    lists = np.stack([rng.permutation(30)[:12] for _ in range(50)])
    found, targets = ranking(*lists.tolist()), rng.integers(30, size=50)
    codes = np.stack([np.arange(30) // 6, np.arange(30) % 6], axis=1)
    np.testing.assert_array_equal(sid_ranks(found, sid_numbers(codes), targets), found.ranks(targets))


def test_values_by_hand() -> None:
    ranks = np.array([1, 3, 0, 11])
    assert hit(ranks, 5).mean() == 0.5
    assert hit(ranks, 20).mean() == 0.75
    assert gain(ranks, 10).mean() == pytest.approx((1 + 0.5) / 4)
