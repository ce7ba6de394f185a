"""Output filter that also drops concept items from every history before the model reads it. No parameter is updated.

The strongest trivial reference: its behaviour meets both clauses of the TRACER paper's definition (concept items are
not recommended, and do not influence recommendations), while the parameters still contain the concept.
"""

from __future__ import annotations

from genrec_unlearn_bench.backbones.recommender import ServingRules
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.unlearning.method import ForgetRequest, MethodConfig, Progress, Recommender, UnlearningMethod


class FilterHistory(UnlearningMethod[MethodConfig]):
    """Concept items are neither recommended nor read in histories."""

    name = "filter-history"
    kinds = frozenset(ConceptKind) - {ConceptKind.INTERACTION}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_serving(ServingRules(blocked=request.items, ignored=request.items))
