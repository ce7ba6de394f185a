"""Jobs that cost nothing but go the way of real ones: shared stages in the store, a result, and every way to end.

What a job does is said in its request's ``method_set``; nothing here imports torch, so a process starts at once.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.grid.job import Job
from genrec_unlearn_bench.grid.resources import Resources
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.shelf import Shelf
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore, StoredStage

WORK = f"{__name__}:do"


@dataclass(frozen=True)
class Light:
    """What a job that ends in a result comes to."""

    folder: Path


def do(job: Job, store: StageStore, progress: Progress, shelf: Shelf | None = None) -> Light | None:
    """Do a job: the original, and on it what the job asks for."""
    request = job.request
    ways = request.method_set
    seconds = float(ways.get("seconds", 0.0))

    def original(folder: Path) -> Mapping[str, Any]:
        for step in progress.track("training", range(4)):
            time.sleep(seconds / 4)
            progress.follow("training", step, {"loss": 1.0 / (1 + step)})
            (folder / f"part{step}").write_text(f"{request.seed} {step}\n")
        return {"seconds": seconds}

    before = store.stage("original", {"task": request.task, "seed": request.seed}, original)
    progress.info("original: from the cache" if before.cached else "original: computed")
    if job.until != "result":
        return None
    _behave(str(ways.get("ends", "")), request.results_dir / job.name, ways)

    def unlearned(folder: Path) -> None:
        time.sleep(seconds)
        (folder / "model").write_text(f"{before.digest} {request.method} {os.environ.get('OMP_NUM_THREADS', '')}\n")

    row = store.stage("unlearned", {"original": before.digest, "method": request.method}, unlearned)
    return Light(_written(job, row))


def _written(job: Job, row: StoredStage) -> Path:
    """The result: the same bytes whenever it is written, but for the times."""
    request = job.request
    folder = request.results_dir / request.task / request.method / f"seed{request.seed}-{row.key[:10]}"
    record = {"job": job.name, "digest": row.digest, "threads": request.threads, "created": time.time()}
    with atomic_folder(folder, "--results-dir", replace=True) as draft:
        (draft / "result.json").write_text(json.dumps(record, indent=2))
    return folder


def _behave(ends: str, place: Path, ways: Mapping[str, Any]) -> None:
    """End as asked. What ends with ``once`` does so at the first attempt alone."""
    if ends.endswith(" once"):
        place.parent.mkdir(parents=True, exist_ok=True)
        met = place.with_name(f".{place.name}.met")
        if met.exists():
            return
        met.touch()
        ends = ends.removesuffix(" once")
    if ends == "fault":
        raise DataFault("a line is broken", where="items.csv:7", hint="mend it")
    if ends == "bug":
        raise ZeroDivisionError("a bug")
    if ends == "nfs":
        raise OSError(errno.ESTALE, "Stale file handle")
    if ends == "network":
        raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
    if ends == "full":
        raise OSError(errno.ENOSPC, "No space left on device", str(place))
    if ends == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if ends == "exit":
        sys.exit(3)
    if ends == "warns":
        print("noise on the output", flush=True)
        warnings.warn("look here", RuntimeWarning, stacklevel=1)
    if ends == "poison":
        # Breaks what later jobs of the same process would use, and then fails.
        time.sleep = None  # type: ignore[assignment]
        raise DataFault("poisoned")
    if ends == "spins":
        for _ in range(int(ways["turns"])):
            pass
    if ends == "hangs":
        time.sleep(3600)
    if ends == "grows":
        held = bytearray(int(ways["mib"]) << 20)
        held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
        time.sleep(float(ways.get("holds", 3600)))


def job(name: str, tmp: Path, *, needs: tuple[str, ...] = (), until: str = "result", **ways: Any) -> Job:
    """A job on the demo. ``seed``, ``cores``, ``memory_mib``, ``minutes`` are its own; the rest is how it behaves."""
    resources = {key: ways.pop(key) for key in ("cores", "gpus", "memory_mib", "minutes") if key in ways}
    request = RunRequest(
        task=ways.pop("task", "demo-brand"),
        method=ways.pop("method", name),
        seed=ways.pop("seed", 0),
        method_set=ways,
        device="cpu",
        results_dir=tmp / "results",
    )
    return Job(
        name=name,
        request=request,
        until=until,  # type: ignore[arg-type]
        needs=needs,
        cells=(name,),
        resources=Resources(**resources),
    )
