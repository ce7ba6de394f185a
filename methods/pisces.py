"""PISCES: precise in-parameter concept erasure (Gur-Arieh et al. 2025, arXiv 2505.22586).

Value vectors of feed-forward layers (columns of W_out) are encoded in a dictionary of features; concept features are
set to a large value of the opposite sign in every value vector that contains them, and the value vectors are decoded
again plus the dictionary's error (unlearning/dictionaries/value_vectors.py). Updates W_out only, without gradients.
Selection, sign, ``linscale`` (there for Gemma alone) and search follow the official code (yoavgur/PISCES at 1d576fe).
Deviations, with reasons:

* Dictionaries: the official SAEs are pretrained on text. Here a TopK SAE (arXiv 2406.04093) is trained for every layer
  on the original's MLP outputs over forget and retain train data. A layer is used only if its SAE leaves at most 20 %
  of held-out variance and ranking with the SAE spliced in keeps 95 % of NDCG@10. If no layer passes, the method
  returns an unchanged clone and notes ``applicable = False``: a result, not an error.
* Codes of a value vector are taken before TopK: k is meant for activations.
* Concept features: semantic IDs have no concept words, so AUROC against matched retain examples and an output score
  replace them (unlearning/dictionaries/concept_features.py), for each brand by itself. The sign of the output score is
  the official ``neg``.
* Filters, with one feature alone at τ .9 and μ 16: it must not raise the probability of its brand's targets, on the
  train pairs that found it (the official filter a; b, that it fires at all, is part of the search for features; the
  official limit on similar concepts never bites). The official .02 of MMLU has no analogue: 2 % of NDCG@10 on some
  hundred users is noise, and the retain score is guarded where the edit as a whole is chosen.
* Sign of gated neurons: the majority on the forget examples; a neuron without one counts as positive (official: 0,
  which is ablation). ReLU neurons are positive.
* Search: at most 24 points of the official 10 x 10 grid of τ and μ, on validation samples. Efficacy is 1 - HR@10 /
  original, specificity NDCG@10 / original, coherence the probability of P(i) / original. Too strong means less than
  ``retain_floor`` of the retain score (official: .45 of MMLU's .61, so .74), too weak more than .75 of the forget score
  (official: accuracy .13, an absolute number without meaning here). A zero makes the harmonic mean zero.

The features of all brands form one set and are edited jointly, as the official code does with several features.
Requests of other kinds are one concept. Those for single interactions have none: features are searched between the
forgotten pairs and matched retain examples, with their items as the concept in the output score; usually none passes,
which is noted. ``pisces-neuron`` uses value vectors as their own directions, without an SAE.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.dictionaries.concept_features import (
    concept_parts,
    find_features,
    majority_signs,
    matched_pairs,
)
from genrec_unlearn_bench.unlearning.dictionaries.sae import SaeConfig, sae_dictionaries
from genrec_unlearn_bench.unlearning.dictionaries.value_vectors import (
    Editor,
    Effect,
    Feature,
    Gauge,
    neuron_dictionaries,
    search_cells,
    target_probability,
)
from genrec_unlearn_bench.unlearning.method import ForgetRequest, Progress, Recommender, UnlearningMethod, Variants
from genrec_unlearn_bench.unlearning.search import Search
from genrec_unlearn_bench.unlearning.validation import sample

FILTER_TAU, FILTER_MU, FILTER_ROWS = 0.9, 16.0, 128
TOO_WEAK = 0.75


class PiscesConfig(SaeConfig):
    """Dictionaries, concept features and search."""

    search = Search(auroc=(0.5, 0.6, 0.7), features=(1, 4), retain_floor=(0.75, 0.97))

    dictionary: Literal["sae", "neurons"] = "sae"
    """Dictionary: an SAE, or the value vectors themselves."""
    auroc: float = Field(default=0.6, ge=0.5, le=1)
    """Smallest AUROC of a concept feature for its brand. By chance, one of 16 pairs has a standard deviation of .1."""
    features: int = Field(default=4, ge=1)
    """Largest number of features per brand and layer."""
    pairs: int = Field(default=1024, ge=1)
    """Largest number of matched pairs of train examples for scoring features."""
    retain_floor: float = Field(default=0.75, ge=0, le=1)
    """Smallest share of the retain NDCG@10 that an edit must keep."""
    evaluations: int = Field(default=24, ge=0)
    """Number of grid points to evaluate."""
    valid_rows: int = Field(default=256, ge=1)
    """Largest number of validation examples per part."""


class Pisces(UnlearningMethod[PiscesConfig]):
    """PISCES (arXiv 2505.22586): edit concept features in the feed-forward value vectors, without training."""

    name = "pisces"
    Config = PiscesConfig
    variants: ClassVar[Variants] = {"pisces-neuron": {"dictionary": "neurons"}}

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config, model = self.config, recommender.clone()
        groups = sample(request.valid, config.valid_rows, request.seed)
        if config.dictionary == "sae":
            dictionaries = sae_dictionaries(recommender, request, groups.retain, config, progress)
        else:
            dictionaries = neuron_dictionaries(recommender)
        blocks = [block for block in anatomy(recommender).blocks if block.name in dictionaries]
        progress.note("applicable", bool(blocks))
        progress.note("layers", [block.name for block in blocks])
        if not blocks or not len(request.train.forget):
            return model
        level_one, limit = recommender.sids.codes[:, 0], recommender.history_limit
        pairs = matched_pairs(request.train, level_one, limit, count=config.pairs, seed=request.seed)
        parts = concept_parts(request.brand_numbers, pairs.forget.targets)
        found = find_features(recommender, pairs, blocks, dictionaries, parts, least=config.auroc, most=config.features)
        signs = majority_signs(recommender, pairs.forget, blocks)
        editor = Editor(model, blocks, dictionaries, signs)
        gauge = Gauge(recommender, request, groups)
        of_row = parts[pairs.forget.targets]
        own = {int(part): pairs.forget.subset(np.flatnonzero(of_row == part)[:FILTER_ROWS]) for part in set(of_row)}
        before = {part: target_probability(recommender, rows) for part, rows in own.items()}
        kept = []
        for feature in progress.track("filter", found, total=len(found)):
            editor.apply([feature], FILTER_TAU, FILTER_MU)
            if target_probability(model, own[feature.part]) <= before[feature.part]:
                kept.append(feature)
        progress.note("matched_pairs", len(pairs.forget))
        progress.note("concept_parts", len(own))
        progress.note("features_found", len(found))
        progress.note("features_kept", len(kept))
        self._search(model, kept, editor, gauge, request.seed, progress)
        return model

    def _search(
        self, model: Recommender, features: list[Feature], editor: Editor, gauge: Gauge, seed: int, progress: Progress
    ) -> None:
        """Apply the best edit to ``model``, or none if no grid point qualifies."""
        looked: list[Effect] = []

        def effect(tau: float, mu: float) -> Effect:
            edited = editor.apply(features, tau, mu)
            seen = gauge.effect(model)
            looked.append(seen)
            values = {"tau": tau, "mu": mu, "edited": edited, "forget": seen.forget, "retain": seen.retain}
            progress.log("search", len(looked) - 1, {**values, "similar": seen.similar, "harmonic": seen.harmonic})
            return seen

        generator, floor = numpy_generator(seed, "pisces", "cells"), self.config.retain_floor
        evaluations = self.config.evaluations if features else 0
        best = search_cells(effect, generator, evaluations=evaluations, too_weak=TOO_WEAK, too_strong=floor)
        edit = (features, best.tau, best.mu) if best else ([], 1.0, 1.0)
        progress.note("edited_vectors", editor.apply(*edit))
        progress.note("tau", best.tau if best else None)
        progress.note("mu", best.mu if best else None)
        progress.note("harmonic_mean", best.effect.harmonic if best else None)
