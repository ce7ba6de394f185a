"""Grid files: what they may say, and every fault of one at once, with its place."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import yaml

from genrec_unlearn_bench.backbones import backbones
from genrec_unlearn_bench.errors import ConfigError, UnknownName
from genrec_unlearn_bench.grid.expand import expand, groups, read_grid
from genrec_unlearn_bench.grid.spec import GridSpec, find_grid, ready_grids
from genrec_unlearn_bench.registry import REFERENCE_ROWS, methods

PAPER = {"tracer", "tracer-paper", "elm", "rmu", "repnoise", "repnoise-faithful", "flat", "blur", "pisces"}


def read(folder: Path, text: str) -> GridSpec:
    path = folder / "grid.yaml"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return read_grid(str(path))


def faults(folder: Path, text: str) -> list[str]:
    with pytest.raises(ConfigError) as told:
        read(folder, text)
    assert told.value.where is not None
    return list(told.value.faults)


def test_a_grid_of_two_lines(tmp_path: Path) -> None:
    spec = read(tmp_path, "name: mine\naxes: {task: demo-brand, method: tracer}")
    axes = spec.axes
    assert (axes.task, axes.method, axes.backbone, axes.seed) == (("demo-brand",), ("tracer",), ("tiger",), (0,))
    assert (axes.scale, axes.suite, axes.ruleset, axes.requests) == (("default",), ("core",), ("default",), (1,))


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("0:5", (0, 1, 2, 3, 4)),
        ("7", (7,)),
        ("[0, 2, 0]", (0, 2)),
        ("['0:2', 9]", (0, 1, 9)),
        ("[0:2, 1:3]", (0, 1, 2)),
        # What YAML 1.1 reads as 65, a number to the base 60.
        ("1:5", (1, 2, 3, 4)),
    ],
)
def test_seeds(tmp_path: Path, said: str, meant: tuple[int, ...]) -> None:
    assert read(tmp_path, f"name: g\naxes: {{task: demo-brand, method: tracer, seed: {said}}}").axes.seed == meant


@pytest.mark.parametrize("said", ["5:3", "3:3", "0:5:2", "-1", "one", "0:99999999", "1.5", "true"])
def test_seeds_that_are_none(tmp_path: Path, said: str) -> None:
    (fault,) = faults(tmp_path, f"name: g\naxes: {{task: demo-brand, method: tracer, seed: {said}}}")
    assert fault.startswith("axes.seed.0: ")


def test_groups_come_from_the_registry_and_one_file() -> None:
    found, known = groups(), methods()
    assert set(found["references"]) == set(REFERENCE_ROWS)
    assert set(found["main"]) == {
        name for name, entry in known.items() if entry.kind == "method" and not entry.variant_of
    }
    assert set(found["ablations"]) == {name for name, entry in known.items() if entry.variant_of}
    assert set(found["paper"]) == PAPER
    expected = {"random-reassign", "tracer-no-reassignment", "tracer-zero-phi", "relabel", "retain-only"}
    assert set(found["controls"]) == expected


def test_groups_patterns_and_names_on_one_axis_count_once(tmp_path: Path) -> None:
    axes = read(
        tmp_path, 'name: g\naxes: {task: "demo-*", method: [tracer, "@paper", "tracer-no-*"], backbone: all}'
    ).axes
    assert axes.method[0] == "tracer"
    assert len(axes.method) == len(set(axes.method))
    assert set(axes.method) == PAPER | {name for name in methods() if name.startswith("tracer-no-")}
    assert set(axes.task) == {"demo-brand", "demo-entangled", "demo-price", "demo-item", "demo-interaction"}
    assert axes.backbone == tuple(backbones())


def test_scalars_are_read_as_they_look(tmp_path: Path) -> None:
    spec = read(
        tmp_path,
        """
        name: g
        axes: {task: demo-brand, method: tracer}
        vary: {method_set.mask: [on, off], method_set.lr: [1e-4, 3e-5], method_set.phi_lr: 0.01}
        """,
    )
    assert spec.vary[0].fields == {
        "method_set.mask": ("on", "off"),
        "method_set.lr": (1e-4, 3e-5),
        "method_set.phi_lr": (0.01,),
    }


def test_files_are_found_beside_the_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(str(methods()["filter"].source)).read_text(encoding="utf-8")
    (tmp_path / "mine.py").write_text(source.replace('name = "filter"', 'name = "mine"'), encoding="utf-8")
    task = {"name": "own-brand", "dataset": "demo", "concept": {"kind": "brand"}}
    (tmp_path / "own.yaml").write_text(yaml.safe_dump(task), encoding="utf-8")
    monkeypatch.chdir("/")
    spec = read(tmp_path, "name: g\naxes: {task: own.yaml, method: [mine.py, filter]}")
    assert spec.axes.task == (str((tmp_path / "own.yaml").resolve()),)
    assert spec.axes.method == (str((tmp_path / "mine.py").resolve()), "filter")
    (fault,) = faults(tmp_path, "name: g\naxes: {task: demo-brand, method: other.py}")
    assert "no method file" in fault


ALL_FAULTS = """
name: try it
descripton: mine
axes:
  task: [industrial-brnd, "sports-*", demo-brand]
  backbone:
    - tiger
    - tigr
  method: ["@papr", tracer, tracr, 3]
  seed: [0:5, 5:3]
  scale: smol
  suite: ful
  measure: probng
vary:
  method_st.lr: [1, 1]
exclude:
  - {backbone: mor, why: "too large"}
  - {methd: tracer}
overrides:
  - where: {task: demo-brand}
    set: {resources: {memory: 3000}, oracle_seed: 2}
resources: {gpus: -1}
"""


def test_all_faults_at_once(tmp_path: Path) -> None:
    told = faults(tmp_path, ALL_FAULTS)
    places = [fault.partition(": ")[0] for fault in told]
    assert sorted(places) == [
        "axes.backbone.1",
        "axes.measure.0",
        "axes.method.0",
        "axes.method.2",
        "axes.method.3",
        "axes.scale.0",
        "axes.seed.1",
        "axes.suite.0",
        "axes.task.0",
        "descripton",
        "exclude.1.where",
        "name",
        "overrides.0.set.oracle_seed",
        "overrides.0.set.resources.memory",
        "resources.gpus",
        "vary.0.fields",
    ]
    near = [
        "description",
        "industrial-brand",
        "tiger",
        "@paper",
        "tracer",
        "full",
        "probing",
        "method_set.lr",
        "method",
    ]
    words = "\n".join(told)
    assert all(f"did you mean {name!r}" in words or f"did you mean {name}" in words for name in [*near, "memory_mib"])


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ("{backbone: mor}", "did you mean|which has tiger"),
        ("{method: trcer}", "did you mean tracer"),
        ('{method: "@controls"}', "not on the axis"),
        ('{method: "elm*"}', "not on the axis"),
        ("{seed: 3}", "not on the axis, which has 0, 1"),
        ("{seed: 2:9}", "not on the axis"),
        ("{dataset: industrial}", "not on the axis, which has demo"),
        ("{kind: price}", "not on the axis, which has brand"),
        ("{method: {a: 1}}", "not on the axis"),
        ("{}", "at least 1 item"),
        ("3", "valid dictionary"),
    ],
)
def test_a_match_means_something_on_its_axis(tmp_path: Path, entry: str, words: str) -> None:
    grid = "name: g\naxes: {task: demo-brand, method: [original, tracer], seed: 0:2}\n"
    (fault,) = faults(tmp_path, f"{grid}exclude:\n  - {entry}\n")
    assert fault.startswith("exclude.0")
    assert any(word in fault for word in words.split("|"))
    (fault,) = faults(tmp_path, f"{grid}overrides:\n  - where: {entry}\n    set: {{threads: 1}}\n")
    assert fault.startswith("overrides.0")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: g\nname: h\naxes: {}", "the key 'name' stands twice"),
        ("name: g\naxes: {task: a, task: b}", "the key 'task' stands twice"),
        ("- a\n- b", "a grid is a mapping"),
        ("", "a grid is a mapping"),
        ("name: [", "not valid YAML"),
        ("name: g", "axes: Field required"),
        ("name: g\naxes: {method: tracer}", "axes.task: Field required"),
        ("name: g\naxes: {task: demo-brand, method: []}", "at least 1 item"),
        ("name: g\naxes: {task: demo-brand, method: tracer}\nvary: {threads: []}", "at least 1 item"),
        ("name: g\naxes: {task: demo-brand, method: tracer}\nvary: [3]", "vary.0"),
    ],
)
def test_files_that_are_no_grid(tmp_path: Path, text: str, words: str) -> None:
    assert any(words in fault for fault in faults(tmp_path, text)), faults(tmp_path, text)


def test_a_grid_is_found_by_name_or_path(tmp_path: Path) -> None:
    assert find_grid("smoke").name == "smoke.yaml"
    with pytest.raises(UnknownName, match="reference-cpu"):
        find_grid("refrence-cpu")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_grid(str(tmp_path / "none.yaml"))
    assert "groups" not in ready_grids()


def test_the_examples_of_the_guide_are_one_grid(tmp_path: Path) -> None:
    """docs/grids.md explains one key after the other; put together, its examples are a grid that holds."""
    guide = (Path(__file__).parents[2] / "docs" / "grids.md").read_text(encoding="utf-8")
    text = "\n".join(part.partition("```")[0] for part in guide.split("```yaml\n")[1:])
    spec = read(tmp_path, text)
    assert {"axes", "settings", "vary", "exclude", "overrides", "resources"} <= spec.model_fields_set
    places = {"data_dir": None, "results_dir": tmp_path, "tuned_dir": tmp_path, "device": None}
    varied = expand(spec, **places)  # type: ignore[arg-type]
    plain = expand(spec.model_copy(update={"vary": (), "exclude": (), "overrides": ()}), **places)  # type: ignore[arg-type]
    assert f"{len(plain)} cells." in guide
    one = [c.name for c in varied if "industrial-brand/tiger" in c.name and c.name.partition("[")[0].endswith("seed0")]
    assert sum("/tracer/" in name for name in one) == 1 + 3 + 4
    counted = {name: len(expand(read_grid(name), **places)) for name in ready_grids()}  # type: ignore[arg-type]
    assert all(f"| `{name}` | {count:,} |" in guide for name, count in counted.items())
    assert guide.count("| `") > len(counted)
