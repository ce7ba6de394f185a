"""How cells stand: what is there, what is not, what was made from something else, what cannot be."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.backbones.tiger import Tiger
from genrec_unlearn_bench.data.source_files import SourceFile
from genrec_unlearn_bench.errors import CapabilityMissing, UnknownName, UsageError
from genrec_unlearn_bench.grid.cell import GridCell
from genrec_unlearn_bench.grid.explanation import explain_cell, find_cell
from genrec_unlearn_bench.grid.light_store import Keys
from genrec_unlearn_bench.grid.plan import Plan, make_plan
from genrec_unlearn_bench.grid.probe import Probe
from genrec_unlearn_bench.pipeline import ground
from genrec_unlearn_bench.pipeline.setting import settle
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.keys import content_key
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.planned_world import BACKBONES, fake_run, grid_of, lay_grounds, tree_digest
from tests.pipeline.test_pipeline import mine

ROWS = ("original", "retrain", "popularity", "filter", "tracer")


@dataclass
class World:
    """A cache and a results folder that look as if a grid had been run."""

    root: Path

    @property
    def store(self) -> StageStore:
        return StageStore(self.root / "cache")

    @property
    def results(self) -> Path:
        return self.root / "results"

    def cells(self, rows: tuple[str, ...] = ROWS, **fields: Any) -> list[GridCell]:
        return grid_of(self.results, rows=rows, **fields)

    def plan(self, cells: list[GridCell] | None = None) -> Plan:
        return make_plan(self.cells() if cells is None else cells, self.store, Progress())

    def standings(self, cells: list[GridCell] | None = None) -> dict[str, str]:
        return {
            f"{one.cell.request.backbone} {one.cell.request.method}": one.standing for one in self.plan(cells).cells
        }

    def remove(self, *stages: str) -> None:
        for name in stages:
            shutil.rmtree(self.root / "cache" / name)


@pytest.fixture(scope="module")
def laid(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Nothing but the dataset and its features."""
    world = World(tmp_path_factory.mktemp("laid"))
    lay_grounds(world.store, ["demo-brand"])
    return world


@pytest.fixture(scope="module")
def ran(laid: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """As if all rows had been run on tiger and letter."""
    world = World(tmp_path_factory.mktemp("ran") / "world")
    shutil.copytree(laid.root, world.root)
    fake_run(world.store, world.cells(backbones=("tiger", "letter")))
    return world


@pytest.fixture
def copied(ran: World, tmp_path: Path) -> World:
    world = World(tmp_path / "world")
    shutil.copytree(ran.root, world.root)
    return world


def test_all_is_done_after_a_run_and_a_plan_writes_nothing(ran: World) -> None:
    before = tree_digest(ran.root)
    plan = ran.plan(ran.cells(backbones=("tiger", "letter")))
    assert plan.counts == {"done": 10, "missing": 0, "stale": 0, "impossible": 0}
    assert plan.shared == ()
    assert all(one.result is not None and one.seconds == 0 for one in plan.cells)
    ran.plan(ran.cells(seeds=2))
    assert tree_digest(ran.root) == before


def test_an_empty_cache_is_not_made(tmp_path: Path) -> None:
    world = World(tmp_path / "nothing")
    plan = world.plan()
    assert {one.reason for one in plan.cells} == {"the dataset is not prepared yet"}
    assert [stage.until for stage in plan.shared] == ["ground", "tokens", "original", "retrain"]
    assert all(len(stage.cells) == 5 and stage.seconds is None for stage in plan.shared)
    assert not world.root.exists()


@pytest.mark.parametrize(
    ("gone", "reason", "shared"),
    [
        ("sids", "the semantic IDs are not made yet", ["tokens", "original", "retrain"]),
        ("original", "the original is not trained yet", ["original", "retrain"]),
        ("retrain", "an oracle is not retrained yet", ["retrain"]),
        ("unlearned", "it is not unlearned yet", []),
        ("evaluation", "the original is not evaluated yet", []),
    ],
)
def test_the_first_missing_stage_is_named(copied: World, gone: str, reason: str, shared: list[str]) -> None:
    shutil.rmtree(copied.results)
    copied.remove(gone)
    plan = copied.plan(copied.cells(("filter",)))
    assert (plan.cells[0].standing, plan.cells[0].reason) == ("missing", reason)
    assert [stage.until for stage in plan.shared] == shared
    assert plan.cells[0].needs == tuple(stage.name for stage in plan.shared)


def test_a_cell_whose_result_alone_is_missing_costs_nothing(copied: World) -> None:
    shutil.rmtree(copied.results)
    found = copied.plan(copied.cells(("filter",))).cells[0]
    assert (found.standing, found.reason, found.seconds) == ("missing", "only the result is to be written", 0)


def test_models_may_be_removed_from_the_cache(copied: World) -> None:
    copied.remove("original", "retrain", "unlearned", "evaluation", "popularity")
    assert set(copied.standings().values()) == {"done"}
    # What is run next on the same footing needs the original again.
    cells = copied.cells((*ROWS, "npo"))
    plan = copied.plan(cells)
    assert plan.counts["missing"] == 1
    assert [stage.until for stage in plan.shared] == ["original", "retrain"]


def test_without_the_dataset_nobody_can_say(copied: World) -> None:
    copied.remove("dataset")
    found = copied.plan(copied.cells(("filter",))).cells[0]
    assert found.standing == "missing"
    assert found.reason.startswith("the dataset is not prepared yet, so that nobody can say")
    assert found.result is not None


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"stage": "original"}', b"\xff"])
def test_a_damaged_manifest_counts_as_missing_and_stays(copied: World, content: bytes) -> None:
    shutil.rmtree(copied.results)
    (manifest,) = [
        path for path in (copied.root / "cache" / "original").glob("*/*/stage.json") if b'"tiger"' in path.read_bytes()
    ]
    manifest.write_bytes(content)
    before = tree_digest(copied.root)
    assert copied.plan(copied.cells(("filter",))).cells[0].reason == "the original is not trained yet"
    assert tree_digest(copied.root) == before


def test_a_changed_default_makes_its_own_cells_stale(copied: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Tiger.preset

    def preset(scale: Any) -> Any:
        config = plain(scale)
        return config.model_copy(update={"training": config.training.model_copy(update={"lr": 0.0005})})

    monkeypatch.setattr(Tiger, "preset", preset)
    cells = copied.cells(backbones=("tiger", "letter"))
    found = copied.standings(cells)
    assert {name for name, standing in found.items() if standing == "stale"} == {
        # Popularity is held against the oracle, so its result is another, too.
        f"tiger {row}"
        for row in ROWS
    }
    assert {name for name, standing in found.items() if standing == "done"} == {f"letter {row}" for row in ROWS}
    told = explain_cell(find_cell("tiger tracer", cells), copied.store)
    assert told.reason == "original: config.training.lr: 0.005 then, 0.0005 now"
    assert told.difference is not None
    assert told.difference.stage == "original"
    assert [step.then != "" for step in told.steps if step.name == "original"] == [True]


def test_a_changed_line_of_a_method_makes_that_method_stale(copied: World, tmp_path: Path) -> None:
    place = mine(tmp_path, "return recommender.clone()")
    cells = copied.cells((*ROWS, place))
    fake_run(copied.store, cells)
    assert set(copied.standings(cells).values()) == {"done"}
    mine(tmp_path, "# a comment\nreturn recommender.clone()")
    assert set(copied.standings(cells).values()) == {"done"}
    mine(tmp_path, "other = recommender.clone()\nreturn other")
    assert [name for name, standing in copied.standings(cells).items() if standing != "done"] == [f"tiger {place}"]
    found = copied.plan(cells).cells[-1]
    assert (found.standing, found.reason) == ("stale", "unlearned: code: mine changed")


def test_a_changed_data_file_makes_all_cells_stale(copied: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other = (SourceFile(name="x", size=1, digest="f" * 32),)
    monkeypatch.setattr(ground, "source_digests", lambda *_: other)
    plan = copied.plan()
    assert plan.counts["stale"] == len(ROWS)
    assert all(one.reason.startswith("dataset: sources: ") for one in plan.cells)


def test_what_is_gone_is_compared_by_the_record(copied: World, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Tiger.preset
    monkeypatch.setattr(
        Tiger,
        "preset",
        lambda scale: plain(scale).model_copy(
            update={"training": plain(scale).training.model_copy(update={"epochs": 2})}
        ),
    )
    copied.remove("original")
    assert copied.plan(copied.cells(("filter",))).cells[0].reason == "original: config.training.epochs: 8 then, 2 now"


def test_another_configuration_is_another_cell_and_not_a_stale_one(ran: World) -> None:
    cells = ran.cells(("tracer",), method_set={"neighbours": 3})
    found = ran.plan(cells).cells[0]
    assert (found.standing, found.reason) == ("missing", "it is not unlearned yet")
    told = explain_cell(cells[0], ran.store)
    assert told.difference is not None
    assert "config.neighbours: 5 then, 3 now" in told.difference.fields


IMPOSSIBLE: list[tuple[dict[str, Any], str]] = [
    ({"rows": ("filter",), "tasks": ("demo-interaction",)}, "does not serve requests of the kind"),
    ({"rows": ("tracer",), "method_set": {"nonsense": 1}}, "nonsense"),
    ({"rows": ("tracer",), "ruleset": "tuned"}, "has not been tuned on demo-brand"),
    ({"rows": ("filter",), "tasks": ("industrial-brand",), "data_dir": Path("nowhere")}, "are not there"),
    ({"rows": ("filter",), "shadows": 8}, "shadow models belong to the suite 'full'"),
    ({"rows": ("original",), "backbone_set": {"training.nonsense": 1}}, "nonsense"),
]


@pytest.mark.parametrize(("fields", "reason"), IMPOSSIBLE, ids=[reason for _, reason in IMPOSSIBLE])
def test_what_cannot_be_run_says_why(laid: World, fields: dict[str, Any], reason: str) -> None:
    found = laid.plan(laid.cells(**fields)).cells[0]
    assert found.standing == "impossible", found
    assert reason in found.reason


@pytest.mark.parametrize("capability", list(Capability))
def test_a_missing_capability_is_told_with_its_mend(laid: World, tmp_path: Path, capability: Capability) -> None:
    needs = f"    requires = frozenset({{Capability.{capability.name}}})\n"
    place = mine(tmp_path, "return recommender.clone()", extra=needs)
    plan = laid.plan(laid.cells((place,), backbones=BACKBONES))
    refused = {one.cell.name: one for one in plan.cells if one.standing == "impossible"}
    # The tables of all backbones come with codebooks, unless they are imported.
    assert refused or capability is Capability.HAS_CODEBOOKS
    for planned in plan.cells:
        if planned.cell.name in refused:
            with pytest.raises(CapabilityMissing) as fault:
                settle(planned.cell.request)
            assert (planned.reason, planned.hint) == (fault.value.what, fault.value.hint)
        else:
            assert settle(planned.cell.request).method is not None


def test_cells_are_found_by_parts_of_their_names(ran: World) -> None:
    cells = ran.cells(backbones=("tiger", "letter"), seeds=2)
    assert find_cell(cells[3].name, cells) is cells[3]
    assert find_cell("letter filter seed1", cells).name == "demo-brand/letter/filter/default-core-default-seed1"
    with pytest.raises(UsageError, match="means 4 cells"):
        find_cell("filter", cells)
    with pytest.raises(UnknownName, match="unknown cell"):
        find_cell("fitler", cells)


def test_keys_written_from_parts_are_the_stores_own(laid: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan's short way to a key gives the key, for every stage of every kind of row."""
    seen: list[str] = []
    plain = Keys.key

    def checked(self: Keys, name: str, content: Any) -> str:
        found = plain(self, name, content)
        assert found == content_key(name, content)
        seen.append(name)
        return found

    monkeypatch.setattr(Keys, "key", checked)
    rows = (*ROWS, "retrain-full", "sasrec")
    world = World(laid.root.with_name("keys"))
    shutil.copytree(laid.root, world.root)
    fake_run(world.store, world.cells(rows, backbones=("tiger", "letter")), results=False)
    assert {"sids", "sasrec", "original", "retrain", "unlearned", "evaluation", "popularity"} <= set(seen)


def test_what_will_be_needed_is_told_by_what_was_there(ran: World) -> None:
    plan = ran.plan(ran.cells(("original", "filter", "npo"), seeds=2))
    own = {one.cell.name.rpartition("/")[0].rpartition("/")[2]: one for one in plan.cells if one.waits}
    assert own["original"].seconds == 3.5
    assert (own["filter"].seconds, own["filter"].alike) == (7.0, True)
    assert (own["npo"].seconds, own["npo"].alike) == (7.0, False), "told by other methods"
    assert own["filter"].memory_mib == 100
    assert {stage.until: stage.seconds for stage in plan.shared} == {"tokens": 3.5, "original": 3.5, "retrain": 3.5}
    assert all(stage.size for stage in plan.shared)


def test_a_stage_of_all_backbones_tells_of_each(ran: World) -> None:
    cells = ran.cells(("popularity",), seeds=2, backbones=("tiger", "letter"), oracle_seeds=1)
    waiting = [one for one in ran.plan([*ran.cells(backbones=("tiger", "letter")), *cells]).cells if one.waits]
    assert {one.cell.request.backbone: one.seconds for one in waiting} == {"tiger": 7.0, "letter": 7.0}


def test_a_walk_of_a_cell_is_the_same_by_itself(ran: World) -> None:
    cells = ran.cells(("original", "filter"), backbones=("tiger", "letter"))
    together = Probe(ran.store)
    for cell in cells:
        assert together.walk(cell.request).key == Probe(ran.store).walk(cell.request).key


def test_the_place_of_a_cell_does_not_make_it_another(ran: World, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = ran.cells(("filter",))[0]
    for change in ({"threads": 2}, {"device": "auto"}, {"data_dir": ran.root}):
        moved = replace(cell, request=cell.request.model_copy(update=change))
        assert ran.plan([moved]).cells[0].standing == "done", change
