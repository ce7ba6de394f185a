"""What a method's calls on the demo show, rule by rule."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from genrec_unlearn_bench.contract.finding import Finding, broken, judged, kept, left_out
from genrec_unlearn_bench.contract.trial import Trial
from genrec_unlearn_bench.contract.world import Place
from genrec_unlearn_bench.data.forget import ConceptKind

__all__ = ["call_findings", "everywhere", "repeat_findings", "time_finding"]

DERIVE = 'draw from numpy_generator(request.seed, "my-method") or torch_generator(…) of genrec_unlearn_bench.seeding'


def call_findings(trial: Trial) -> Iterator[Finding]:
    """The first call, on TIGER and the brand task."""
    title = "it runs: a few steps on the smallest TIGER of the demo"
    if trial.fault:
        yield broken(
            "runs", title, trial.fault, hint=trial.hint or "mend unlearn(); --debug shows the traceback of a run"
        )
        return
    yield kept("runs", title, f"{trial.seconds:.1f} s")
    yield judged(
        "original-untouched",
        "the original is left as it was",
        trial.original,
        hint="work on a copy: model = recommender.clone()",
    )
    yield judged(
        "request-untouched",
        "the request is left as it was",
        ["arrays of the request were changed in place"] if trial.request_changed else [],
        hint="copy what is to be changed; other methods get the same arrays",
    )
    yield _changed(trial)
    yield judged(
        "result-whole",
        "the result is a whole recommender: finite, as trainable as before, the same when saved and loaded",
        trial.result,
        hint="put hooks, adapters and requires_grad back before returning (unlearning/freezing.py, lora.py, taps.py)",
    )
    yield judged("lists", "its lists are lists: full, in order, nothing twice", trial.lists, hint="see the line above")
    yield _losses(trial)
    yield from _manners(trial)


def _changed(trial: Trial) -> Finding:
    title = "something has changed: weights, semantic IDs or serving rules"
    notes = trial.progress.notes
    null = notes.get("applicable") is False or notes.get("edited_vectors") == 0
    if trial.changed:
        return kept("changed", title)
    if null:
        return left_out("changed", title, "it notes that there was nothing to do here")
    return broken(
        "changed",
        title,
        "the result equals the original to the bit",
        hint='train the copy and return that; where there is nothing to do, progress.note("applicable", False)',
    )


def _losses(trial: Trial) -> Finding:
    title = "losses are reported, and finite"
    steps = trial.progress.steps
    lost = next((step for step in steps if not all(map(math.isfinite, step.losses.values()))), None)
    if lost is not None:
        names = ", ".join(f"{name} = {value}" for name, value in lost.losses.items() if not math.isfinite(value))
        return broken(
            "losses",
            title,
            f"step {lost.step} of {lost.stage!r}: {names}",
            hint="bound the loss, or lower the learning rate; a run that diverges is not ranked",
        )
    if steps:
        return kept("losses", title, f"{len(steps)} steps: {', '.join(steps[0].losses)}")
    if not trial.trained:
        return left_out("losses", title, "no weight was changed, so there is no loss to report")
    return broken(
        "losses",
        title,
        "weights were changed, and no step was reported",
        hint='call progress.log("unlearn", step, {"forget": …, "retain": …}) at every step (descend does)',
    )


def _manners(trial: Trial) -> Iterator[Finding]:
    seen = trial.seen
    yield judged("random-state", "no global random state is used", sorted(seen.randomness), hint=DERIVE)
    yield judged(
        "request-alone",
        "it sees the request alone: no file of the suite, no network",
        list(dict.fromkeys(seen.reached))[:3],
        hint="use what unlearn() is given; test data and retrained models are out of reach by rule",
    )
    first = seen.printed.strip().splitlines()
    yield judged(
        "quiet",
        "nothing is printed to stdout",
        [f"it prints {first[0][:80]!r}"] if first else [],
        hint="say it with progress.info(…), or keep it with progress.note(name, value)",
    )
    yield judged(
        "settings",
        "torch's settings are left as they were",
        sorted(seen.settings),
        hint="put them back before returning",
    )


def repeat_findings(first: Trial, again: Trial, other: Trial | None) -> Finding:
    """Two calls with one seed, and one with another seed."""
    title = "the same seed gives the same result to the bit"
    if again.fault:
        return broken(
            "deterministic",
            title,
            f"a second call of the same object fails: {again.fault}",
            hint="keep nothing on self between calls",
        )
    if again.content != first.content:
        reason = "two calls with one seed gave two results"
        return broken(
            "deterministic", title, reason, hint=f"{DERIVE}; go through sets in sorted order; keep nothing on self"
        )
    if other is None or other.fault:
        return kept("deterministic", title)
    says = "gives another result" if other.content != first.content else "gives the same result"
    return kept("deterministic", title, f"another seed {says}")


def everywhere(trials: Mapping[Place, Trial | str], kinds: frozenset[ConceptKind]) -> Iterator[Finding]:
    """The other kinds of request on TIGER, and the other backbones; a string is the reason of a refusal."""
    for place, trial in trials.items():
        by_kind = place.backbone == "tiger"
        rule = f"kind-{place.kind.value}" if by_kind else f"backbone-{place.backbone}"
        title = f"it serves requests of the kind {place.kind.value}" if by_kind else f"it works on {place.backbone}"
        if isinstance(trial, str):
            yield left_out(rule, title, trial)
            continue
        faults = _faults(trial)
        hint = f"mend it, or leave {place.kind.value} out of `kinds`" if by_kind else _elsewhere(trial)
        yield judged(rule, title, faults, hint=hint, seen=f"{trial.seconds:.1f} s")
    for kind in sorted(set(ConceptKind) - kinds):
        yield left_out(f"kind-{kind.value}", f"it serves requests of the kind {kind.value}", "not in `kinds`: refused")


def _faults(trial: Trial) -> list[str]:
    if trial.fault:
        return [trial.fault]
    faults = [f"the original: {part}" for part in trial.original] + [*trial.result, *trial.lists]
    if trial.progress.diverged:
        faults.append("losses that are not finite")
    return faults


def _elsewhere(trial: Trial) -> str:
    return (
        trial.hint
        or "write against the interface (backbones/recommender.py): levels, masks and heads differ between backbones; "
        "what a backbone must have goes into `requires`"
    )


def time_finding(trial: Trial) -> Finding:
    """How long a step takes, for information."""
    steps = len(trial.progress.steps)
    text = f"{trial.seconds:.1f} s in all"
    if steps:
        text += f", {trial.seconds / steps:.2f} s for each of {steps} steps (first-step costs included)"
    return kept("time", "time on one thread", text)
