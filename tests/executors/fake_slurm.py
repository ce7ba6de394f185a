"""Slurm's commands as small scripts: ``sbatch`` keeps what it is given, the others say what they are told to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

SCRIPTS = {
    "srun": "exit 0",
    "sbatch": """
number=$(($(ls "$HERE"/submitted | wc -l) + 1))
if grep -q "array=0-6" "$1"; then echo "sbatch: error: Job array too large" >&2; exit 1; fi
cp "$1" "$HERE/submitted/$number.sh"
echo "Submitted batch job $number"
""",
    "squeue": """
if [ ! -e "$HERE/queue" ]; then echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; fi
if [ ! -s "$HERE/queue" ]; then echo "slurm_load_jobs error: Invalid job id specified" >&2; exit 1; fi
cat "$HERE/queue"
""",
}


class FakeSlurm:
    """A folder with Slurm's commands, first on the path."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        (root / "submitted").mkdir(parents=True)
        for name, text in SCRIPTS.items():
            (root / name).write_text(f"#!/bin/bash\nHERE={root}\n{text}")
            (root / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{root}{os.pathsep}{os.environ['PATH']}")

    def queue(self, *lines: str) -> None:
        """What ``squeue`` says: ``id|STATE|reason``; nothing means that it knows none of the jobs."""
        (self.root / "queue").write_text("".join(f"{line}\n" for line in lines))

    def submitted(self) -> list[str]:
        """The scripts that ``sbatch`` was given, in their order."""
        paths = sorted((self.root / "submitted").iterdir(), key=lambda path: int(path.stem))
        return [path.read_text() for path in paths]
