"""Which held-out concept interactions a model recommends; before any attack, that is read once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.evaluation.measurement import SharedPass, Subject
from genrec_unlearn_bench.evaluation.relearning.attacks import Space
from genrec_unlearn_bench.evaluation.relearning.division import divide
from genrec_unlearn_bench.evaluation.relearning.spaces import in_space, readable, spaces

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.recommender import Recommender
    from genrec_unlearn_bench.data.examples import BoolArray, Examples
    from genrec_unlearn_bench.progress import Progress

__all__ = ["BEAM", "PLACES", "START", "held_out_hits"]

BEAM = 50
"""Beam width: the attack asks what can be got back at all, not what a narrow search happens to keep."""

PLACES = 10
"""k of HR@k."""


def held_out_hits(recommender: Recommender, examples: Examples) -> BoolArray:
    """[n] whether each target is among the first ten items, by constrained beam search with beam 50."""
    # A served model that drops items from histories is given the whole history, as it drops before it cuts.
    cut = recommender.history_limit if recommender.serving.ignored is None else None
    ranking = recommender.recommend(examples.histories(cut), PLACES, beam=BEAM)
    return np.asarray(ranking.ranks(examples.targets) > 0, dtype=np.bool_)


def read_start(subject: Subject, progress: Progress) -> Mapping[str, NDArray[np.generic]]:
    """``served.train`` [n], ``served.test`` [m], and the same of ``original`` where it is another space."""
    division = divide(subject.split, subject.seed)
    found: dict[str, NDArray[np.generic]] = {}
    for space in spaces(subject):
        if space is Space.ORIGINAL and not readable(subject):
            continue
        recommender = in_space(subject, space)
        for part in progress.track(f"held-out, {space}", ("train", "test"), total=2):
            found[f"{space}.{part}"] = held_out_hits(recommender, getattr(division, part))
    return found


START = SharedPass("relearning-start", f"{__name__}:read_start")
"""Hits at step 0, in every space of the model."""
