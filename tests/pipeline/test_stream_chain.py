"""Streams on the planted recommender, by methods whose faults are known: what they do must show in the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest
from genrec_unlearn_bench.data.forget import ConceptKind, ForgetSplit
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.evaluation.measurement import ExtraMetrics
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline import run as running
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.record import Cost
from genrec_unlearn_bench.pipeline.resolve import ResolvedRequest, resolve
from genrec_unlearn_bench.pipeline.results import LOSSES
from genrec_unlearn_bench.pipeline.run import cost_of
from genrec_unlearn_bench.pipeline.stage import Inputs, Stage, StageContext, materialise, read_notes, topological
from genrec_unlearn_bench.pipeline.stages import unlearn
from genrec_unlearn_bench.pipeline.stages.data import PreparedTask, prepare_task
from genrec_unlearn_bench.pipeline.stages.evaluate import evaluate_stage
from genrec_unlearn_bench.pipeline.stages.stream import NAME, Stream, divide, stream_metrics, stream_stages
from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.store.manifest import StoredStage
from tests import planted
from tests.pipeline.conftest import Bench
from tests.pipeline.stream_world import brands, concept_split

METHOD = '''"""Gradient ascent on the request's own examples, descent on a fifth of the others."""

import torch

from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Mine(UnlearningMethod[MethodConfig]):
    """Raises the loss of the forget examples and lowers that of retain examples."""

    name = "mine"

    def unlearn(self, recommender, request, progress):
        {start}
        model = start.clone()
        rows = range(0, len(request.train.retain), 5)
        sides = [request.train.forget, request.train.retain.subset(list(rows))]
        told = [(side.histories(model.history_limit), side.targets) for side in sides]
        optimizer = torch.optim.Adam(model.module.parameters(), lr=3e-3)
        for step in range({steps}):
            forget, retain = (model.forward(*side).token_log_probs() for side in told)
            loss = forget.clamp_min(-6).mean() - retain.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            progress.log("ascent", step, {{"forget": loss.item()}})
        progress.note("seed", request.seed)
        return model
'''

GOES_ON = "start = recommender"
STARTS_AGAIN = "start = self.first = getattr(self, 'first', recommender)"
"""Keeps the first model it was given and starts from it each time, so that each request undoes the one before."""
BREAKS = """start = recommender.clone()
        if getattr(self, "asked", 0):
            next(start.module.parameters()).data.fill_(float("nan"))
        self.asked = getattr(self, "asked", 0) + 1"""


@dataclass(frozen=True, eq=False)
class Chain:
    """A stream on planted data, as the stages of a result."""

    resolved: ResolvedRequest
    context: StageContext
    result: Stage

    @property
    def row(self) -> Stage:
        return self.result.inputs["row"]

    @cached_property
    def inputs(self) -> Inputs:
        return Inputs(self.result, self.context)

    @cached_property
    def prepared(self) -> PreparedTask:
        return prepare_task(self.inputs, self.resolved, holdout=False)

    @property
    def stream(self) -> Stream:
        return divide(self.prepared.split, self.prepared.dataset.items, self.resolved.request.requests)

    @property
    def steps(self) -> list[StoredStage]:
        return [self.inputs.stored(f"request {n}") for n in range(1, self.resolved.request.requests + 1)]

    @property
    def computed(self) -> list[str]:
        planted_titles = {"dataset", "task", "features", "features-scrubbed", "sids", "original"}
        return [name for name in self.context.progress.computed if name not in planted_titles]  # type: ignore[attr-defined]

    def run(self) -> ExtraMetrics:
        with determinism(1):
            for stage in self.result.inputs.values():
                materialise(stage, self.context)
            return running._stream_metrics(
                self.resolved, self.inputs, self.prepared, cost_of(self.resolved, self.inputs)
            )


@pytest.fixture(scope="module")
def original() -> T5Recommender:
    return planted.build().original


@pytest.fixture
def chain_of(tmp_path: Path, original: T5Recommender) -> Callable[..., Chain]:
    def make(start: str = "", *, steps: int = 15, method: str = "", count: int = 4) -> Chain:
        bench = Bench(tmp_path)
        if not method:
            (tmp_path / "mine.py").write_text(METHOD.format(start=start, steps=steps))
            method = f"{tmp_path / 'mine.py'}:Mine"
        resolved = resolve(bench.request(method, requests=count))
        split = concept_split(ConceptKind.BRAND, train=100, test=20)
        return Chain(resolved, StageContext(bench.store, bench.told), _result(resolved, split, original))

    return make


def _result(resolved: ResolvedRequest, split: ForgetSplit, model: T5Recommender) -> Stage:
    """The stages of a stream over planted data and a planted original."""
    features = planted.features(model.sids)
    dataset = Dataset("planted", brands(1), split.train.retain, split.valid.retain, split.test.retain, _manifest())
    data = {
        "dataset": _planted("dataset", dataset),
        "task": _planted("task", split),
        "features": _planted("features", features.plain),
        "scrubbed": _planted("features-scrubbed", features.scrubbed),
    }
    sids = _planted("sids", model.sids)

    def compute(context: StageContext, inputs: Inputs, folder: Path) -> dict[str, float]:
        model.save(folder / MODEL)
        return {"seconds": 1.0, "peak_memory_mib": 1.0}

    def load(inputs: Inputs, folder: Path) -> Recommender:
        return T5Recommender.load(folder / MODEL)

    before = Stage("original", 1, compute=compute, load=load)
    row, evaluations = stream_stages(resolved, data, sids, before)
    inputs = {**data, "sids": sids, "original": before, "row": row, **row.inputs}
    inputs["scores of original"] = evaluate_stage(resolved, data, sids, before)
    inputs["scores of row"] = evaluate_stage(resolved, data, sids, row, label="evaluation")
    for number, step in enumerate(row.inputs.values(), start=1):
        inputs[f"step {number}"] = step
    for number, evaluation in enumerate(evaluations, start=1):
        inputs[f"scores of step {number}"] = evaluation
    return Stage("result", 1, inputs=inputs)


def _planted(name: str, value: Any) -> Stage:
    return Stage(name, 1, load=lambda inputs, folder: value, keep=True)


def _manifest() -> DatasetManifest:
    counted = ("k_core", "items", "users", "interactions", "train", "valid", "test", "with_brand", "with_price")
    fields: dict[str, Any] = dict.fromkeys(counted, 0)
    return DatasetManifest(
        name="planted", format="folder", split="as-given", dropped={}, sources=(), digest="planted", **fields
    )


def metric(followed: ExtraMetrics, name: str) -> MetricValue:
    [found] = [value for value in followed.values if value.metric == f"stream.{name}"]
    return found


def number(followed: ExtraMetrics, name: str) -> float:
    found = metric(followed, name).value
    assert found is not None
    return found


@pytest.mark.slow
def test_a_method_that_forgets_only_its_last_request_is_found(chain_of: Callable[..., Chain]) -> None:
    chain = chain_of(STARTS_AGAIN)
    followed = chain.run()
    table = followed.tables[NAME]
    assert (table["forget_hr@10"] < 0.1).all(), "each request by itself looks forgotten"
    assert number(followed, "forget-hr@10.last") < 0.1
    assert number(followed, "resurfaced") > 0.7
    found = metric(followed, "resurfaced")
    assert found.n == table["earlier_n"].iloc[-1]
    assert table["earlier_hr@10"].iloc[-1] > 0.7
    assert len(chain.steps) == len(table) == 4


def test_the_table_says_what_each_request_was_and_cost(chain_of: Callable[..., Chain]) -> None:
    chain = chain_of(GOES_ON, steps=2)
    followed = chain.run()
    table = followed.tables[NAME]
    assert table["request"].tolist() == [1, 2, 3, 4]
    assert table["concepts"].tolist() == table["items"].tolist() == [2, 2, 2, 2]
    assert sorted("; ".join(table["names"]).split("; ")) == sorted({brands(1).brands[i] for i in range(64)})
    assert table["interactions"].tolist() == [portion.interactions for portion in chain.stream.requests]
    assert table["so_far_n"].tolist() == table["forget_n"].cumsum().tolist()
    assert table["earlier_n"].tolist() == [0, *table["so_far_n"][:-1]]
    assert np.isnan(table["earlier_hr@10"][0])
    assert table["so_far_n"].iloc[-1] == len(chain.prepared.split.test.forget)
    assert set(table["retain_n"]) == {len(chain.prepared.split.test.retain)}
    parts = table["forget_hr@10"] * table["forget_n"] + (table["earlier_hr@10"] * table["earlier_n"]).fillna(0)
    hits = parts.round(6)
    assert hits.tolist() == pytest.approx((table["so_far_hr@10"] * table["so_far_n"]).tolist(), abs=1e-5)
    assert table["cumulative_seconds"].tolist() == pytest.approx(table["seconds"].cumsum().tolist())
    assert table["share_of_retraining"].isna().all(), "no oracle was trained here"
    assert number(followed, "seconds") == pytest.approx(sum(step.facts["seconds"] for step in chain.steps))


def test_the_row_stands_for_all_requests(chain_of: Callable[..., Chain]) -> None:
    chain = chain_of(GOES_ON, steps=2)
    chain.run()
    row = chain.inputs.stored("row")
    report = read_notes(row.path)
    assert report["steps"] == 8
    seeds = [report["notes"][f"request {number}"]["seed"] for number in range(1, 5)]
    assert len(set(seeds)) == 4, "requests draw independently"
    losses = (row.path / LOSSES).read_text().splitlines()
    assert len(losses) == 8
    assert '"stage": "request 4: ascent"' in losses[-1]
    titles = [stage.title for stage in topological([chain.row])]
    assert titles[-5:] == [*(f"unlearned {number}" for number in range(1, 5)), "stream"]
    assert row.facts["peak_memory_mib"] == max(step.facts["peak_memory_mib"] for step in chain.steps)
    assert row.facts["seconds"] == pytest.approx(sum(step.facts["seconds"] for step in chain.steps))
    last, steps_last = chain.context.load(chain.row), chain.inputs["request 4"]
    assert isinstance(last, Recommender)
    assert isinstance(steps_last, Recommender)
    for one, two in zip(last.module.parameters(), steps_last.module.parameters(), strict=True):
        assert torch.equal(one, two)


@pytest.mark.slow
def test_what_was_blocked_stays_blocked(chain_of: Callable[..., Chain]) -> None:
    for method in ("filter", "filter-history"):
        chain = chain_of(method=method)
        followed = chain.run()
        model = chain.context.load(chain.row)
        assert isinstance(model, Recommender)
        assert model.serving.blocked is not None
        assert np.array_equal(model.serving.blocked, chain.prepared.split.items)
        assert (model.serving.ignored is None) == (method == "filter")
        assert (followed.tables[NAME]["so_far_hr@10"] == 0).all()
        assert number(followed, "resurfaced") == 0


@pytest.mark.slow
def test_it_goes_on_with_the_request_that_it_was_killed_at(
    chain_of: Callable[..., Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    real = unlearn._call

    def killed(*arguments: Any) -> Recommender:
        asked.append(arguments)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return real(*arguments)

    chain = chain_of(GOES_ON, steps=2, count=3)
    with monkeypatch.context() as patch:
        patch.setattr(unlearn, "_call", killed)
        with pytest.raises(KeyboardInterrupt):
            chain.run()
    assert chain.computed == ["unlearned 1"]
    again = chain_of(GOES_ON, steps=2, count=3)
    followed = again.run()
    assert again.computed[:3] == ["unlearned 2", "unlearned 3", "stream"]
    assert len(followed.tables[NAME]) == 3
    once = chain_of(GOES_ON, steps=2, count=3)
    assert once.run().tables[NAME].equals(followed.tables[NAME])
    assert once.computed == []


def test_a_model_that_is_no_number_any_more_is_passed_on_and_is_no_result(chain_of: Callable[..., Chain]) -> None:
    chain = chain_of(BREAKS, steps=1)
    followed = chain.run()
    skipped = ["skipped" in read_notes(step.path)["notes"] for step in chain.steps]
    assert skipped == [False, False, True, True], "there is nothing to go on from"
    assert read_notes(chain.inputs.stored("row").path)["diverged"]
    assert not followed.tables
    assert {value.note for value in followed.values} == {"the weights after request 2 of 4 are not finite"}
    assert all(value.value is None for value in followed.values)


def test_a_request_with_nothing_to_forget_is_refused_before_the_first(
    chain_of: Callable[..., Chain], monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = chain_of(GOES_ON, steps=1)
    real = Stream.asked

    def emptied(stream: Stream, number: int) -> Any:
        asked = real(stream, number)
        none = asked.train.forget.subset(np.zeros(0, dtype=np.int64))
        return asked if number < 3 else type(asked)(**{**vars(asked), "train": type(asked.train)(none, none)})

    monkeypatch.setattr(Stream, "asked", emptied)
    with pytest.raises(DataFault) as caught:
        chain.run()
    assert caught.value.where == "demo-brand, request 3 of 4"
    assert chain.computed == []


def test_a_reference_row_is_one_model_looked_at_request_by_request(chain_of: Callable[..., Chain]) -> None:
    chain = chain_of(GOES_ON, steps=1)
    with determinism(1):
        own = chain.inputs["scores of original"]
    cost = Cost(unlearn_seconds=8.0, retrain_seconds=8.0, peak_memory_mib=1.0, steps=1)
    followed = stream_metrics(chain.stream, [own] * 4, [0.0, 0.0, 0.0, 8.0], before=own, cost=cost, fixed=True)
    table = followed.tables[NAME]
    assert (table["forget_hr@10"] > 0.5).all()
    assert table["retain_ndcg@10"].nunique() == 1
    assert table["cumulative_seconds"].tolist() == [0, 0, 0, 8]
    assert table["share_of_retraining"].tolist() == [0, 0, 0, 1]
    assert number(followed, "retain-change") == 0
    assert metric(followed, "resurfaced").value is None
