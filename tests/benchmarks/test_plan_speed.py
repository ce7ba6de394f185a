"""Plan of 21,000 cells that are all done, against the part of it that nobody can spare.

The peer makes the three keys that a cell has of its own (row, evaluation, result) from ready recipes and looks at the
two files of its result. Run with ``-s`` to see the seconds, which are processor time.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from genrec_unlearn_bench.grid.expand import GridCell, expand, graph_builder, read_grid
from genrec_unlearn_bench.grid.plan import make_plan
from genrec_unlearn_bench.pipeline.results import result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.manifest import content_key
from genrec_unlearn_bench.store.store import StageStore

pytestmark = pytest.mark.speed

SEEDS = 200
GRID = f"""name: large
axes: {{task: demo-brand, backbone: all, method: ["@references", "@main"], seed: "0:{SEEDS}"}}
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder in memory where there is one: 42,000 small files are no measure of a plan."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(dir=shared if os.access(shared, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder)


def cells_of(memory: Path) -> tuple[GridCell, ...]:
    """The grid's cells."""
    spec = read_grid(str(memory / "large.yaml"))
    places = {"data_dir": None, "results_dir": memory / "results", "tuned_dir": memory / "tuned"}
    return expand(spec, **places, device="cpu")


def finish(cells: Sequence[GridCell]) -> tuple[list[Path], list[dict[str, object]]]:
    """Leave a result for every cell; the folders, and the recipes that are the cells' own."""
    build, folders, recipes = graph_builder(), [], []
    for cell in cells:
        graph = build(cell.request)
        folder = result_folder(cell.request.results_dir, graph.cell, graph.result.key)
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}")
        (folder / "per_user.parquet").write_text("users")
        folders.append(folder)
        own = (graph.result.inputs["row"], graph.result.inputs["scores of row"], graph.result)
        recipes += [stage.recipe for stage in own]
    return folders, recipes


def test_a_plan_of_finished_cells(memory: Path) -> None:
    (memory / "large.yaml").write_text(GRID)
    folders, recipes = finish(cells_of(memory))

    def plan() -> None:
        cells = cells_of(memory)
        found = make_plan(cells, graph_builder(), StageStore(memory / "cache"), Progress())
        assert found.counts["done"] == len(cells) == len(folders) >= 20_000

    def least() -> None:
        for recipe in recipes:
            content_key(recipe)
        for folder in folders:
            (folder / "result.json").read_bytes()
            os.stat(folder / "per_user.parquet")

    took = {}
    for name, work in (("plan", plan), ("keys and files", least)):
        times = []
        for _ in range(2):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        took[name] = min(times)
    ratio = took["plan"] / took["keys and files"]
    print(f"\n{len(folders)} cells: {', '.join(f'{name} {value:.2f} s' for name, value in took.items())}, {ratio:.1f}")
    assert ratio <= 4.5
