"""Output filter: the concept's leaves are taken out of the trie. The model itself is left as it is.

A trivial reference that the TRACER paper leaves out: forget scores are 0 by construction and at no cost, so that any
claim of an unlearning method has to rest on something else (histories, retain quality, probing, relearning).
Not defined for requests to forget single interactions, whose items stay in the catalogue.
"""

from __future__ import annotations

from dataclasses import replace

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.request import ForgetRequest


class Filter(UnlearningMethod[MethodConfig]):
    """Concept items are never recommended; nothing else changes."""

    name = "filter"
    kinds = frozenset(ConceptKind) - {ConceptKind.INTERACTION}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        return recommender.with_serving(replace(recommender.serving, blocked=request.items))
