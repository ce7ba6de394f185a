"""Jobs that cost nothing but go the way of real ones: stages in the store, a result, and every way to end.

What a job does is said in its request's ``method_set``; nothing here imports torch, so a process starts at once.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.executors.task import WorkResult, make_stage
from genrec_unlearn_bench.grid.spec import RESULT, Job, Resources
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.stage import StageContext
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.store import StageStore
from tests.grid.light_graphs import LightBuilder, run_light

WORK = f"{__name__}:do"


def do(job: Job, store: StageStore, progress: Progress) -> WorkResult:
    """Do a job: its shared stages, or what it depends on, what it asks for, and its result."""
    ways = job.request.method_set
    graph = LightBuilder(seconds=float(ways.get("seconds", 0.0)))(job.request)
    context = StageContext(store, progress)
    if job.until != RESULT:
        make_stage(job, graph.stages.values(), context)
        return WorkResult()
    make_stage(job.model_copy(update={"key": graph.stages["original"].key}), graph.stages.values(), context)
    _behave(str(ways.get("ends", "")), job.request.results_dir / job.name, ways, progress)
    return WorkResult(run_light(job.request, graph, context), diverged=ways.get("ends") == "diverges")


def _behave(ends: str, place: Path, ways: Mapping[str, Any], progress: Progress) -> None:
    """End as asked. What ends with ``once`` does so at the first attempt alone."""
    if ends.endswith(" once"):
        met = place.with_name(f".{place.name}.met")
        met.parent.mkdir(parents=True, exist_ok=True)
        if met.exists():
            return
        met.touch()
        ends = ends.removesuffix(" once")
    if ends == "fault":
        raise DataFault("a line is broken", where="items.csv:7", hint="fix it")
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
    if ends == "spins":
        for _ in range(int(ways["turns"])):
            pass
    if ends == "hangs":
        time.sleep(3600)
    if ends == "stubborn":
        progress.info("deaf")
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(3600)
    if ends == "grows":
        held = bytearray(int(ways["mib"]) << 20)
        held[:: 1 << 12] = b"x" * len(held[:: 1 << 12])
        time.sleep(3600)


def job(name: str, tmp: Path, *, needs: tuple[str, ...] = (), until: str = RESULT, **ways: Any) -> Job:
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
    key = LightBuilder()(request).stages[until].key
    return Job(
        name=name, request=request, until=until, key=key, needs=needs, cells=(name,), resources=Resources(**resources)
    )
