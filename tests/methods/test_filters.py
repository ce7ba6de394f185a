from __future__ import annotations

import numpy as np
import pytest

from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import CapabilityMissing
from genrec_unlearn_bench.methods.filter import Filter
from genrec_unlearn_bench.methods.filter_history import FilterHistory
from genrec_unlearn_bench.pipeline.request import RunRequest
from genrec_unlearn_bench.pipeline.resolve import resolve
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.method import MethodConfig
from tests.planted import HISTORY, Planted

METHODS = [Filter, FilterHistory]


@pytest.mark.parametrize("method", METHODS)
def test_concept_items_are_never_recommended(planted: Planted, method: type[Filter]) -> None:
    model = method(MethodConfig()).unlearn(planted.original, planted.request, Progress())
    part = planted.test.forget
    lists = model.recommend(part.histories(HISTORY), 10, beam=20)
    assert not planted.request.items[lists.items].any()
    assert planted.original.serving.blocked is None


def test_the_plain_filter_keeps_the_scores_of_what_is_left(planted: Planted) -> None:
    model = Filter(MethodConfig()).unlearn(planted.original, planted.request, Progress())
    histories = planted.test.retain.subset(np.arange(20)).histories(HISTORY)
    full, left = (m.recommend(histories, 64, exact=True) for m in (planted.original, model))
    for row in range(20):
        kept = ~planted.request.items[full.items[row]]
        np.testing.assert_array_equal(full.items[row][kept], left.items[row][:56])
        np.testing.assert_allclose(full.log_probs[row][kept], left.log_probs[row][:56], atol=1e-5)


def test_only_the_history_filter_makes_lists_blind_to_concept_items(planted: Planted) -> None:
    part = planted.test.retain
    rows = part.subset(part.history_contains(planted.request.items, HISTORY))
    with_concept, without = rows.histories(HISTORY), rows.without_items(planted.request.items).histories(HISTORY)
    served = {m: m(MethodConfig()).unlearn(planted.original, planted.request, Progress()) for m in METHODS}
    lists = {m: [served[m].recommend(h, 10, beam=20).items for h in (with_concept, without)] for m in METHODS}
    assert not np.array_equal(*lists[Filter])
    # The history filter cuts after dropping, so compare histories that are short enough for both.
    short = rows.history_lengths() <= HISTORY
    a, b = lists[FilterHistory]
    np.testing.assert_array_equal(a[short], b[short])


@pytest.mark.parametrize("method", METHODS)
def test_interaction_requests_are_refused_before_anything_is_trained(method: type[Filter]) -> None:
    """Their items stay in the catalogue, so that there is nothing to take out of the trie."""
    assert ConceptKind.INTERACTION not in method.kinds
    with pytest.raises(CapabilityMissing, match="interaction"):
        resolve(RunRequest(task="demo-interaction", method=method.name))
