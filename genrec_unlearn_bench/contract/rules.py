"""The rules of the contract of an unlearning method, and the result of checking one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from genrec_unlearn_bench.config import StrictModel

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
"""Names of methods: kebab case, stricter than what the registry accepts."""

MAX_TRIALS = 12
"""Largest search space of a method."""

GENERATOR = 'draw from numpy_generator(request.seed, "my-method") or torch_generator(…) of genrec_unlearn_bench.seeding'

RULES = {
    "file": ("the file can be read and holds one method with its own name", ""),
    "name": ("the name is a plain string in kebab case", 'write it out: name = "my-method"'),
    "documentation": (
        "the docstrings say where the method is from and what it updates",
        'begin the file with """My method (Author 2026, arXiv …): one sentence.\n\nUpdates …; deviations: …"""',
    ),
    "variants": (
        "variants are a plain literal, each named after the method",
        "begin every variant's name with the method's, and choose names that are free",
    ),
    "imports": (
        "of the suite, only what a method may see is imported",
        "use what unlearn() is given, and the modules of unlearning/ and backbones/",
    ),
    "import": ("the file can be imported, quietly, and holds an UnlearningMethod", "fix the file"),
    "config-documented": (
        "every field of the configuration is documented",
        'write a docstring below the field: gamma: float = 1.0, then """Weight of the forget term."""',
    ),
    "config-default": (
        "the default configuration is valid and survives JSON",
        "give every field a default of a plain type (numbers, strings, booleans, tuples, null)",
    ),
    "search-space": (
        f"the search space holds at most {MAX_TRIALS} configurations",
        'list few values, all valid, in few fields: json_schema_extra={"search": [0.1, 1.0]}',
    ),
    "variant-fields": ("every variant is a valid configuration", "name fields of the configuration, with valid values"),
    "declarations": (
        "requirements and kinds of request are declared in their types",
        "requires = frozenset({Capability.HAS_CODEBOOKS}); kinds = frozenset(ConceptKind) is the default",
    ),
    "runs": ("it runs: a few steps on the smallest TIGER of the demo", "fix unlearn(), or require less in `requires`"),
    "original-untouched": ("the original is unchanged", "work on a copy: model = recommender.clone()"),
    "request-untouched": ("the request is unchanged", "copy arrays before changing them; other methods get the same"),
    "changed": (
        "something has changed: weights, semantic IDs or serving rules",
        'train the copy and return it; if there is nothing to do, progress.note("applicable", False)',
    ),
    "result-whole": (
        "the result is a whole recommender: finite, as trainable as before, the same when saved and loaded",
        "remove hooks and adapters and restore requires_grad (unlearning/lora.py, anatomy.tapped)",
    ),
    "lists": ("its recommendation lists are full, in order and without duplicates", "see the line above"),
    "losses": (
        "losses are reported, and finite",
        'call progress.log("unlearn", step, {"forget": …, "retain": …}) at every step, as descend does',
    ),
    "random-state": ("no global random state is used", GENERATOR),
    "request-alone": (
        "it uses the request only: no file of the suite, no network",
        "use what unlearn() is given; test data and retrained models are off limits",
    ),
    "quiet": ("nothing is printed to stdout", "use progress.info(…), or keep it with progress.note(name, value)"),
    "settings": ("torch's settings are unchanged", "restore them before returning"),
    "deterministic": (
        "the same seed gives the same result to the bit",
        f"{GENERATOR}; iterate over sets in sorted order; keep nothing on self",
    ),
    "kind": ("it serves requests of the kind {}", "fix it, or leave {} out of `kinds`"),
    "backbone": (
        "it works on {}",
        "use the interface only (backbones/recommender.py): levels, masks and heads differ between backbones; declare "
        "what a backbone must have in `requires`",
    ),
    "time": ("time on one thread", ""),
}
"""Title and hint of every rule by name; ``kind`` and ``backbone`` are checked once per kind or backbone."""


Status = Literal["kept", "broken", "left out"]


class RuleResult(StrictModel):
    rule: str
    """Short name, stable for scripts."""
    title: str
    status: Status
    reasons: tuple[str, ...] = ()
    """Faults, the reason for leaving it out, or for a kept rule what was observed."""
    hint: str = ""
    """How to fix a broken rule."""


class CheckReport(StrictModel):
    method: str
    file: str
    findings: tuple[RuleResult, ...]
    seconds: float

    @property
    def sound(self) -> bool:
        return not any(finding.status == "broken" for finding in self.findings)


def judged(
    rule: str, faults: Sequence[str], observed: str = "", *, hint: str | None = None, subject: str = ""
) -> RuleResult:
    """Broken if there are faults, with the rule's hint unless there is a more specific one; kept otherwise.

    Args:
        subject: The kind or backbone that the rule was checked for.
    """
    if faults:
        return _result(rule, "broken", faults, subject, hint or RULES[rule][1].replace("{}", subject))
    return _result(rule, "kept", (observed,) if observed else (), subject)


def kept(rule: str, observed: str = "") -> RuleResult:
    return judged(rule, (), observed)


def broken(rule: str, *reasons: str, hint: str | None = None) -> RuleResult:
    return judged(rule, reasons, hint=hint)


def left_out(rule: str, reason: str, *, subject: str = "") -> RuleResult:
    return _result(rule, "left out", (reason,), subject)


def _result(rule: str, status: Status, reasons: Sequence[str], subject: str, hint: str = "") -> RuleResult:
    name, title = f"{rule}-{subject}" if subject else rule, RULES[rule][0].replace("{}", subject)
    return RuleResult(rule=name, title=title, status=status, reasons=tuple(reasons), hint=hint)
