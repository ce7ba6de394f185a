"""Seconds of two peers in one run: taken in turns, best of several, so that a busy machine hits both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import torch

A = TypeVar("A")
B = TypeVar("B")


@dataclass(frozen=True)
class Duel:
    """Best seconds of both sides."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """How many times as fast we are."""
        return self.theirs / self.ours

    def report(self, name: str, peer: str = "HF", note: str = "") -> None:
        """One line of the table that ``pytest -s`` shows."""
        line = f"{name}: ours {self.ours:.3f} s, {peer} {self.theirs:.3f} s, ratio {self.ratio:.1f}"
        print(f"\n{line}, {_threads()}{note}", flush=True)


def _threads() -> str:
    return "2 threads, wall-clock" if torch.get_num_threads() > 1 else "1 thread, processor time"


def free_threads() -> int:
    """2 if a second thread really helps just now, else 1.

    On a machine that others keep busy, threads wait for each other at every barrier, and both sides measure the
    scheduler.
    """
    matrix = torch.ones(384, 384)
    before = torch.get_num_threads()
    spent = []
    for count in (1, 2):
        torch.set_num_threads(count)
        runs = sorted(_wall(lambda: torch.mm(matrix, matrix)) for _ in range(60))
        spent.append(sum(runs[:54]))  # the slowest tenth is left out: one stall says little
    torch.set_num_threads(before)
    return 2 if spent[1] < 0.75 * spent[0] else 1


def _wall(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def timed(work: Callable[[], A]) -> tuple[float, A]:
    """Seconds of one call, and what it gave: wall-clock, or processor time where a single thread works.

    The latter does not count the waiting for a processor that others hold.
    """
    clock = time.perf_counter if torch.get_num_threads() > 1 else time.process_time
    start = clock()
    result = work()
    return clock() - start, result


def duel(ours: Callable[[], A], theirs: Callable[[], B], *, rounds: int, ours_per_round: int = 1) -> tuple[Duel, A, B]:
    """Best of ``rounds`` for them and of ``rounds * ours_per_round`` for us, and the last results of both.

    The shorter side may run more often: its time suffers more from an interruption.
    """
    runs = [([timed(ours) for _ in range(ours_per_round)], timed(theirs)) for _ in range(rounds)]
    best = min(took for mine, _ in runs for took, _ in mine)
    peer = min(took for _, (took, _) in runs)
    return Duel(best, peer), runs[-1][0][-1][1], runs[-1][1][1]
