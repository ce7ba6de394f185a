"""Tuning rule (protocol, sec. 5): the configurations that are tried, their validation numbers, and the choice.

The search space is the product of the values that a method's configuration fields list under ``search``; a method that
lists nothing has one configuration, its default. Where there are more than may be tried, the default is kept and the
rest drawn without replacement by the method's name alone: the same for every task and backbone, and fewer trials are a
part of more.

The choice is the lowest forget HR@10 among the trials that keep 97 % of the original's retain NDCG@10, both on
validation and as means over the tuning seeds. Ties in HR@10 go to the higher retain NDCG@10, then to the earlier trial.
Where none keeps enough, the one that keeps most is taken and flagged. A trial that diverged is never taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from genrec_unlearn_bench.config import StrictModel, parse
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.method import MethodConfig

FLOOR = 0.97
"""Share of the original's retain NDCG@10 that must be left."""

BEAM = 10
"""Beam width of the validation."""

TIE = 1e-9
"""Differences below it are rounding."""

RULE = (
    f"lowest forget-validation HR@10 with retain-validation NDCG@10 >= {FLOOR} x original, means over the tuning "
    f"seeds, beam {BEAM}; ties to the higher retain NDCG@10, then to the earlier trial; none feasible: highest retain "
    "NDCG@10"
)


def search_space(config: type[MethodConfig], fixed: Mapping[str, Any] | None = None) -> dict[str, tuple[Any, ...]]:
    """Field -> the values that may be tried, without the fields that are ``fixed``."""
    found: dict[str, tuple[Any, ...]] = {}
    for name, field in config.model_fields.items():
        extra = field.json_schema_extra
        values = extra.get("search") if isinstance(extra, dict) else None
        if values is None or name in (fixed or {}):
            continue
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError([f"{name}: `search` is to be a list of values, not {values!r}"], where=config.__name__)
        found[name] = tuple(values)
    return found


def configurations(
    config: type[MethodConfig], fixed: Mapping[str, Any], *, name: str, limit: int
) -> tuple[MethodConfig, ...]:
    """At most ``limit`` different configurations, the default (with ``fixed`` in it) first.

    Raises ConfigError where ``fixed`` or a listed value is none the method takes.
    """
    space = search_space(config, fixed)
    default = parse(config, fixed, where="--set")
    made = {default.model_dump_json(): default}
    for values in product(*space.values()):
        one = parse(config, {**fixed, **dict(zip(space, values, strict=True))}, where=f"the search space of {name}")
        made.setdefault(one.model_dump_json(), one)
    rest = list(made.values())[1:]
    if len(rest) > limit - 1:
        drawn = numpy_generator(0, "tuning", name).permutation(len(rest))[: limit - 1]
        rest = [rest[index] for index in sorted(drawn.tolist())]
    return (default, *rest)


class Measured(StrictModel):
    """One recommender on the validation parts, at one tuning seed."""

    seed: int
    forget_hr: float | None
    """HR@10 of the forget part; null where the trial diverged."""
    retain_ndcg: float | None
    """NDCG@10 of the retain part; null where the trial diverged."""
    unlearn_seconds: float = 0.0
    """Wall-clock of unlearning; 0 for the original."""
    validate_seconds: float = 0.0
    """Wall-clock of the validation."""
    diverged: bool = False


class Trial(StrictModel):
    """One configuration, over all tuning seeds."""

    config: dict[str, Any]
    """Every field of the method's configuration; empty for the original."""
    forget_hr: float | None
    """Mean HR@10 of the forget part; null where the trial diverged at some seed."""
    retain_ndcg: float | None
    """Mean NDCG@10 of the retain part; null where the trial diverged at some seed."""
    seconds: float
    """Unlearning and validation, all seeds together."""
    diverged: bool
    seeds: tuple[Measured, ...]
    """By seed; a trial that diverged at one seed is not repeated at the next."""


def mean_trial(config: dict[str, Any], seeds: Sequence[Measured]) -> Trial:
    """A trial from what was measured at every seed."""
    diverged = any(one.diverged for one in seeds)
    return Trial(
        config=config,
        forget_hr=None if diverged else _mean([one.forget_hr for one in seeds]),
        retain_ndcg=None if diverged else _mean([one.retain_ndcg for one in seeds]),
        seconds=sum(one.unlearn_seconds + one.validate_seconds for one in seeds),
        diverged=diverged,
        seeds=tuple(seeds),
    )


def is_feasible(trial: Trial, original: Trial) -> bool:
    """Whether the trial keeps enough of the original's quality on the retain part."""
    if trial.retain_ndcg is None or original.retain_ndcg is None:
        return False
    return trial.retain_ndcg >= FLOOR * original.retain_ndcg - TIE


def choose(trials: Sequence[Trial], original: Trial) -> tuple[int, bool] | None:
    """Index of the trial that the rule takes, and whether it is feasible; None where every one diverged."""
    sound = [(index, trial.forget_hr, trial.retain_ndcg) for index, trial in enumerate(trials)]
    known = [(i, hr, ndcg) for i, hr, ndcg in sound if hr is not None and ndcg is not None and not trials[i].diverged]
    if not known:
        return None
    feasible = [one for one in known if is_feasible(trials[one[0]], original)]
    if not feasible:
        most = max(ndcg for _, _, ndcg in known)
        return next(i for i, _, ndcg in known if ndcg >= most - TIE), False
    least = min(hr for _, hr, _ in feasible)
    tied = [(i, ndcg) for i, hr, ndcg in feasible if hr <= least + TIE]
    most = max(ndcg for _, ndcg in tied)
    return next(i for i, ndcg in tied if ndcg >= most - TIE), True


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None
