"""The stages of a stream: each request is unlearned from the last one's model, and each model is measured.

Every step and every evaluation is a stage of the store, so an interrupted stream goes on with the request that it
stopped at. Nothing in here knows a method: it is called as for one request, on its own output.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.pipeline.ground import Ground
from genrec_unlearn_bench.pipeline.scored import Scores, score
from genrec_unlearn_bench.pipeline.stream.account import write_account
from genrec_unlearn_bench.pipeline.stream.requests import Stream, data_digest
from genrec_unlearn_bench.pipeline.trained import Trained
from genrec_unlearn_bench.pipeline.unlearned import unlearned
from genrec_unlearn_bench.seeding import derive
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.unlearning.request import check_request

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.forget import ForgetSplit
    from genrec_unlearn_bench.pipeline.trained import Tokens
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent
    from genrec_unlearn_bench.unlearning.request import ForgetRequest

__all__ = ["Streamed", "unlearned_in_turn"]


@dataclass(frozen=True, eq=False)
class Streamed(Trained):
    """The model at the end of a stream, with the losses, notes and cost of all its requests.

    Attributes:
        steps: The model after each request; fewer than there are requests where one came to nothing finite.
        scores: Of every step but the last, on the requests so far and on the retain side of the whole stream.
    """

    steps: tuple[Trained, ...]
    scores: tuple[Scores, ...]

    @property
    def model(self) -> Path:
        return self.steps[-1].model


@dataclass(frozen=True, eq=False)
class _Ground(Ground):
    """The ground as it lies at one request.

    Attributes:
        number: The request, from 1.
        digest: Of the data as they are asked or measured at it.
    """

    number: int = 1
    digest: str = ""

    @property
    def identity(self) -> dict[str, str]:
        return {**super().identity, "request": f"{self.number} {self.digest}"}

    def request(self, seed: int) -> ForgetRequest:
        # Requests draw independently: one random direction or one order of batches for all would be an artefact.
        return super().request(derive(seed, "request", self.number))


def unlearned_in_turn(room: Workroom, ground: Ground, sids: Tokens, before: Trained, stream: Stream) -> Streamed:
    """Apply the setting's method to one request after the other, each time to its own output.

    Stops behind a request whose model has weights that are not finite: there is nothing to go on from.

    Raises:
        DataFault: A request has nothing to forget or nothing to keep; said before the first is carried out.
        BenchError: As ``unlearned``.
    """
    task, count = room.setting.task.name, len(stream.requests)
    for portion in stream.requests:
        asked = replace(ground, split=stream.asked(portion.number))
        check_request(asked.request(room.setting.seed), task=f"{task}, request {portion.number} of {count}")
    steps: list[Trained] = []
    scores: list[Scores] = []
    last = before
    for portion in stream.requests:
        number = portion.number
        room.progress.info(f"request {number} of {count}: {portion.interactions} interactions")
        step = unlearned(room, _at(ground, stream.asked(number), number), sids, last)
        last = replace(step, stage=replace(step.stage, name=f"unlearned {number}"))
        steps.append(last)
        if number < count:
            found = score(room, _at(ground, stream.so_far(number), number), sids, last)
            scores.append(found)
            if not found.measured:
                break
    return _whole(room, steps, scores)


def _at(ground: Ground, split: ForgetSplit, number: int) -> _Ground:
    return _Ground(
        ground.dataset, split, ground.features, ground.stages, ground.holdout, number=number, digest=data_digest(split)
    )


def _whole(room: Workroom, steps: Sequence[Trained], scores: Sequence[Scores]) -> Streamed:
    content: KeyContent = {
        "steps": [step.stage.digest for step in steps],
        "code": code_digests([write_account.__module__]),
    }

    def compute(folder: Path) -> Mapping[str, Any]:
        write_account(folder, [(step.stage.digest, step.stage.path) for step in steps])
        return {
            "seconds": sum(step.seconds for step in steps),
            "peak_memory_mib": max(step.peak_memory_mib for step in steps),
        }

    stage = room.stage("stream", content, compute)
    last = steps[-1]
    measured = [replace(found.stage, name=f"evaluation {n}") for n, found in enumerate(scores, start=1)]
    return Streamed(stage, (*last.upstream, last.stage, *measured), last.load, steps=tuple(steps), scores=tuple(scores))
