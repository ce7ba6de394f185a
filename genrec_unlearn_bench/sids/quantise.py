"""Quantise item features to a table of semantic IDs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import BenchError, DataFault
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.sids.collisions import resolve_collisions, with_ordinals
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.kmeans import fit_residual_kmeans
from genrec_unlearn_bench.sids.table import SidTable, nearest_codes

if TYPE_CHECKING:
    from genrec_unlearn_bench.sids.rqvae_training import ExtraTerms

FloatArray = NDArray[np.float32]
BoolArray = NDArray[np.bool_]


def quantise(
    features: FloatArray,
    config: SidConfig,
    *,
    seed: int,
    device: str,
    progress: Progress,
    fit_rows: BoolArray | None = None,
    extra: ExtraTerms | None = None,
) -> SidTable:
    """Give N items their semantic IDs, version 0, with codebooks and latents.

    Codes are the nearest codewords of the residuals, exactly as ``SidTable.distances`` measures them, except on the
    last codebook where ``config.resolve_rounds`` moved colliding items apart. With ``config.collision_token`` one more
    level makes every SID unique.

    Args:
        features: [N, D], finite.
        device: Where an RQ-VAE is trained; residual k-means runs on the CPU.
        fit_rows: [N] rows the quantiser is fitted on (an oracle may not see concept items); all rows are encoded.
        extra: Further terms of the RQ-VAE's loss; residual k-means has no loss and knows none.

    Raises:
        DataFault: Features that are not finite, or fewer than two rows to fit on.
        BenchError: The RQ-VAE diverged.
    """
    features = np.ascontiguousarray(features, dtype=np.float32)
    fit = np.ones(len(features), dtype=bool) if fit_rows is None else fit_rows
    _check(features, fit)
    if config.quantiser == "rkmeans":
        latents, books = fit_residual_kmeans(features, config, fit=fit, seed=seed, progress=progress)
    else:
        import torch

        from genrec_unlearn_bench.sids.rqvae_training import fit_rqvae

        model = fit_rqvae(features, config, fit=fit, seed=seed, device=device, progress=progress, extra=extra)
        latents, books = model.latents(torch.from_numpy(features).to(device)), model.books()
        if not all(np.isfinite(found).all() for found in (latents, *books)):
            raise BenchError(
                "the RQ-VAE diverged: its latents are not finite", where="sids", hint="lower the rate `lr`"
            )
    table = SidTable(
        codes=nearest_codes(latents, books),
        level_sizes=(config.codes,) * config.levels,
        quantised_levels=config.levels,
        codebooks=books,
        latents=latents,
    )
    table = resolve_collisions(table, config, progress=progress)
    return with_ordinals(table, config.collision_slack) if config.collision_token else table


def _check(features: FloatArray, fit: BoolArray) -> None:
    if features.ndim != 2 or fit.shape != features.shape[:1]:
        raise ValueError(f"features {features.shape} and rows to fit on {fit.shape} do not belong together")
    bad = np.flatnonzero(~np.isfinite(features).all(axis=1))
    if bad.size:
        raise DataFault(
            f"the features of {bad.size} items are not finite numbers",
            where=f"item row {bad[0]}" + (" and others" if bad.size > 1 else ""),
            hint="check the text encoder, or choose another one",
        )
    check_fit_rows(fit)


def check_fit_rows(fit: BoolArray) -> None:
    """Raise DataFault unless two rows or more are marked."""
    if int(fit.sum()) < 2:
        raise DataFault(
            f"semantic IDs need at least two items to be fitted on, and there are {int(fit.sum())}",
            hint="check the dataset's filters and the task's concepts",
        )
