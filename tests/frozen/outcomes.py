"""Outcomes of whole runs under protocol 2, before a redesign that must not change them, and how they are read.

``python -m tests.frozen.outcomes RESULTS`` writes ``outcomes.json.gz`` from a folder of results that the commands of
``CALLS`` have made: at each release, and where outcomes are meant to change. Those of protocol 1, frozen before the
pipeline was rebuilt, are in the history of this file.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "outcomes.json.gz"

# ``influence`` joins at the next freeze: it was corrected after this one.
METHODS = (
    "original,retrain,retrain-full,sasrec,popularity,blur,e2urec,elm,filter,filter-history,flat,grad-ascent,grad-diff,"
    "npo,pisces,random-reassign,relabel,repnoise,retain-only,rmu,scrub,simnpo,task-vector,tracer,"
    "tracer-no-reassignment,undial,wga"
)
VARIANTS = "blur-rmu,elm-official-eta,flat+,rmu-both,scrub-rewind,repnoise-faithful,pisces-neuron,tracer-paper"

CALLS: dict[str, list[str]] = {
    **{name: ["--method", METHODS, "--backbone", name] for name in ("tiger", "letter", "p5sid")},
    "variants": ["--method", VARIANTS],
    "full suite": ["--method", "original,filter,tracer", "--suite", "full"],
    "items": ["--task", "demo-item", "--method", "original,tracer,npo,filter-history"],
    "prices": ["--task", "demo-price", "--method", "original,tracer,npo,filter-history"],
    "interactions": ["--task", "demo-interaction", "--method", "original,npo,grad-diff,scrub"],
    "stream": ["--method", "tracer,npo", "--requests", "2"],
    "shadows": ["--method", "npo", "--suite", "full", "--measure", "membership", "--shadows", "4"],
}
"""Arguments of ``bench run``; the task is demo-brand where none is named."""

OF_A_CLOCK = ("cost.", "stream.seconds", "stream.share-of-retraining")
"""How the names of metrics begin that no two runs share: seconds, memory, and shares of them."""


def outcomes(results: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(cell, outcome) of every record below a folder."""
    for path in sorted(results.rglob("result.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        cell = record["cell"]
        asked = [cell[name] for name in ("task", "backbone", "method", "scale", "suite")]
        name = " ".join([*asked, f"requests={cell.get('requests', 1)}", *sorted(record.get("measuring", {}))])
        metrics = {
            f"{one['metric']} {one['group']} {one.get('beam', '')}": [one.get(part) for part in ("value", "n", "sd")]
            for one in record["metrics"]
            if not one["metric"].startswith(OF_A_CLOCK)
        }
        kept = ("dataset_digest", "task_digest", "per_user_digest", "holdout", "report", "diverged", "method_config")
        outcome = {part: record.get(part) for part in kept}
        tables = {table: _table(path.parent / "measurements" / f"{table}.csv") for table in record.get("tables", {})}
        yield name, {"metrics": metrics, "tables": tables, **outcome}


def _table(path: Path) -> str:
    """Digest of a measurement's table, the columns of a clock left out."""
    lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()]
    timed = [place for place, column in enumerate(lines[0]) if "seconds" in column or "share_of" in column]
    text = "\n".join(",".join(part for place, part in enumerate(line) if place not in timed) for line in lines)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def environment(results: Path) -> dict[str, Any]:
    """What the bits depend on beside the code, from any record."""
    record = json.loads(next(iter(sorted(results.rglob("result.json")))).read_text(encoding="utf-8"))
    machine = record["environment"]
    # The processor's maker: MKL multiplies otherwise on Intel's, under the same names of instructions and kernels.
    return {
        "device_name": machine["device_name"],
        "arithmetic": record["arithmetic"],
        "packages": machine["packages"],
    }


def frozen() -> dict[str, Any]:
    """What was frozen: ``environment`` and ``cells``."""
    content: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return content


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    content = {"environment": environment(folder), "cells": dict(outcomes(folder))}
    FILE.write_bytes(gzip.compress(json.dumps(content, sort_keys=True).encode(), mtime=0))
    values = sum(len(cell["metrics"]) for cell in content["cells"].values())
    print(f"{len(content['cells'])} cells, {values} metrics")
