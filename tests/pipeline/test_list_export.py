"""Exported files give the record's numbers in ir-measures, and in any reader that sorts by score and then by name."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import ir_measures
import pytest
from ir_measures import RR, Success, nDCG

from genrec_unlearn_bench.decoding.ranking import Ranking
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.ranking import BEAMS
from genrec_unlearn_bench.pipeline.list_lookup import RunLists, find_lists, trec_files
from genrec_unlearn_bench.pipeline.results import read_record
from tests.pipeline.conftest import Bench
from tests.pipeline.listed_world import World, make_world, walking

MEASURES = {
    "hr@1": Success @ 1,
    "hr@5": Success @ 5,
    "hr@10": Success @ 10,
    "ndcg@5": nDCG @ 5,
    "ndcg@10": nDCG @ 10,
    "mrr@10": RR @ 10,
}
BITS = 1e-15
"""The order in which 1052 users are summed up; no user's value differs."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def found(world: World) -> RunLists:
    return find_lists(read_record(world.add("original", walking)), world.store)


@pytest.fixture
def folder(found: RunLists, tmp_path: Path) -> Path:
    for name, text in trec_files(found):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_a_pair_of_files_for_each_group_and_beam(folder: Path) -> None:
    names = {f"{group}.{end}" for group in ("forget", "retain") for end in ("qrels", "beam10.run", "beam50.run")}
    assert {path.name for path in folder.iterdir()} == names


def hold(folder: Path, found: RunLists, group: Group, beam: int) -> set[float | None]:
    """Hold a pair of files against the record; returns the record's numbers."""
    recorded = {
        value.metric: value.value
        for value in found.record.metrics
        if value.group is group and value.beam == beam and value.metric in MEASURES
    }
    qrels = list(ir_measures.read_trec_qrels(str(folder / f"{group.value}.qrels")))
    run = list(ir_measures.read_trec_run(str(folder / f"{group.value}.beam{beam}.run")))
    got = ir_measures.calc_aggregate(list(MEASURES.values()), qrels, run)
    assert recorded.keys() == MEASURES.keys()
    assert {name: got[measure] for name, measure in MEASURES.items()} == pytest.approx(recorded, abs=BITS)
    return set(recorded.values())


@pytest.mark.parametrize("group", [Group.FORGET, Group.RETAIN])
@pytest.mark.parametrize("beam", BEAMS)
def test_ir_measures_gives_the_records_numbers(folder: Path, found: RunLists, group: Group, beam: int) -> None:
    assert len(hold(folder, found, group, beam)) > 3, "numbers that are all alike would prove little"


@pytest.mark.slow
def test_ir_measures_gives_the_numbers_of_a_real_run(trained: Bench, tmp_path: Path) -> None:
    record = trained.run("original").record
    found = find_lists(record, trained.store)
    for name, text in trec_files(found):
        (tmp_path / name).write_text(text, encoding="utf-8")
    for group, beam in found.rankings:
        assert hold(tmp_path, found, group, beam)


def test_sorted_by_score_and_name_the_lists_are_ours(folder: Path, found: RunLists) -> None:
    for (group, beam), ranking in found.rankings.items():
        places: dict[int, list[tuple[float, str]]] = defaultdict(list)
        for line in (folder / f"{group.value}.beam{beam}.run").read_text(encoding="utf-8").splitlines():
            query, _, item, _, score, _ = line.split(" ")
            places[int(query)].append((float(score), item))
        for query, items in enumerate(ranking.items):
            # trec_eval: by score, then by name, both downwards; other readers take names upwards.
            for names_down in (True, False):
                ordered = sorted(places[query], key=lambda place: place[1], reverse=names_down)
                ordered.sort(key=lambda place: -place[0])
                assert [int(item) for _, item in ordered] == items[items >= 0].tolist()
        tied = ranking.log_probs[:, :-1] == ranking.log_probs[:, 1:]
        assert tied.any(), "items that share a SID are what could be put in another order"


def test_the_tag_is_one_word_and_says_whose_lists_these_are(folder: Path, found: RunLists) -> None:
    line = (folder / "retain.beam50.run").read_text(encoding="utf-8").splitlines()[0]
    assert line.split(" ")[5] == f"original-small-seed0-{found.record.key[:10]}"


def test_a_group_without_examples_has_no_files(found: RunLists) -> None:
    empty = {
        (group, beam): ranking if group is Group.RETAIN else Ranking(ranking.items[:0], ranking.log_probs[:0])
        for (group, beam), ranking in found.rankings.items()
    }
    gone = found.per_user[found.per_user["group"] == "retain"]
    files = dict(trec_files(RunLists(found.record, empty, gone)))
    assert list(files) == ["retain.qrels", "retain.beam10.run", "retain.beam50.run"]
    assert files["retain.qrels"].count("\n") == len(gone) // 2
