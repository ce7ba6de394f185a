"""Result folders with the tables of the full suite, every number chosen here: what figures and wide tables are fed.

The planted facts: ``npo`` stores the concept as linearly as the original, ``tracer`` does not; an attack in the
original space brings back ``tracer`` and an attack in the served one does not; rounding to 4 bits brings back ``npo``;
``filter`` changed no weights, so that membership is seen in it as in the original.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import MEASUREMENTS, RECORD
from tests.reporting.boards import make_records

__all__ = ["ATTACKS", "KEPT", "LAYERS", "STEPS", "full_records", "write_full", "write_table"]

REFERENCES: Mapping[str, tuple[float, float]] = {"original": (1.0, 1.0), "retrain": (0.3, 0.99), "filter": (0.0, 0.98)}
METHODS: Mapping[str, tuple[float, float]] = {"grad-diff": (0.5, 0.9), "npo": (0.4, 0.9), "tracer": (0.3, 0.97)}
KEPT: Mapping[str, float] = {
    "original": 1.0,
    "retrain": 0.0,
    "filter": 1.0,
    "grad-diff": 0.5,
    "npo": 0.9,
    "tracer": 0.15,
    "untrained": 0.0,
}
"""Share of the original's trace of the concept that a row keeps in its weights."""
LAYERS = (0, 1, 2, 3, 4)
STEPS = (0, 50, 100, 200, 500, 1000, 2000)
ATTACKS = ("mixed", "forget-1", "forget-10", "forget-100", "benign")

Row = Mapping[str, object]


def full_records(
    *, seeds: Sequence[int] = (0, 1, 2), methods: Iterable[str] = METHODS, suite: str = "full"
) -> list[RunRecord]:
    """Records of the suite ``full``: one block with three reference rows and some methods."""
    return make_records(
        tasks=("industrial-brand",),
        backbones=("tiger",),
        methods={name: METHODS[name] for name in methods},
        references=REFERENCES,
        seeds=seeds,
        suite=suite,
    )


def write_full(root: Path, records: Iterable[RunRecord], kinds: Iterable[str] = ("*",)) -> None:
    """Folders as ``bench run --suite full`` writes them, with the tables of some measurements or of all."""
    wanted = set(kinds)
    for record in records:
        cell = record.cell
        folder = root / cell.task / cell.backbone / cell.method / f"{cell.scale}-seed{cell.seed}-{record.key[:10]}"
        (folder / MEASUREMENTS).mkdir(parents=True)
        (folder / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
        for name, rows in _tables(cell.method, cell.seed).items():
            if name in wanted or "*" in wanted:
                write_table(folder / MEASUREMENTS / f"{name}.csv", rows)


def write_table(path: Path, rows: Sequence[Row]) -> None:
    """A table with the columns of its first row."""
    with path.open("w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _tables(method: str, seed: int) -> dict[str, list[Row]]:
    models = [("run", method), ("original", "original"), ("retrain", "retrain")]
    return {
        "probing": [r for name, m in (*models, ("untrained", "untrained")) for r in _probing(name, m, seed)],
        "relearning": [r for name, m in models for r in _relearning(name, m, seed)],
        "membership": [r for name, m in models for r in _membership(name, m, seed)],
        "quantisation": [r for name, m in models for r in _quantisation(name, m, seed)],
        "forget-quality": [r for name, m in models for r in _truth(name, m, seed)],
        "stream": _stream(method, seed),
    }


def _jitter(seed: int, *names: object) -> float:
    """Small, and the same on every machine."""
    return 0.012 * ((hash_of(seed, *names) % 1000) / 500.0 - 1.0)


def hash_of(*names: object) -> int:
    """A number from names."""
    return sum((place + 1) * ord(letter) for place, letter in enumerate("|".join(map(str, names)))) * 7919 % 100003


def _probing(model: str, method: str, seed: int) -> Iterable[Row]:
    for site in ("prompt", "pooled", "history", "embedding"):
        for layer in LAYERS if site != "embedding" else (0,):
            auroc = 0.5 + 0.42 * KEPT[method] * (layer + 1) / (len(LAYERS) + 1) + _jitter(seed, site, layer, method)
            yield {
                "model": model,
                "site": site,
                "layer": layer,
                "auroc": auroc,
                "auroc_low": auroc - 0.04,
                "auroc_high": min(1.0, auroc + 0.04),
                "accuracy": auroc - 0.03,
                "accuracy_low": auroc - 0.07,
                "accuracy_high": auroc + 0.01,
                "control_accuracy": 0.52,
                "selectivity": auroc - 0.55,
                "n": 400,
            }


def _relearning(model: str, method: str, seed: int) -> Iterable[Row]:
    for attack in ATTACKS:
        for space in ("served", "original"):
            for step in STEPS:
                for part in ("train", "test"):
                    teaches = {"benign": 0.02, "forget-1": 0.1}.get(attack, 0.3)
                    left = KEPT[method] if space == "original" or method != "tracer" else 0.0
                    gained = step / (step + 300.0)
                    rate = 0.2 * ({"original": 1.0}.get(method, 0.1) * (1 - gained) + gained * (teaches + 0.7 * left))
                    rate += 0.2 * abs(_jitter(seed, attack, step, method)) + (0.1 if part == "test" else 0.0)
                    yield {
                        "model": model,
                        "attack": attack,
                        "space": space,
                        "step": step,
                        "part": part,
                        "hr@10": rate,
                        "low": max(0.0, rate - 0.02),
                        "high": rate + 0.02,
                        "n": 300,
                    }


def _membership(model: str, method: str, seed: int) -> Iterable[Row]:
    for place, score in enumerate(("loss", "min-k", "min-k++", "reference")):
        for space in ("own", "original-sids"):
            for group in (Group.FORGET, Group.RETAIN):
                kept = 1.0 if group is Group.RETAIN else KEPT[method]
                auc = 0.5 + (0.2 + 0.03 * place) * kept + _jitter(seed, score, method)
                auc += 0.05 if space == "original-sids" and method == "tracer" else 0.0
                yield {
                    "model": model,
                    "score": score,
                    "space": space,
                    "group": group.value,
                    "auc": auc,
                    "auc_low": auc - 0.05,
                    "auc_high": auc + 0.05,
                    "tpr": 0.05,
                    "tpr_low": 0.02,
                    "tpr_high": 0.1,
                    "n_members": 400,
                    "n_holdout": 90,
                }


def _quantisation(model: str, method: str, seed: int) -> Iterable[Row]:
    for scheme, bits in (("full", 32), ("int8", 8), ("int4", 4)):
        for group in (Group.FORGET, Group.RETAIN):
            for metric in ("hr@10", "ndcg@10"):
                forget = 0.2 if method == "original" else 0.02 + (0.12 * KEPT[method] if bits == 4 else 0.0)
                retain = 0.12 - (0.02 if bits == 4 else 0.0)
                value = (forget if group is Group.FORGET else retain) + abs(_jitter(seed, bits, method)) / 5
                value *= 1.0 if metric == "hr@10" else 0.6
                yield {
                    "model": model,
                    "scheme": scheme,
                    "bits": bits,
                    "group": group.value,
                    "metric": metric,
                    "value": value,
                    "low": value - 0.01,
                    "high": value + 0.01,
                    "n": 500,
                }


def _truth(model: str, method: str, seed: int) -> Iterable[Row]:
    for group in (Group.FORGET, Group.RETAIN):
        for percent in range(0, 101, 5):
            kept = KEPT[method] if group is Group.FORGET else 1.0
            ratio = (0.2 + 0.9 * (1 - kept) + _jitter(seed, method)) * (0.1 + percent / 50.0)
            yield {"model": model, "group": group.value, "quantile": percent / 100.0, "truth_ratio": ratio}


def _stream(method: str, seed: int) -> list[Row]:
    out: list[Row] = []
    for request in range(1, 6):
        rate = 0.2 * KEPT[method] + abs(_jitter(seed, request, method))
        out.append(
            {
                "request": request,
                "concepts": 3,
                "items": 20,
                "interactions": 200,
                "forget_hr@10": rate,
                "so_far_hr@10": 0.9 * rate,
                "earlier_hr@10": 0.8 * rate if request > 1 else "",
                "retain_hr@10": 0.12 - 0.004 * request,
                "retain_ndcg@10": 0.08 - 0.003 * request,
                "seconds": 20.0,
                "cumulative_seconds": 20.0 * request,
                "share_of_retraining": 0.03 * request,
            }
        )
    return out
