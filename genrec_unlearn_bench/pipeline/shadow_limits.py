"""What shadow models can be asked for, refused before any work where it cannot be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from genrec_unlearn_bench.backbones.minionerec.config import MiniOneRecConfig
from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.evaluation.ulira import LEAST

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.backbone import BackboneConfig
    from genrec_unlearn_bench.evaluation.suites import Suite
    from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["MOST_PARAMETERS", "check_shadows"]

MOST_PARAMETERS = 100_000_000
"""Of a recommender that shadows are trained of: T5 sizes. A language model is not trained N times to be measured."""


def check_shadows(request: RunRequest, suite: Suite, config: BackboneConfig) -> None:
    """Refuse a request for shadow models that cannot be served. Raises UsageError.

    The size of a network from scratch is known once the original is there: see ``shadows.shadowed``.
    """
    shadows = request.shadows
    if shadows < LEAST or shadows % 2:
        raise UsageError(
            f"shadow models come in pairs, at least {LEAST} of them, and {shadows} were asked for",
            hint="use --shadows 8, say",
        )
    if request.requests > 1:
        raise UsageError(
            "shadow models follow one request, and the forget set is divided into several",
            hint="leave out --shadows or --requests",
        )
    if not suite.holdout:
        raise UsageError(
            f"shadow models belong to the suite 'full', and the suite is {suite.name!r}",
            hint="use --suite full, or leave out --shadows",
        )
    if isinstance(config, MiniOneRecConfig) and config.checkpoint is not None:
        raise UsageError(
            f"the recommender is made of the language model {config.checkpoint}, and shadow models are trained of up "
            f"to {MOST_PARAMETERS / 1e6:.0f} million parameters",
            hint="leave out --shadows, or train from scratch (--set-backbone checkpoint=null)",
        )
