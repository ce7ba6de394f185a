"""Settles the cells of a grid: same answers and errors as ``settle``, with what they share worked out once.

A request is settled in two steps, the recommender and the method on it. The first is shared by all methods and seeds,
the second by all seeds, so that tens of thousands of cells take seconds rather than an hour.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from genrec_unlearn_bench.data.formats.log_columns import Names
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.pipeline.setting import settle_method, settle_recommender

if TYPE_CHECKING:
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.setting import Setting

__all__ = ["Settler", "recommender_of"]

_METHOD = {"method", "method_set", "ruleset", "tuned_dir"}
_PLACE = {"seed", "results_dir"}


class Settler:
    """``settle`` for many requests. What changes on disk while it lives is not seen."""

    def __init__(self) -> None:
        self._names = Names()
        self._recommenders: dict[str, Setting | BenchError] = {}
        self._methods: dict[tuple[str, str], Setting | BenchError] = {}

    def __call__(self, request: RunRequest) -> Setting:
        """The setting of a request. Raises what ``settle`` raises."""
        shared = recommender_of(request)
        # A tuned configuration may not be reported at the seeds it was tuned at, so there the seed matters.
        own = request.model_dump_json(include=_METHOD | ({"seed"} if request.ruleset == "tuned" else set()))
        found = self._methods.get((shared, own))
        if found is None:
            found = self._methods[shared, own] = self._settled(request, shared)
        if isinstance(found, BenchError):
            raise found
        return replace(found, request=request.model_copy(update={"scale": found.scale.value}))

    def _settled(self, request: RunRequest, shared: str) -> Setting | BenchError:
        try:
            if shared not in self._recommenders:
                self._recommenders[shared] = _recommender(request, self._names)
            before = self._recommenders[shared]
            return before if isinstance(before, BenchError) else settle_method(before, request, self._names)
        except BenchError as fault:
            return fault


def recommender_of(request: RunRequest) -> str:
    """What of a request its recommender and measurements depend on, besides the seed, as a key for memos."""
    return request.model_dump_json(exclude=_METHOD | _PLACE)


def _recommender(request: RunRequest, names: Names) -> Setting | BenchError:
    try:
        return settle_recommender(request, names)
    except BenchError as fault:
        return fault
