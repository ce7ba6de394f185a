"""A sweep of light jobs as a process of its own, to be killed: ``python -m tests.executors.light_sweep ROOT``."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from pathlib import Path

from genrec_unlearn_bench.executors.local import LocalProcesses, Machine
from genrec_unlearn_bench.executors.sweep import Sweep
from genrec_unlearn_bench.grid.spec import Job
from genrec_unlearn_bench.grid.state import SweepFolder
from genrec_unlearn_bench.progress import Progress
from tests.executors.light_work import WORK, job

METHODS = ("original", "filter", "grad-diff", "npo", "rmu", "tracer")


def jobs(root: Path, seeds: int, seconds: float) -> list[Job]:
    """Originals, and on each the cells of some methods."""
    found = []
    for seed in range(seeds):
        found.append(job(f"stage {seed}", root, until="original", method="original", seed=seed, seconds=seconds))
        found += [
            job(f"{name} {seed}", root, method=name, seed=seed, seconds=seconds, needs=(f"stage {seed}",))
            for name in METHODS
        ]
    return found


class Said(Progress):
    """Says it on stderr."""

    def info(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = SweepFolder.of(given.root / "cache", "light")
    cores = max(2, given.processes)
    machine = Machine(cores=cores, gpus=())
    local = LocalProcesses(folder, processes=given.processes, machine=machine, work=WORK)
    wanted = jobs(given.root, given.seeds, given.seconds)
    sweep = Sweep(wanted, local, folder, Said())
    outcome = sweep.run()
    print(json.dumps(sorted(set(outcome.done) & set(sweep.tries))), flush=True)
    return 130 if outcome.interrupted else 1 if outcome.failed or outcome.left else 0


if __name__ == "__main__":
    sys.exit(main())
