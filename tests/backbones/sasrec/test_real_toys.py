"""SASRec on real data against published numbers: minutes of training, so only where it is asked for (`-m huge`)."""

from __future__ import annotations

import os

import pytest

from genrec_unlearn_bench.backbones.config import SASREC_PRESETS
from genrec_unlearn_bench.backbones.recommender import Ranker
from genrec_unlearn_bench.backbones.sasrec import Popularity, SasRec
from genrec_unlearn_bench.data.catalogue import find_dataset
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.prepare import prepare
from genrec_unlearn_bench.progress import Progress

pytestmark = [
    pytest.mark.huge,
    pytest.mark.skipif("GENREC_UNLEARN_BENCH_DATA" not in os.environ, reason="needs the Toys and Industrial files"),
]


def hit_rate(ranker: Ranker, test: Examples) -> float:
    return float((ranker.recommend(test.histories(50), 10).ranks(test.targets) > 0).mean())


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        # Leave-one-out, whole catalogue. Papers print about .067 for the binary loss. With a softmax over the catalogue
        # RecBole reaches .082 to .083 on Beauty (LETTER's issue 20, RecBole's issue 1290), where papers print .063,
        # and .048 on Sports (.034). Below .065 something is broken, and nobody reports over .105.
        ("toys-2014", 0.065, 0.105),
        # MiniOneRec's split. Its figure has .1088 for SASRec and .1163 for HSTU; the softmax loss reaches more (.125).
        ("industrial", 0.105, 0.14),
    ],
)
def test_hit_rates_lie_where_tuned_ones_do(name: str, low: float, high: float) -> None:
    dataset = prepare(find_dataset(name), None, Progress())
    ranker = SasRec.fit(
        SASREC_PRESETS["small"],
        train=dataset.train,
        valid=dataset.valid,
        items=len(dataset.items),
        seed=0,
        device="cpu",
        progress=Progress(),
    )
    found = hit_rate(ranker, dataset.test)
    assert low < found < high
    assert found > 1.5 * hit_rate(Popularity.fit(dataset.train, len(dataset.items)), dataset.test)
