"""Streams on the planted recommender, by methods whose faults are known: what they do must show in the numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.data.dataset import Dataset, DatasetManifest
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.evaluation.likelihood_scoring import score
from genrec_unlearn_bench.evaluation.metric import MetricValue
from genrec_unlearn_bench.pipeline.environment import determinism
from genrec_unlearn_bench.pipeline.ground import Ground
from genrec_unlearn_bench.pipeline.record import Cost
from genrec_unlearn_bench.pipeline.record_builder import cost_of
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.pipeline.stage_log import read_notes
from genrec_unlearn_bench.pipeline.stages.requests import Stream, divide
from genrec_unlearn_bench.pipeline.stages.stream import NAME
from genrec_unlearn_bench.pipeline.stages.train import MODEL
from genrec_unlearn_bench.pipeline.stream.chain import Streamed, unlearned_in_turn
from genrec_unlearn_bench.pipeline.stream.curve import Followed, follow
from genrec_unlearn_bench.pipeline.trained import Tokens, Trained
from genrec_unlearn_bench.pipeline.workroom import Shelf, Workroom
from tests import planted
from tests.pipeline.conftest import Bench
from tests.pipeline.stream.world import brands, concept_split

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
class Line:
    """What a stream starts from."""

    room: Workroom
    ground: Ground
    sids: Tokens
    before: Trained
    stream: Stream

    def carried_out(self) -> tuple[Streamed, Followed]:
        with determinism(1):
            row = unlearned_in_turn(self.room, self.ground, self.sids, self.before, self.stream)
            own = score(self.room, self.ground, self.sids, row)
            before = score(self.room, self.ground, self.sids, self.before)
            cost = cost_of(self.room.setting.entry, row, None)
        return row, follow(self.stream, row, own, before=before, cost=cost)


@pytest.fixture(scope="module")
def original() -> T5Recommender:
    return planted.build().original


@pytest.fixture
def line_of(tmp_path: Path, original: T5Recommender) -> Callable[..., Line]:
    def make(start: str = "", *, steps: int = 15, method: str = "", count: int = 4) -> Line:
        bench = Bench(tmp_path)
        if not method:
            (tmp_path / "mine.py").write_text(METHOD.format(start=start, steps=steps))
            method = f"{tmp_path / 'mine.py'}:Mine"
        room = Workroom(settle(bench.request(method)), bench.store, bench.told, Shelf())
        split = concept_split(ConceptKind.BRAND, train=100, test=20)
        dataset = Dataset("planted", brands(1), split.train.retain, split.valid.retain, split.test.retain, _manifest())
        ground = Ground(dataset, split, planted.features(original.sids), ())

        def compute(folder: Path) -> dict[str, float]:
            original.save(folder / MODEL)
            return {"seconds": 1.0, "peak_memory_mib": 1.0}

        stage = room.stage("original", {"planted": True}, compute)
        before = Trained(stage, (), lambda: T5Recommender.load(stage.path / MODEL))
        return Line(room, ground, Tokens(stage, original.sids), before, divide(split, dataset.items, count))

    return make


def _manifest() -> DatasetManifest:
    counted = ("k_core", "items", "users", "interactions", "train", "valid", "test", "with_brand", "with_price")
    fields: dict[str, Any] = dict.fromkeys(counted, 0)
    return DatasetManifest(
        name="planted", format="folder", split="as-given", dropped={}, sources=(), digest="planted", **fields
    )


def metric(followed: Followed, name: str) -> MetricValue:
    [found] = [value for value in followed.values if value.metric == f"stream.{name}"]
    return found


def number(followed: Followed, name: str) -> float:
    found = metric(followed, name).value
    assert found is not None
    return found


def test_a_method_that_forgets_only_its_last_request_is_found(line_of: Callable[..., Line]) -> None:
    row, followed = line_of(STARTS_AGAIN).carried_out()
    table = followed.tables[NAME]
    assert (table["forget_hr@10"] < 0.1).all(), "each request by itself looks forgotten"
    assert number(followed, "forget-hr@10.last") < 0.1
    assert number(followed, "resurfaced") > 0.7
    found = metric(followed, "resurfaced")
    assert found.n == table["earlier_n"].iloc[-1]
    assert table["earlier_hr@10"].iloc[-1] > 0.7
    assert len(row.steps) == len(table) == 4


def test_the_table_says_what_each_request_was_and_cost(line_of: Callable[..., Line]) -> None:
    line = line_of(GOES_ON, steps=2)
    row, followed = line.carried_out()
    table = followed.tables[NAME]
    assert table["request"].tolist() == [1, 2, 3, 4]
    assert table["concepts"].tolist() == table["items"].tolist() == [2, 2, 2, 2]
    assert sorted("; ".join(table["names"]).split("; ")) == sorted({brands(1).brands[i] for i in range(64)})
    assert table["interactions"].tolist() == [portion.interactions for portion in line.stream.requests]
    assert table["so_far_n"].tolist() == table["forget_n"].cumsum().tolist()
    assert table["earlier_n"].tolist() == [0, *table["so_far_n"][:-1]]
    assert np.isnan(table["earlier_hr@10"][0])
    assert table["so_far_n"].iloc[-1] == len(line.ground.split.test.forget)
    assert set(table["retain_n"]) == {len(line.ground.split.test.retain)}
    parts = table["forget_hr@10"] * table["forget_n"] + (table["earlier_hr@10"] * table["earlier_n"]).fillna(0)
    hits = parts.round(6)
    assert hits.tolist() == pytest.approx((table["so_far_hr@10"] * table["so_far_n"]).tolist(), abs=1e-5)
    assert table["cumulative_seconds"].tolist() == pytest.approx(table["seconds"].cumsum().tolist())
    assert table["share_of_retraining"].isna().all(), "no oracle was trained here"
    assert number(followed, "seconds") == pytest.approx(sum(step.seconds for step in row.steps)) == row.seconds


def test_the_row_stands_for_all_requests(line_of: Callable[..., Line]) -> None:
    row, _ = line_of(GOES_ON, steps=2).carried_out()
    told = read_notes(row.stage.path)
    assert told["steps"] == 8
    seeds = [told["notes"][f"request {number}"]["seed"] for number in range(1, 5)]
    assert len(set(seeds)) == 4, "requests draw independently"
    losses = (row.stage.path / "losses.jsonl").read_text().splitlines()
    assert len(losses) == 8
    assert '"stage": "request 4: ascent"' in losses[-1]
    names = [stage.name for stage in (*row.upstream, row.stage)]
    steps = [f"unlearned {number}" for number in range(1, 5)]
    assert names == ["original", *steps, "evaluation 1", "evaluation 2", "evaluation 3", "stream"]
    assert row.peak_memory_mib == max(step.peak_memory_mib for step in row.steps)
    last, steps_last = row.load(), row.steps[-1].load()
    assert isinstance(last, Recommender)
    assert isinstance(steps_last, Recommender)
    for one, two in zip(last.module.parameters(), steps_last.module.parameters(), strict=True):
        assert torch.equal(one, two)


def test_what_was_blocked_stays_blocked(line_of: Callable[..., Line]) -> None:
    for method in ("filter", "filter-history"):
        line = line_of(method=method)
        row, followed = line.carried_out()
        model = row.load()
        assert isinstance(model, Recommender)
        assert model.serving.blocked is not None
        assert np.array_equal(model.serving.blocked, line.ground.split.items)
        assert (model.serving.ignored is None) == (method == "filter")
        assert (followed.tables[NAME]["so_far_hr@10"] == 0).all()
        assert number(followed, "resurfaced") == 0


def test_it_goes_on_with_the_request_that_it_was_killed_at(
    line_of: Callable[..., Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = line_of(GOES_ON, steps=2, count=3).carried_out()[1]

    def killed(room: Workroom, ground: Ground, sids: Tokens, trained: Trained) -> Any:
        if trained.stage.name == "unlearned 2":
            raise KeyboardInterrupt
        return score(room, ground, sids, trained)

    line = line_of(GOES_ON + "  # as before", steps=3, count=3)
    with monkeypatch.context() as patch:
        patch.setattr("genrec_unlearn_bench.pipeline.stream.chain.score", killed)
        with pytest.raises(KeyboardInterrupt):
            line.carried_out()
    again = line_of(GOES_ON + "  # as before", steps=3, count=3)
    _, followed = again.carried_out()
    told = again.room.progress.computed  # type: ignore[attr-defined]
    assert told == ["evaluation of unlearned 2", "unlearned", "stream", "evaluation of stream"]
    assert followed.tables[NAME].shape == whole.tables[NAME].shape
    once = line_of(GOES_ON + "  # as before", steps=3, count=3)
    once.carried_out()
    assert once.room.progress.computed == []  # type: ignore[attr-defined]


def test_a_model_that_is_no_number_any_more_ends_the_stream_and_is_no_result(line_of: Callable[..., Line]) -> None:
    row, followed = line_of(BREAKS, steps=1).carried_out()
    assert len(row.steps) == 2, "there is nothing to go on from"
    assert not followed.tables
    assert {value.note for value in followed.values} == {"the weights after request 2 of 4 are not finite"}
    assert all(value.value is None for value in followed.values)


def test_a_request_with_nothing_to_forget_is_refused_before_the_first(
    line_of: Callable[..., Line], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = line_of(GOES_ON, steps=1)
    real = Stream.asked

    def emptied(stream: Stream, number: int) -> Any:
        asked = real(stream, number)
        none = asked.train.forget.subset(np.zeros(0, dtype=np.int64))
        return asked if number < 3 else type(asked)(**{**vars(asked), "train": type(asked.train)(none, none)})

    monkeypatch.setattr(Stream, "asked", emptied)
    with pytest.raises(DataFault) as told:
        line.carried_out()
    assert told.value.where == "demo-brand, request 3 of 4"
    assert not any("unlearned" in text for text in line.room.progress.lines)  # type: ignore[attr-defined]


def test_a_reference_row_is_one_model_looked_at_request_by_request(line_of: Callable[..., Line]) -> None:
    line = line_of(GOES_ON, steps=1)
    with determinism(1):
        own = score(line.room, line.ground, line.sids, line.before)
    cost = Cost(unlearn_seconds=8.0, retrain_seconds=8.0, peak_memory_mib=1.0, steps=1)
    followed = follow(line.stream, line.before, own, before=own, cost=cost)
    table = followed.tables[NAME]
    assert (table["forget_hr@10"] > 0.5).all()
    assert table["retain_ndcg@10"].nunique() == 1
    assert table["cumulative_seconds"].tolist() == [0, 0, 0, 8]
    assert table["share_of_retraining"].tolist() == [0, 0, 0, 1]
    assert number(followed, "retain-change") == 0
    assert metric(followed, "resurfaced").value is None
