"""Methods written in a notebook: a class of a cell from its source to its run and its submission."""

from __future__ import annotations

import inspect
import linecache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import genrec_unlearn_bench as bench
from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.methods.npo import NPO
from genrec_unlearn_bench.notebook import cell_source, method_file
from genrec_unlearn_bench.registry import find_method, source_digest
from tests.pipeline.conftest import TINY
from tests.submissions.honest import known_leaderboard
from tests.test_api import COLUMNS

CELL = '''"""A method of a notebook."""
import torch
from pydantic import Field

import genrec_unlearn_bench as bench
from genrec_unlearn_bench import MethodConfig, UnlearningMethod

SHARE = 0.9

def shrink(weight, share):
    return weight * share

class MineConfig(MethodConfig):
    share: float = Field(default=SHARE, gt=0)
    """By how much the weights shrink."""

@bench.register_method
class Mine(UnlearningMethod[MineConfig]):
    """Shrinks all weights."""

    name = "mine"
    Config = MineConfig

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        with torch.no_grad():
            for weight in model.module.parameters():
                weight.copy_(shrink(weight, self.config.share))
        return model

df = bench.run("demo-brand", "does-not-exist")
'''


def run_cell(text: str) -> dict[str, Any]:
    """Run a cell as IPython does: its text is known to ``linecache`` alone. Its last line, a call, is not run."""
    name = f"<ipython-input-{abs(hash(text))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text.partition("df = ")[0], name, "exec"), space)
    return space


@pytest.fixture(autouse=True)
def _own_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("genrec_unlearn_bench.notebook.REGISTERED", {}, raising=True)


def test_what_there_is_comes_with_registered_methods() -> None:
    run_cell(CELL)
    found = bench.available("methods").set_index("method")
    assert found.loc["mine", "summary"] == "Shrinks all weights."
    assert {"tracer", "retrain"} <= set(found.index)
    assert set(tasks()) <= set(bench.available("tasks")["task"])


def test_the_source_of_a_cell_holds_what_the_class_uses_and_no_calls() -> None:
    mine = run_cell(CELL)["Mine"]
    source = cell_source(mine)
    assert source.startswith('"""A method of a notebook."""')
    assert "def shrink" in source
    assert "SHARE = 0.9" in source
    assert "register_method" not in source
    assert "bench.run" not in source
    assert "import genrec_unlearn_bench as bench" not in source


def test_decorated_functions_and_mere_fields_stand_where_they_were_written() -> None:
    source = cell_source(run_cell(CELL.replace("    def unlearn(", "    @torch.no_grad()\n    def unlearn("))["Mine"])
    assert "@torch.no_grad()" in source
    assigned = CELL.replace("    name = ", "    loss = staticmethod(torch.nn.functional.cross_entropy)\n    name = ")
    assert "loss = staticmethod" in cell_source(run_cell(assigned)["Mine"])
    stronger = type("Stronger", (NPO,), {"__module__": NPO.__module__, "name": "stronger"})
    assert method_file(stronger, Path("results")) == f"{inspect.getfile(NPO)}:Stronger"


def test_names_of_other_cells_are_named() -> None:
    with pytest.raises(UsageError, match="names that its cell does not define: torch"):
        run_cell(CELL.replace("import torch\n", ""))


def test_names_of_the_suite_are_taken() -> None:
    with pytest.raises(UsageError, match="belongs to a method of the suite"):
        run_cell(CELL.replace('"mine"', '"tracer"'))


@pytest.mark.slow
def test_a_class_of_a_cell_runs_is_keyed_by_its_source_and_can_be_submitted(tmp_path: Path) -> None:
    space = run_cell(CELL)
    options: dict[str, Any] = {"backbone_set": TINY, "threads": 1, "cache_dir": tmp_path / "cache"}
    df = bench.run("demo-brand", space["Mine"], **options)
    assert list(df.columns) == COLUMNS
    assert sorted(df["method"].unique()) == ["mine", "original", "retrain"]
    file = next((tmp_path / "results" / ".methods").rglob("mine.py"))
    assert file.parent.parent == tmp_path / "results" / ".methods"
    digest = source_digest(find_method(str(file)))
    record = next(iter(df.query("method == 'mine'")["folder"].unique()))
    assert digest in (Path(record) / "result.json").read_text()
    # By its name, from the results that are there; with another source, as another method.
    again = bench.run("demo-brand", "mine", **options)
    assert set(again["key"]) == set(df["key"])
    other = bench.run("demo-brand", run_cell(CELL.replace("0.9", "0.8"))["Mine"], **options)
    assert len(set(other["key"]) - set(df["key"])) == 1
    # What a run gave, what lies in its folder, and a table of either.
    assert bench.load_results(method="mine")["key"].nunique() == 2
    assert "mine" in bench.leaderboard(df).index.get_level_values("method")
    assert bench.compare("mine", "retrain", df)["n"].eq(1).all()
    words = ["--title", "Mine", "--author", "Ada | Here", "--contact", "ada@example.org", "--licence", "MIT"]
    call = ["submission", "new", "mine", "--method", str(file), *words, "--affirm-rules"]
    call += ["--leaderboard", str(known_leaderboard(tmp_path))]
    done = CliRunner().invoke(app, call)
    assert done.exit_code == 0, done.output
