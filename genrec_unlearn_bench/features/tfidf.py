"""TF-IDF with truncated SVD: the offline encoder, good enough where texts are short and share their words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.features.item_features import unit_rows
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.seeding import derive

LARGEST_FIT = 50_000
"""Texts that the words and components are learnt from at most."""
_BLOCK = 20_000
"""Texts projected at a time."""
_SMALL = 200
"""Below so many texts a word counts even if only one text has it."""


@dataclass(frozen=True)
class TfidfEncoder:
    """Word uni- and bigrams, sublinear term frequency, projected by a seeded randomised SVD.

    It is fitted on the very texts it encodes, all of them at once. So two lists of texts have two bases: rows of one
    call may be compared with each other, never with rows of another call.

    Of more than ``LARGEST_FIT`` texts, so many at equal distances represent all: words, weights and components are
    learnt from them, and all texts are projected in blocks. Memory then no longer grows with the words of a catalogue.

    Words of a single text say nothing about which items are alike and are left out of larger catalogues. Signs are
    fixed by scikit-learn (the largest loading of each component is positive).
    """

    dim: int

    def encode(self, texts: Sequence[str], progress: Progress) -> NDArray[np.float32]:
        """[N, min(dim, N, words)] float32, unit rows; zero rows where a text has no word that counts."""
        from sklearn.decomposition import TruncatedSVD
        from sklearn.feature_extraction.text import TfidfVectorizer
        from threadpoolctl import threadpool_limits

        sample = _sample(texts)
        progress.info(f"fitting TF-IDF on {len(sample)} of {len(texts)} texts")
        least = 2 if len(texts) >= _SMALL else 1
        vectoriser = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, min_df=least, dtype=np.float64)
        try:
            weights = vectoriser.fit_transform(sample)
        except ValueError as fault:
            raise DataFault(
                f"the items' texts hold no words to make features from ({fault})",
                where=f"{len(texts)} item texts",
                hint="choose other text fields, or another text encoder",
            ) from fault
        components = min(self.dim, *weights.shape)
        seed = derive(0, "features", "tfidf") % 2**32
        svd = TruncatedSVD(components, algorithm="randomized", n_iter=7, n_oversamples=32, random_state=seed)
        # One thread: sums do not depend on the number of cores, and small matrix products on a busy machine spend a
        # hundred times longer waiting for other threads than computing.
        with threadpool_limits(limits=1):
            if sample is texts:
                return unit_rows(svd.fit_transform(weights))
            svd.fit(weights)
            del weights
            out = np.empty((len(texts), components), dtype=np.float32)
            starts = range(0, len(texts), _BLOCK)
            for start in progress.track("projecting item texts", starts, total=len(starts)):
                rows = slice(start, start + _BLOCK)
                out[rows] = unit_rows(svd.transform(vectoriser.transform(texts[rows])))
            return out


def _sample(texts: Sequence[str]) -> Sequence[str]:
    """The texts themselves, or ``LARGEST_FIT`` of them at equal distances."""
    if len(texts) <= LARGEST_FIT:
        return texts
    return [texts[place * len(texts) // LARGEST_FIT] for place in range(LARGEST_FIT)]
