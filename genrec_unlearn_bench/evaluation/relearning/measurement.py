"""Relearning attacks: is the concept gone from the weights, or only hidden in them?

An unlearned model is fine-tuned on part of what it forgot and scored on the rest. What matters is the difference to a
retrained model under the same attack: any model learns a concept that it is taught.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from genrec_unlearn_bench.evaluation.measurement import (
    Measured,
    Measurement,
    NotMeasurable,
    References,
    Subject,
    number,
    unmeasured,
)
from genrec_unlearn_bench.evaluation.metric import Group, MetricValue
from genrec_unlearn_bench.evaluation.relearning.recovery import AttackTrace, area, exact_interval, peak, recovery
from genrec_unlearn_bench.evaluation.relearning.specs import (
    QUANTITIES,
    SPECS,
    START,
    Attack,
    RelearningConfig,
    Space,
    metric_name,
    part_name,
    preset,
)
from genrec_unlearn_bench.progress import Progress

__all__ = ["Relearning"]

_SPEC = {spec.name: spec for spec in SPECS}
_ONE_SPACE = "table and serving rules are the original's, so that this is the attack in the served space"


class Relearning(Measurement):
    """Six attacks in two SID spaces; one part for each that this model has."""

    name = "relearning"
    specs = SPECS
    passes = (START,)

    def config(self, scale: str) -> RelearningConfig:
        return preset(scale)

    def parts(self, subject: Subject) -> tuple[str, ...]:
        """``mixed/served`` …; the original space is a part of its own only where it differs."""
        from genrec_unlearn_bench.evaluation.relearning.attack_data import spaces

        return tuple(part_name(attack, space) for attack in Attack for space in spaces(subject))

    def measure(self, subject: Subject, part: str, config: RelearningConfig, progress: Progress) -> Measured:
        from genrec_unlearn_bench.evaluation.relearning.attack import measure_attack

        return measure_attack(subject, part, config, progress)

    def compare(self, own: Mapping[str, Measured], references: References) -> tuple[MetricValue, ...]:
        """By attack and space: HR@10 and R at the last step, the area under the curve, and the largest R.

        References that have one space stand in it for both: their table is the original's.
        """
        return tuple(value for space in Space for attack in Attack for value in _values(own, references, attack, space))


def _values(own: Mapping[str, Measured], references: References, attack: Attack, space: Space) -> Iterator[MetricValue]:
    names = {quantity: metric_name(quantity, attack, space) for quantity in QUANTITIES}
    try:
        trace = _trace(own, attack, space, "the run")
    except NotMeasurable as fault:
        yield from unmeasured((_SPEC[name] for name in names.values()), fault.what)
        return
    note = _note(trace, copied=part_name(attack, space) not in own)
    last = trace.train[-1]
    hits, n = int(last.sum()), len(last)
    yield number(names["hr@10"], Group.FORGET, hits / n, n=n, interval=exact_interval(hits, n), note=note)
    under = area(trace)
    yield number(names["area"], Group.FORGET, under.value, n=n, interval=under.interval, note=note)
    for quantity, estimated in (("recovery", recovery), ("peak", peak)):
        try:
            if not references.oracles:
                raise NotMeasurable("no retrained model to compare with")
            original = _trace(references.original, attack, space, "original")
            retrain = _trace(references.oracles[0], attack, space, "retrain")
            found = estimated(trace, original, retrain)
        except NotMeasurable as fault:
            yield from unmeasured((_SPEC[names[quantity]],), fault.what)
            continue
        yield number(names[quantity], Group.FORGET, found.value, n=n, interval=found.interval, note=note)


def _trace(parts: Mapping[str, Measured], attack: Attack, space: Space, whose: str) -> AttackTrace:
    """The trace of a part; of the served space where there is no other one. Raises NotMeasurable with the reason."""

    found = parts.get(part_name(attack, space)) or parts.get(part_name(attack, Space.SERVED)) or parts.get("")
    if found is None:
        raise NotMeasurable(f"{whose} was not attacked")
    if found.reason:
        raise NotMeasurable(found.reason if whose == "the run" else f"{whose}: {found.reason}")
    return AttackTrace.of(found)


def _note(trace: AttackTrace, *, copied: bool) -> str | None:
    sentences = [_ONE_SPACE] if copied else []
    steps, planned = trace.steps.tolist(), trace.planned.tolist()
    if len(steps) < len(planned):
        following, last = trace.passes[len(steps)], trace.passes[-1]
        sentences.append(
            f"the attack ends after {steps[-1]} of {planned[-1]} steps: {planned[len(steps)]} would be {following:.0f} "
            f"passes over its data, {planned[-1]} would be {last:.0f}"
        )
    return "; ".join(sentences) or None
