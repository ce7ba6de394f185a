"""``bench smoke --full``: the suite full on the demo, with what must hold of it whatever the numbers are.

Three rows whose answers are known: the original remembers, the retrained model never knew, and a filter hides the
concept of a model that remembers everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from genrec_unlearn_bench.cli.smoke_claims import Claim, Judged, judged
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.suites import find_measurement, measurements
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.request import RunRequest

__all__ = ["CLAIMS", "METHODS", "full_claims", "full_requests"]

METHODS = ("original", "retrain", "filter")
STEPS = (0, 20)
"""Of the attacks: what is claimed of them holds after any number of steps."""


def _same(method: str, text: str, metric: str, *, of: str = "original", as_: str = "", group: Group) -> Claim:
    """A metric of one row equals that of another row, to the bit."""
    return Claim(
        method,
        text,
        lambda found: found.single(method, metric, group),
        "=",
        lambda found: found.single(of, as_ or metric, group),
    )


def _zero(method: str, text: str, metric: str) -> Claim:
    return Claim(method, text, lambda found: found.single(method, metric, Group.FORGET), "=", lambda found: 0.0)


CLAIMS = (
    _zero("filter", "under attack, a filter serves nothing of the concept", "relearning.area.mixed"),
    _same(
        "filter",
        "without its rules, the filtered model is the original under the same attack",
        "relearning.original-sids.area.mixed",
        as_="relearning.area.mixed",
        group=Group.FORGET,
    ),
    _zero("retrain", "retrain comes back no faster than itself", "relearning.recovery.mixed"),
    Claim(
        "original",
        "before the attack, R of the original is 1, so that its largest R is no less",
        lambda found: found.single("original", "relearning.peak.mixed", Group.FORGET),
        "≥",
        lambda found: 1.0,
    ),
    Claim(
        "original",
        "the original gives its forget set away more than retrain does",
        lambda found: found.single("original", "membership.auc.loss", Group.FORGET),
        ">",
        lambda found: found.single("retrain", "membership.auc.loss", Group.FORGET),
    ),
    _same("filter", "a filter hides no membership", "membership.auc.loss", group=Group.FORGET),
    Claim(
        "original",
        "the original answers forgotten examples less like retrain than another retrained model does",
        lambda found: found.single("original", "forget-quality.ks.d", Group.FORGET),
        ">",
        lambda found: found.single("original", "forget-quality.ceiling.d", Group.FORGET),
    ),
    _same("filter", "a filter changes no answer's likelihood", "forget-quality.ks.d", group=Group.FORGET),
    _same("filter", "a filter changes no hidden state", "probing.auroc.pooled", group=Group.ALL),
    _zero("filter", "a filter holds at 4 bits", "quantisation.hr@10.int4"),
)


def full_requests(backbone: str, results_dir: Path, threads: int | None) -> list[RunRequest]:
    """The cells; two oracles, so that retraining is compared with retraining."""
    return [
        RunRequest(
            task="demo-brand",
            backbone=backbone,
            method=method,
            scale="smoke",
            suite="full",
            device="cpu",
            threads=threads,
            oracle_seeds=2,
            measure_set={"relearning.steps": list(STEPS)},
            results_dir=results_dir,
        )
        for method in METHODS
    ]


def full_claims(records: Mapping[str, RunRecord]) -> Iterator[Judged]:
    """Every claim, and that each metric of the suite is there or says why not."""
    yield from judged(records, CLAIMS)
    wanted = {spec.name for name in measurements() for spec in find_measurement(name).specs}
    for name, record in records.items():
        absent = sorted(wanted - {value.metric for value in record.metrics})
        told = f"missing: {', '.join(absent[:5])}" if absent else f"{len(wanted)} metrics"
        yield Judged(f"{name} has every metric of the suite, or the reason why not", told, holds=not absent)
