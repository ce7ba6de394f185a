"""From grids to cells: crossed, varied, excluded and overridden as the file says, each once, in one order."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.data.catalogue import DATA_VARIABLE
from genrec_unlearn_bench.data.prepare import import_folder
from genrec_unlearn_bench.data.tasks import TASK_ENDINGS
from genrec_unlearn_bench.errors import CapabilityMissing, ConfigError
from genrec_unlearn_bench.grid.expand import GridCell, expand, read_grid
from genrec_unlearn_bench.grid.spec import GridSpec, ready_grids
from genrec_unlearn_bench.pipeline.resolve import Catalogue, resolve
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import REFERENCE_ROWS, find_method, load_class, methods
from genrec_unlearn_bench.unlearning.method import UnlearningMethod
from tests.data.shops import write_shop

PLACES: dict[str, Any] = {"data_dir": None, "results_dir": Path("results"), "tuned_dir": Path("tuned"), "device": None}


def spec(**content: Any) -> GridSpec:
    axes = {"task": ["demo-brand"], "method": ["tracer"], **content.pop("axes", {})}
    return parse(GridSpec, {"name": "g", "axes": axes, **content}, where="test")


def cells(**content: Any) -> tuple[GridCell, ...]:
    return expand(spec(**content), **PLACES)


def names(found: tuple[GridCell, ...]) -> list[str]:
    return [cell.name for cell in found]


def test_axes_are_crossed_in_the_order_of_the_file() -> None:
    found = cells(axes={"task": ["demo-price", "demo-brand"], "backbone": ["mor", "tiger"], "seed": [1, 0]})
    assert [(c.request.task, c.request.backbone, c.request.seed) for c in found] == list(
        itertools.product(["demo-price", "demo-brand"], ["mor", "tiger"], [1, 0])
    )
    assert found[0].name == "demo-price/mor/tracer/default-core-default-seed1"
    assert found[0].axes["kind"] == "price"
    assert found[0].axes["dataset"] == "demo"


def test_what_a_cell_asks_for() -> None:
    (cell,) = cells(
        axes={"scale": ["small"], "suite": ["full"], "ruleset": ["fixed"], "requests": [3], "measure": ["probing"]},
        settings={"encoder": "minilm", "threads": 2, "oracle_seeds": 0, "backbone_set": {"training.epochs": 1}},
        resources={"cores": 2, "memory_mib": 100},
    )
    request = cell.request
    assert (request.scale, request.suite, request.ruleset, request.requests) == ("small", "full", "fixed", 3)
    assert (request.encoder, request.threads, request.oracle_seeds) == ("minilm", 2, 0)
    assert request.measure == ("probing",)
    assert request.backbone_set == {"training.epochs": 1}
    assert (cell.resources.cores, cell.resources.memory_mib) == (2, 100)
    assert cell.name == "demo-brand/tiger/tracer/small-full-fixed-requests3-seed0"


def test_the_call_goes_before_the_grid_where_a_device_is_concerned() -> None:
    asked = spec(settings={"device": "cpu"})
    assert expand(asked, **PLACES)[0].request.device == "cpu"
    assert expand(asked, **{**PLACES, "device": "cuda"})[0].request.device == "cuda"


def test_reference_rows_belong_to_every_ruleset_and_come_once() -> None:
    found = cells(axes={"method": ["original", "tracer"], "ruleset": ["fixed", "default"]})
    assert names(found) == [
        "demo-brand/tiger/original/default-core-default-seed0",
        "demo-brand/tiger/tracer/default-core-fixed-seed0",
        "demo-brand/tiger/tracer/default-core-default-seed0",
    ]


def test_fields_of_one_block_are_crossed_and_blocks_stand_beside_one_another() -> None:
    found = cells(
        axes={"method": ["original", "tracer", "filter"]},
        vary=[
            {
                "fields": {"method_set.lr": [1, 2], "backbone_set.x.y": ["a"]},
                "where": {"method": ["tracer"]},
                "plain": True,
            },
            {"fields": {"method_set.mask": ["off"]}, "where": {"method": ["tracer"]}},
        ],
    )
    ends = [name.rpartition("/")[0].rpartition("/")[2] + name.partition("[")[2] for name in names(found)]
    assert ends == [
        "original",
        "tracer",
        "tracerlr=1,backbone.x.y=a]",
        "tracerlr=2,backbone.x.y=a]",
        "tracermask=off]",
        "filter",
    ]
    assert found[2].request.method_set == {"lr": 1}
    assert found[2].request.backbone_set == {"x.y": "a"}
    assert found[2].axes["method_set.lr"] == 1


def test_reference_rows_do_not_vary_with_fields_of_methods() -> None:
    found = cells(axes={"method": ["original", "tracer"]}, vary=[{"fields": {"method_set.lr": [1, 2]}}])
    assert len(found) == 3
    assert found[0].request.method_set == {}
    both = cells(axes={"method": ["original"]}, vary=[{"fields": {"oracle_seeds": [1, 2]}}])
    assert [cell.request.oracle_seeds for cell in both] == [1, 2]


def test_varied_goes_before_overrides_later_before_earlier_and_those_before_settings() -> None:
    (cell,) = cells(
        settings={"threads": 1, "backbone_set": {"a": 1, "b": 1, "c": 1, "d": 1}, "encoder": "tfidf"},
        overrides=[
            {"where": {"task": ["demo-brand"]}, "set": {"backbone_set": {"b": 2, "c": 2, "d": 2}, "threads": 2}},
            {"where": {"method": ["tracer"]}, "set": {"backbone_set": {"c": 3, "d": 3}, "encoder": None}},
        ],
        vary=[{"fields": {"backbone_set.d": [4]}}],
    )
    assert cell.request.backbone_set == {"a": 1, "b": 2, "c": 3, "d": 4}
    assert cell.request.threads == 2
    assert cell.request.encoder is None, "null takes the default again"


def test_overrides_change_resources_field_by_field() -> None:
    found = cells(
        axes={"method": ["original", "tracer", "filter"]},
        resources={"cores": 2, "memory_mib": 10},
        overrides=[
            {"where": {"method": ["tracer", "filter"]}, "set": {"resources": {"gpus": 1, "memory_mib": 20}}},
            {"where": {"method": ["tracer"]}, "set": {"resources": {"memory_mib": 30}, "method_set": {"lr": 1}}},
        ],
    )
    assert [(c.resources.cores, c.resources.gpus, c.resources.memory_mib) for c in found] == [
        (2, 0, 10),
        (2, 1, 30),
        (2, 1, 20),
    ]
    assert [c.request.method_set for c in found] == [{}, {"lr": 1}, {}]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"exclude": [{"where": {"method": ["tracer"], "kind": ["price"]}}]}, ["exclude[0]: no cell"]),
        ({"overrides": [{"where": {"kind": ["price"]}, "set": {"threads": 1}}]}, ["overrides[0]: no cell"]),
        ({"vary": [{"fields": {"threads": [1]}, "where": {"kind": ["price"]}}]}, ["vary[0]: no cell"]),
        (
            {
                "exclude": [{"where": {"kind": ["price"]}}, {"where": {"method": ["filter"]}}],
                "overrides": [{"where": {"method": ["filter"]}, "set": {"threads": 1}}],
            },
            ["exclude[0]: no cell", "exclude[1]: no cell", "overrides[0]: no cell"],
        ),
        ({"exclude": [{"where": {"method": ["tracer"]}}]}, ["nothing is left"]),
        (
            {
                "axes": {"ruleset": ["fixed"]},
                "overrides": [{"where": {"method": ["tracer"]}, "set": {"method_set": {"lr": 1}}}],
            },
            ["the ruleset 'fixed' fixes the configuration of 'tracer'"],
        ),
    ],
)
def test_what_means_nothing_is_a_slip(content: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as told:
        cells(**content)
    assert len(told.value.faults) == len(words)
    assert all(word in fault for word, fault in zip(words, told.value.faults, strict=True))


def test_measurements_that_vary_are_in_the_name() -> None:
    found = cells(axes={"suite": ["full"], "measure": ["probing", "membership+relearning"]})
    assert [name.partition("[")[2] for name in names(found)] == ["measure=probing]", "measure=membership+relearning]"]
    assert found[1].request.measure == ("membership", "relearning")


def test_files_go_by_the_names_that_they_give_themselves(tmp_path: Path) -> None:
    source = Path(str(methods()["filter"].source)).read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(source.replace('name = "filter"', 'name = "mine"'), encoding="utf-8")
    (tmp_path / "own.yaml").write_text("name: own-task\ndataset: demo\nconcept: {kind: brand}\n", encoding="utf-8")
    grid = tmp_path / "grid.yaml"
    grid.write_text(
        "name: g\naxes: {task: own.yaml, method: [mine.py, original]}\nexclude: [{method: original, task: own-task}]\n"
        "overrides: [{where: {method: mine.py}, set: {threads: 3}}]\n",
        encoding="utf-8",
    )
    (cell,) = expand(read_grid(str(grid)), **PLACES)
    assert cell.name == "own-task/tiger/mine/default-core-default-seed0"
    assert Path(cell.request.method).is_absolute()
    assert cell.request.threads == 3


def test_patterns_match_tasks_of_imported_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "root"))
    import_folder(write_shop(tmp_path / "root" / "shop"), "shop", Progress())
    grid = tmp_path / "grid.yaml"
    grid.write_text('name: g\naxes: {task: "shop-*", method: original}\n', encoding="utf-8")
    found = expand(read_grid(str(grid)), **PLACES)
    assert {f"shop-{ending}" for ending in TASK_ENDINGS} == {cell.request.task for cell in found}


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        text = "name: own\ndataset: demo\nconcept: {kind: brand}\n"
        (tmp_path / folder / "own.yaml").write_text(text, encoding="utf-8")
    grid = tmp_path / "grid.yaml"
    grid.write_text("name: g\naxes: {task: [a/own.yaml, b/own.yaml], method: tracer}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="two different cells are named"):
        expand(read_grid(str(grid)), **PLACES)


TASKS, METHODS, BACKBONES = ("demo-brand", "demo-item"), ("original", "tracer", "filter"), ("tiger", "mor")
WHERE = st.fixed_dictionaries(
    {},
    optional={
        "task": st.lists(st.sampled_from(TASKS), min_size=1, unique=True),
        "method": st.lists(st.sampled_from(METHODS), min_size=1, unique=True),
        "backbone": st.lists(st.sampled_from(BACKBONES), min_size=1, unique=True),
        "seed": st.lists(st.integers(0, 2), min_size=1, unique=True),
        "ruleset": st.lists(st.sampled_from(["default", "fixed"]), min_size=1, unique=True),
    },
).filter(bool)
SET = st.fixed_dictionaries(
    {},
    optional={
        "threads": st.integers(1, 3),
        "backbone_set": st.dictionaries(st.sampled_from("abc"), st.integers(0, 2), min_size=1),
        "resources": st.fixed_dictionaries({}, optional={"memory_mib": st.integers(1, 9), "cores": st.integers(1, 9)}),
    },
)
VARY = st.fixed_dictionaries(
    {
        "fields": st.dictionaries(
            st.sampled_from(["backbone_set.a", "sid_set.a", "threads"]),
            st.lists(st.integers(1, 4), min_size=1, max_size=2, unique=True),
            min_size=1,
        )
    },
    optional={"where": WHERE, "plain": st.booleans()},
)


@settings(max_examples=25, deadline=None)
@given(
    exclude=st.lists(WHERE, max_size=3),
    overrides=st.lists(st.tuples(WHERE, SET), max_size=4),
    vary=st.lists(VARY, max_size=2),
)
def test_any_grid_is_what_its_rules_say(
    exclude: list[dict[str, Any]], overrides: list[tuple[dict[str, Any], dict[str, Any]]], vary: list[dict[str, Any]]
) -> None:
    """Names are unique, and each cell is what one gets by going through the file by hand."""
    content: dict[str, Any] = {
        "axes": {
            "task": TASKS,
            "method": METHODS,
            "backbone": BACKBONES,
            "seed": [0, 1, 2],
            "ruleset": ["default", "fixed"],
        },
        "exclude": [{"where": where} for where in exclude],
        "overrides": [{"where": where, "set": changes} for where, changes in overrides],
        "vary": vary,
    }
    found, slips = told(content)
    assert all("no cell is meant" in slip or "nothing is left" in slip for slip in slips)
    assert len(set(names(found))) == len(found)
    for cell in found:
        own = {**cell.axes}
        assert not any(meant(where, own) for where in exclude)
        threads, fields, memory = None, dict[str, int](), None
        for where, changes in overrides:
            if meant(where, own):
                threads = changes.get("threads", threads)
                fields |= changes.get("backbone_set", {})
                memory = changes.get("resources", {}).get("memory_mib", memory)
        fields |= {"a": own["backbone_set.a"]} if "backbone_set.a" in own else {}
        assert cell.request.threads == own.get("threads", threads)
        assert cell.request.backbone_set == fields
        assert cell.resources.memory_mib == memory
        assert cell.request.sid_set == ({"a": own["sid_set.a"]} if "sid_set.a" in own else {})
    if not vary:
        points = {
            (t, b, m, s, "default" if m in REFERENCE_ROWS else r)
            for t, b, m, s, r in itertools.product(TASKS, BACKBONES, METHODS, range(3), ["default", "fixed"])
        }
        kept = {
            point
            for point in points
            if not any(meant(w, dict(zip(["task", "backbone", "method", "seed", "ruleset"], point))) for w in exclude)  # noqa: B905
        }
        there = {tuple(c.axes[n] for n in ("task", "backbone", "method", "seed", "ruleset")) for c in found}
        assert not found or there == kept


def told(content: dict[str, Any]) -> tuple[tuple[GridCell, ...], tuple[str, ...]]:
    """The cells of a grid, or what is said against it."""
    try:
        return cells(**content), ()
    except ConfigError as fault:
        return (), fault.faults


def meant(where: dict[str, Any], axes: dict[str, Any]) -> bool:
    return all(axes[name] in values for name, values in where.items())


@pytest.mark.parametrize("name", sorted(ready_grids()))
def test_every_ready_grid_holds(name: str) -> None:
    grid = read_grid(name)
    assert grid.name == name
    assert grid.description
    assert grid.cost
    assert grid.resources.memory_mib
    found = expand(grid, **PLACES)
    assert len(set(names(found))) == len(found)
    catalogue, refused = Catalogue(), 0
    for cell in found:
        request = cell.request
        if request.encoder == "minilm":
            # Its weights are an extra; which encoder it is has no say in whether a cell can be run.
            request = request.model_copy(update={"encoder": "tfidf"})
        try:
            # A cell under `tuned` waits for a choice of `bench tune`.
            resolve(
                request.model_copy(
                    update={"device": "cpu", "ruleset": "default" if request.ruleset == "tuned" else request.ruleset}
                ),
                catalogue=catalogue,
            )
        except CapabilityMissing:
            refused += 1
    assert refused == 0, "what cannot be run is excluded by the grid, with its reason"


def test_the_grid_reassignment_moves_tokens_in_every_way_at_one_rate_and_weight() -> None:
    found = expand(read_grid("reassignment"), **PLACES)
    seeds = {(cell.request.task, cell.request.seed) for cell in found}
    assert seeds == set(itertools.product(["industrial-entangled", "industrial-brand"], range(5)))
    arms = {(cell.request.method, *sorted(cell.request.method_set.items())) for cell in found}
    assert len(found) == len(arms) * len(seeds)
    assert arms == {
        *((name,) for name in ("original", "retrain", "retain-only", "relabel")),
        *((name,) for name in ("tracer-no-reassignment", "tracer-zero-phi")),
        *(("tracer", ("phi_lr", rate)) for rate in (0.03, 0.1, 0.3, 1.0)),
        *(("random-reassign", ("lambda_forget", weight)) for weight in (0.0, 0.04, 0.4)),
    }
    trained = {str(arm[0]) for arm in arms} - set(REFERENCE_ROWS)
    configs = [load_class(find_method(name), UnlearningMethod).Config() for name in trained]  # type: ignore[type-abstract]
    assert {(config.lr, config.epochs, config.batch_size) for config in configs} == {(3e-5, 10, 128)}
    assert {config.lambda_forget for config in configs if hasattr(config, "lambda_forget")} == {0.4}


def test_the_published_grid_has_every_method_and_five_seeds_or_ten_where_it_was_tuned() -> None:
    rows = {name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of}
    assert len(rows) == 22
    rows |= {"tracer-no-reassignment", "tracer-zero-phi"}
    references = {"original", "retrain", "popularity", "sasrec"}
    found = [cell.request for cell in expand(read_grid("reference-cpu"), **PLACES)]
    brand = [cell for cell in found if cell.task == "industrial-brand"]
    for backbone, seeds in {"tiger": 5, "mor": 10, "letter": 1, "p5sid": 1, "etegrec": 1}.items():
        cells = [cell for cell in brand if cell.backbone == backbone]
        assert {(cell.method, cell.seed) for cell in cells} == set(itertools.product(rows | references, range(seeds)))
        ruleset = "tuned" if seeds >= 5 else "fixed"
        assert {cell.ruleset for cell in cells if cell.method in rows} == {ruleset}
    assert {(r.scale, r.encoder, r.device, r.threads, r.oracle_seeds) for r in found} == {
        ("small", "minilm", "cpu", 1, 1)
    }
