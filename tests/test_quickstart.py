"""The notebook of the quickstart runs from its first to its last cell, and what is stored in it is of such a run.

``python -m tests.test_quickstart`` runs it and stores its outputs.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"
PATHS = re.compile(r"(?<![\w.])/(?:home|root|tmp|work|usr|Users|opt)/")


def executed(folder: Path) -> Any:
    """The notebook after all its cells were run in ``folder``, with a cache of its own; progress is left out."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    os.environ["GENREC_UNLEARN_BENCH_CACHE"] = str(folder / "cache")
    NotebookClient(
        notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(folder)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [each for each in cell.outputs if each.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def pictures(notebook: Any) -> int:
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return sum("image/png" in output.get("data", {}) for output in outputs)


def test_the_stored_outputs_are_whole_and_of_no_machine() -> None:
    stored = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    code = [cell for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert pictures(SimpleNamespace(cells=stored["cells"])) == 2
    for output in (output for cell in code for output in cell["outputs"]):
        assert not PATHS.search(json.dumps({**output, "data": {**output.get("data", {}), "image/png": ""}}))


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("nbclient")
    monkeypatch.setenv("GENREC_UNLEARN_BENCH_CACHE", "")
    assert pictures(executed(tmp_path)) == 2


if __name__ == "__main__":
    import nbformat

    with tempfile.TemporaryDirectory() as place:
        found = executed(Path(place))
    nbformat.write(found, NOTEBOOK)
