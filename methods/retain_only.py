"""Control: go on training on retain data, and do nothing about the forget data.

The oldest unlearning baseline: what a model forgets by itself while it learns something else. Minimises TRACER's retain
loss L_R (arXiv 2606.07688, eq. 7) alone, for as many steps and with the same optimiser and batches as ``tracer``, so
the two differ in L_F, L_Coh and the moved tokens; weights equal ``tracer-no-reassignment`` with λ1 = λ2 = 0 bit for
bit. Updates all parameters. Labels of forget examples are never read; their number sets the number of steps.

``retain-only-clean`` also drops what is to be forgotten from the histories it trains on, as retraining does: concept
items, or for interaction requests the forgotten pairs; rows whose history becomes empty are left out.

A retain score above the original's says that the original was not trained to the end: what other methods "keep" is then
partly this training.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from pydantic import Field

from genrec_unlearn_bench.data.forget import Groups
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.unlearning.losses.suppression import (
    RetainLossConfig,
    RetainObjective,
    train_with_discrete_sids,
)
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.search import Search


class RetainOnlyConfig(RetainLossConfig):
    """TRACER's optimiser and retain loss."""

    search = Search(clean_history=(False, True))

    clean_history: bool = Field(default=False)
    """Drop what is to be forgotten from the histories."""


class RetainOnly(UnlearningMethod[RetainOnlyConfig]):
    """Fine-tuning on retain examples."""

    name = "retain-only"
    Config = RetainOnlyConfig
    variants: ClassVar[Variants] = {"retain-only-clean": {"clean_history": True}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        model = recommender.clone()
        if self.config.clean_history:
            retain = request.cleaned(request.train.retain)
            if not len(retain):
                fault = "no retain example has a history left without what is to be forgotten"
                raise DataFault(fault, hint="run retain-only with clean_history=false")
            request = replace(request, train=Groups(request.train.forget, retain))
        objective = RetainObjective(self.config, request, recommender.sids)
        train_with_discrete_sids(model, objective, epochs=self.config.epochs, progress=progress)
        return model
