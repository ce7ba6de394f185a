"""Published numbers held against a tiny world in the same layout: what counts is the line, not the numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.config import parse_yaml
from genrec_unlearn_bench.errors import ConfigError, DataFault, DataMissing, UnknownName
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.reproduce import reproduction
from genrec_unlearn_bench.reproduce.reproduction import (
    PublishedReference,
    ReproductionRecord,
    ReproductionRequest,
    find_reference,
    published_references,
    reproduce,
)
from genrec_unlearn_bench.store.store import StageStore
from tests.pipeline.letter_world import TINY, write_world

REFERENCE = find_reference("letter-instruments")
INSTANT = 1e-9


@pytest.fixture(autouse=True)
def _nothing_but_the_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_OFFLINE", "1")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("GENREC_UNLEARN_BENCH_DATA", raising=False)


@pytest.fixture
def world(tmp_path: Path) -> Path:
    return write_world(tmp_path / "data")


def call(world: Path, *, cache: str = "cache", **fields: Any) -> ReproductionRecord:
    root = world.parent
    request = ReproductionRequest(
        reference=REFERENCE,
        threads=1,
        device="cpu",
        data_dir=world,
        results_dir=root / "results",
        **{"changes": TINY, **fields},
    )
    record, folder = reproduce(request, StageStore(root / cache), Progress())
    assert ReproductionRecord.model_validate_json((folder / "reproduction.json").read_bytes()) == record
    return record


def test_pieces_end_where_one_call_ends(world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = call(world, cache="other")
    assert whole.finished
    monkeypatch.setattr(reproduction, "TEST_ROWS", 20)
    first = call(world, minutes=INSTANT)
    assert (first.steps, first.finished, first.test_rows) == (1, False, 20)
    last = call(world)
    assert last.finished
    assert last.test_rows == 60
    assert last.comparisons == whole.comparisons
    again = call(world)
    assert (again.steps, again.comparisons) == (last.steps, last.comparisons), "nothing was left to train"


def test_the_record_says_what_was_learned_and_how_far_off_it_is(world: Path) -> None:
    record = call(world, changes=TINY | {"training.epochs": 30})
    assert record.reproduced is None, "with changed settings nothing is reproduced"
    assert record.test_rows == 60
    at_ten = next(part for part in record.comparisons if part.metric == "recall@10")
    assert at_ten.measured > 0.8, "the walks can be learned"
    assert at_ten.distance == pytest.approx(at_ten.measured / 0.1122 - 1)
    assert not at_ten.within
    assert record.environment.precision == "fp32"
    assert record.config["training"]["temperature"] == 1.0


def test_the_reference_counts_as_reproduced_within_its_tolerance_alone(world: Path) -> None:
    record = call(world, minutes=INSTANT)
    near = tuple(part.model_copy(update={"within": True}) for part in record.comparisons)
    done = record.model_copy(update={"finished": True, "changes": {}, "comparisons": near})
    assert done.reproduced is True
    far = (*near[1:], near[0].model_copy(update={"within": False}))
    assert done.model_copy(update={"comparisons": far}).reproduced is False
    assert record.reproduced is None


def test_faults_are_said_before_anything_is_trained(world: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'epochs'"):
        call(world, changes={"training.epoch": 3})
    with pytest.raises(DataMissing, match="2 of 2 files") as caught:
        call(tmp_path / "elsewhere")
    assert "Instruments.index.json" in caught.value.render()
    assert not (tmp_path / "results").exists()


def test_semantic_ids_of_another_catalogue(world: Path) -> None:
    index = world / "instruments-letter" / "Instruments.index.json"
    index.write_text(index.read_text().replace('"63": ["<a_', '"63": ["<q_'))
    with pytest.raises(DataFault, match="63"):
        call(world)


def test_packaged_references_are_whole() -> None:
    for name, reference in published_references().items():
        assert reference.name == name
        assert reference.source
        assert reference.why
    with pytest.raises(UnknownName, match="letter-instruments"):
        find_reference("letter-instrument")


def test_a_broken_reference_names_every_fault() -> None:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(PublishedReference, "name: No\ntitel: x\nexpected: [{metric: hr@10, value: 2}]", where="x.yaml")
    assert len(caught.value.faults) > 5
    assert "did you mean 'title'" in caught.value.what
