"""How good the original is, as its record says it: beside SASRec of one seed."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from tests.pipeline.conftest import Bench, value


def test_the_original_is_held_against_sasrec_of_one_seed(trained: Bench) -> None:
    compared = trained.run("original", oracle_seeds=0, seed=1, sasrec=True)
    assert "sasrec quality" in trained.told.computed  # SASRec itself may be there, from another test of this worker
    row = trained.run("sasrec", oracle_seeds=0, sasrec=True)
    assert not any("sasrec" in name and "evaluation" not in name for name in trained.told.computed), "trained once"
    share = value(compared.record, "ndcg@10", Group.RETAIN) / value(row.record, "ndcg@10", Group.RETAIN)
    assert compared.record.original_over_sasrec == pytest.approx(share, rel=1e-12)
    own = value(trained.run("original", oracle_seeds=0, seed=0).record, "ndcg@10", Group.RETAIN)
    assert row.record.original_over_sasrec == pytest.approx(own / value(row.record, "ndcg@10", Group.RETAIN), rel=1e-12)


def test_smoke_runs_and_those_that_ask_for_it_do_without_sasrec(trained: Bench) -> None:
    assert trained.run("original").record.original_over_sasrec is None
    plain = {"task": "demo-brand", "method": "original"}
    asked = [resolve(RunRequest(**plain, **more)).with_sasrec for more in ({}, {"scale": "small"}, {"sasrec": True})]
    assert asked == [False, True, True]
    without = RunRequest(**plain, scale="small", sasrec=False)
    assert not resolve(without).with_sasrec
    assert "--no-sasrec" in without.command()
    assert "sasrec" not in RunRequest(**plain).command()
