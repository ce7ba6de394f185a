"""Output filter: remove the concept's leaves from the trie. The model is not updated.

A trivial reference that is not in the TRACER paper: forget scores are 0 by construction and at no cost, so the value of
an unlearning method must show elsewhere (histories, retain quality, probing, relearning). Not defined for requests to
forget single interactions, whose items stay in the catalogue.
"""

from __future__ import annotations

from dataclasses import replace

from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.unlearning.method import ForgetRequest, MethodConfig, Progress, Recommender, UnlearningMethod


class Filter(UnlearningMethod[MethodConfig]):
    """Concept items are never recommended; nothing else changes."""

    name = "filter"
    kinds = frozenset(ConceptKind) - {ConceptKind.INTERACTION}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_serving(replace(recommender.serving, blocked=request.items))
