"""Logistic probes: trained on one part, tuned on the second, tested on the third (Alain & Bengio 2016)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.preprocessing import StandardScaler

from genrec_unlearn_bench.evaluation.probing.estimates import Answers
from genrec_unlearn_bench.evaluation.probing.parts import Parts
from genrec_unlearn_bench.evaluation.probing.rows import Rows

__all__ = ["Probed", "probe"]


@dataclass(frozen=True, eq=False)
class Probed:
    """One probe.

    Attributes:
        validation: AUROC on validation, by which a layer may be chosen.
    """

    answers: Answers
    validation: float


def probe(states: NDArray[Any], rows: Rows, parts: Parts, inverse_l2: Sequence[float]) -> Probed:
    """Fit on train, take the strength with the smallest validation log-loss, score test.

    Args:
        states: [places, D] what is probed. Standardised by train's mean and deviation.
        inverse_l2: scikit-learn's C, in ascending order; each fit starts from the one before.
    """
    train, validation, test = (
        states[rows.places[part]].astype(np.float64) for part in (parts.train, parts.validation, parts.test)
    )
    scaler = StandardScaler().fit(train)
    train, validation, test = (scaler.transform(part) for part in (train, validation, test))
    truth = rows.labels[parts.validation]
    model = LogisticRegression(warm_start=True, max_iter=300)
    best = np.inf
    scores = seen = np.zeros(0)
    with warnings.catch_warnings():
        # Separable classes under the weakest regularisation: such a fit loses on validation anyway.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strength in inverse_l2:
            model.set_params(C=strength)
            model.fit(train, rows.labels[parts.train])
            loss = log_loss(truth, model.predict_proba(validation)[:, 1], labels=[False, True])
            if loss < best:
                best, scores, seen = loss, model.decision_function(test), model.decision_function(validation)
    answers = Answers(scores, rows.labels[parts.test], rows.items[parts.test])
    return Probed(answers, float(roc_auc_score(truth, seen)))
