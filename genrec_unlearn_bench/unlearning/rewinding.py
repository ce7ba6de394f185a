"""SCRUB+R's choice of a checkpoint (Kurmanji et al. 2023, arXiv 2302.09880, sec. 3).

An error on forgotten examples above that on unseen ones reveals what was forgotten. So training is rewound to the
checkpoint whose forget error is nearest to the last checkpoint's error on held-out examples of the same kind.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind, Groups
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.validation import sample

ROWS = 512


def held_out(request: ForgetRequest) -> Examples:
    """Examples of the same kind as the forget examples that no model was trained on; may be empty.

    Concept and item requests: the forget validation part, later interactions with the same items. For interaction
    requests that part holds trained interactions; instead, retain validation examples whose target is an item of a
    forgotten pair.
    """
    if request.kind is not ConceptKind.INTERACTION:
        return request.valid.forget
    retain = request.valid.retain
    return retain.subset(request.affected_items[retain.targets])


def nearest_checkpoint(forget_errors: list[float], reference: float) -> int:
    """Index of the checkpoint whose forget error is nearest to the reference; the earliest of ties."""
    gaps = np.abs(np.asarray(forget_errors) - reference)
    return int(np.where(np.isfinite(gaps), gaps, np.inf).argmin())


class Rewinding:
    """Copies of the parameters at each checkpoint, on the CPU, of which one is restored.

    The error is the mean NLL per token on at most 512 examples of each side: hit rates near 0.1 on a few hundred
    examples cannot distinguish two epochs, and the membership attacks that rewinding defends against use losses.
    """

    def __init__(self, model: Recommender, request: ForgetRequest) -> None:
        self._model = model
        drawn = sample(Groups(request.train.forget, held_out(request)), ROWS, request.seed)
        self._forget, self._held_out = drawn.forget, drawn.retain
        self._kept: list[dict[str, Tensor]] = []
        self._errors: list[float] = []

    def checkpoint(self) -> None:
        state = self._model.module.state_dict()
        self._kept.append({name: value.detach().to("cpu", copy=True) for name, value in state.items()})
        self._errors.append(self._error(self._forget))

    def rewind(self, progress: Progress) -> None:
        """Restore the chosen checkpoint; notes ``rewound_to`` (from 0), ``forget_errors`` and ``held_out_error``.

        Without held-out examples the last checkpoint is kept, and ``rewound_to`` is None.
        """
        if not len(self._held_out) or not self._kept:
            progress.note("rewound_to", None)
            return
        reference = self._error(self._held_out)
        chosen = nearest_checkpoint(self._errors, reference)
        self._model.module.load_state_dict(self._kept[chosen])
        progress.note("rewound_to", chosen)
        progress.note("forget_errors", self._errors)
        progress.note("held_out_error", reference)

    def _error(self, part: Examples) -> float:
        with torch.no_grad():
            values = self._model.target_log_probs(part.histories(self._model.history_limit), part.targets)
        return -float(values.mean())
