"""Two figures that must stay small: files that one ``bench run`` passes through, and the size of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "genrec_unlearn_bench"

ORCHESTRATION = ("cli", "pipeline", "store", "grid", "executors", "tuning")
MOST_FILES_OF_A_RUN = 20
MOST_LINES, MOST_FILES = 48_000, 310

TRACED = """
import sys
from pathlib import Path

folders = tuple(str(Path(sys.argv[1]) / name) for name in sys.argv[2].split(","))
found = {}

def called(frame, event, argument):
    name = frame.f_code.co_filename
    # A module's own body runs when it is imported; what is counted is functions.
    if event == "call" and name not in found and frame.f_code.co_name != "<module>" and name.startswith(folders):
        if not any(part in frame.f_code.co_qualname for part in ("<lambda>", "<listcomp>", "<genexpr>", "<dictcomp>")):
            if frame.f_code.co_flags & 0x2:  # a function, not the body of a class
                found[name] = None

from genrec_unlearn_bench.cli.main import app

sys.setprofile(called)
try:
    app(sys.argv[3:], standalone_mode=False)
finally:
    sys.setprofile(None)
    print("\\n".join(found), file=sys.stderr)
"""

CALL = [
    *("run", "--task", "demo-brand", "--method", "grad-diff", "--set", "max_steps=2", "--oracle-seeds", "0"),
    *("--set-backbone", "training.max_steps=2", "--set-backbone", "shape.layers=1"),
]


@pytest.mark.slow
def test_one_run_passes_through_few_files(tmp_path: Path) -> None:
    folders = ["--results-dir", str(tmp_path / "results"), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-c", TRACED, str(PACKAGE), ",".join(ORCHESTRATION), *CALL, *folders],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    files = [line for line in done.stderr.splitlines() if line.startswith(str(PACKAGE)) and line.endswith(".py")]
    listing = "\n".join(str(Path(file).relative_to(PACKAGE)) for file in files)
    print(f"{len(files)} files of orchestration in the order of their first call:\n{listing}")
    assert 5 < len(files) <= MOST_FILES_OF_A_RUN, listing


def test_the_package_stays_small() -> None:
    files = [path for folder in (PACKAGE, ROOT / "methods") for path in folder.rglob("*.py")]
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
    print(f"package and methods: {lines} lines in {len(files)} files")
    assert lines <= MOST_LINES
    assert len(files) <= MOST_FILES
