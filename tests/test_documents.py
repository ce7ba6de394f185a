"""Documents: links lead somewhere, names are there, pages stay short, the README's method works, the site builds."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.grid.expand import expand, read_grid
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.testing import Planted, nll
from genrec_unlearn_bench.unlearning.method import UnlearningMethod

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
TOP = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "leaderboard").glob("*.md")),
]
GENERATED = {"claims.md"}
"""Pages that a command writes."""

GUIDES = {
    "tutorial": {"first-run", "your-method"},
    "how-to": {"own-data", "grids", "tables", "submit", "large"},
    "reference": {"cli", "api", "methods", "backbones", "measurements", "files"},
    "explanation": {"protocol", "statistics", "findings"},
}
EXPERIMENTS = {"claims", "planted", "does-reassignment-matter"}
"""Pages made from records, one an experiment."""


def text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def written(path: Path) -> str:
    """A page without the tables that a command fills in."""
    return re.sub(r"<!-- made: .*?<!-- end -->", "", text(path), flags=re.DOTALL)


def headings(path: Path) -> set[str]:
    """Anchors that GitHub gives to the headings of a page."""
    found = re.findall(
        r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text(path), flags=re.DOTALL | re.MULTILINE), re.MULTILINE
    )
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", [*PAGES, *TOP], ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    wrong = []
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", text(path)):
        file = path.parent / target if target else path
        if not file.exists() or (anchor and anchor not in headings(file)):
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def test_pages_that_code_names_exist() -> None:
    folders = ("genrec_unlearn_bench", "methods", "tasks", "leaderboard", "tests")
    files = [
        path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".yaml", ".txt")
    ]
    named = {page for path in files for page in re.findall(r"\bdocs/[\w/-]+\.md", text(path))}
    assert sorted(page for page in named if not (ROOT / page).exists()) == []


def test_there_are_sixteen_pages_besides_experiments() -> None:
    assert sum(len(kind) for kind in GUIDES.values()) == 16
    assert {path.stem for path in PAGES} == {"index", *EXPERIMENTS}.union(*GUIDES.values())


def test_the_index_lists_each_page_once() -> None:
    listed = re.findall(r"^.* <([\w-]+)>$", text(ROOT / "docs/index.md"), flags=re.MULTILINE)
    assert sorted([*listed, "index"]) == [path.stem for path in PAGES]


def test_documents_stay_short() -> None:
    words = {path.name: len(written(path).split()) for path in PAGES if path.name not in GENERATED}
    assert max(words.values()) <= 2000, words
    assert sum(words.values()) <= 20_000, words
    assert len(text(ROOT / "README.md").split()) <= 600


def test_numbers_of_the_findings_stand_in_the_tables() -> None:
    """Each .0123 above "Is it gone?" is a number of two tables of real data or of docs/statistics."""
    tables = {
        "leaderboard/site/tables/main-long.csv": ("mean", "difference", "difference_low", "difference_high", "margin"),
        "leaderboard/site/tables/attack-long.csv": ("mean",),
        "docs/statistics/sensitivity.csv": ("mean", "its mean", "difference", "low", "high"),
        "docs/statistics/floors.csv": ("forget HR@10",),
    }
    published = set()
    for name, columns in tables.items():
        with (ROOT / name).open(encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if not (row.get("task") or row["block"]).startswith("demo-")]
        published |= {f"{abs(float(row[column])):.4f}"[1:] for row in rows for column in columns if row[column]}
    page = text(ROOT / "docs/findings.md").split("## Is it gone?")[0]
    assert sorted(set(re.findall(r"(?<![\d.])\.\d{4}\b", page)) - published) == []


def test_what_is_missing_of_the_published_grid_is_said() -> None:
    """The number of cells, and every task and backbone: one that lacks a cell is not said to be whole."""

    def place(cell: Any) -> tuple[str, str, str, int, str]:
        return cell["task"], cell["backbone"], cell["method"], cell["seed"], cell["suite"]

    asked = expand(read_grid("reference-cpu"), data_dir=None, results_dir=Path(), tuned_dir=Path(), device=None)
    wanted = {place(cell.request.model_dump()) for cell in asked}
    records = (ROOT / "leaderboard/results").rglob("result.json")
    missing = wanted - {place(json.loads(text(path))["cell"]) for path in records}
    page = text(ROOT / "leaderboard/README.md")
    assert f"{len(missing)} of the grid's {len(wanted):,} cells" in page
    table = re.findall(r"^\| (`[^|]*`) \| (TIGER|[\w, -]+?)(?: \([^|]*\))? \| .* \| (.*) \|$", page, re.MULTILINE)
    whole = {
        (task, backbone.lower().replace("-", ""))
        for tasks, backbones, rest in table
        for task in re.findall(r"`([\w-]+)`", tasks)
        for backbone in backbones.split(", ")
        if rest == "–"
    }
    lacking = {(task, backbone) for task, backbone, *_ in missing}
    assert whole & {one[:2] for one in wanted} == {one[:2] for one in wanted} - lacking


def test_every_method_has_a_row() -> None:
    page = text(ROOT / "docs/methods.md")
    shipped = [name for name, entry in methods().items() if entry.kind == "method" and not entry.variant_of]
    missing = [name for name in shipped if f"`{name}`" not in page]
    assert missing == []


def test_the_method_of_the_readme_works(tmp_path: Path, planted: Planted) -> None:
    block = re.findall(r"```python\n(.*?)```", text(ROOT / "README.md"), flags=re.DOTALL)[0]
    file = tmp_path / "ascent.py"
    file.write_text(block, encoding="utf-8")
    method = load_class(find_method(str(file)), UnlearningMethod)
    unlearned = method(method.Config(lr=1e-3, batch_size=64, epochs=2)).unlearn(
        planted.original, planted.request, Progress()
    )
    forget = planted.request.train.forget
    assert nll(unlearned, forget) > nll(planted.original, forget) + 1


@pytest.mark.slow
@pytest.mark.skipif(find_spec("furo") is None, reason="pip install -e '.[docs]'")
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    words = ["-m", "sphinx", "--quiet", "-W", "-n", "--keep-going", str(ROOT / "docs"), str(tmp_path / "site")]
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # Nothing is fetched from elsewhere when a page is read.
    for page in (tmp_path / "site").glob("*.html"):
        assert not re.findall(r"<(?:script|img|link rel=\"stylesheet\")[^>]*(?:src|href)=\"https?://", text(page)), (
            page.name
        )


def test_cells_of_the_demo_are_named_by_their_present_key() -> None:
    published = {path.name for path in (ROOT / "leaderboard/results/demo-brand/tiger/tracer").iterdir()}
    help_text = ROOT / "genrec_unlearn_bench/cli/main.py"
    named = {
        key for path in (*PAGES, help_text) for key in re.findall(r"tracer/(smoke-seed0-[0-9a-f]{10})", text(path))
    }
    assert named
    assert named <= published


def test_published_choices_name_no_absolute_path() -> None:
    files = sorted((ROOT / "leaderboard/tuned").rglob("*.json"))
    assert files
    assert [str(path) for path in files if re.search(r"--[\w-]+[ =]/", text(path))] == []
