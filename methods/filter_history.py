"""Output filter, and concept items are dropped from every history before the model reads it.

The strongest trivial reference: behaviourally it meets both clauses of the TRACER paper's definition (concept items
are not recommended, and do not influence what is), while every parameter still knows the concept.
"""

from __future__ import annotations

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest


class FilterHistory(UnlearningMethod[MethodConfig]):
    """Concept items are neither recommended nor read."""

    name = "filter-history"
    kinds = frozenset(ConceptKind) - {ConceptKind.INTERACTION}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_serving(ServingRules(blocked=request.items, ignored=request.items))
