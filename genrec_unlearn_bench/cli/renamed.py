"""Names that verbs and options had before the first release, and what they are called now."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["current_name"]

VERBS = {
    "sids": "data sids",
    "new": "method new",
    "check": "method check",
    "plan": "grid plan",
    "sweep": "grid run",
    "status": "grid status",
    "collect": "grid collect",
    "compare": "results compare",
    "figures": "results figures",
    "examples": "results examples",
    "export": "results export",
    "pull": "results pull",
    "submit": "submission new",
    "verify": "submission verify",
    "reproduce": "submission reproduce",
    "site": "submission site",
}

OPTIONS = {
    ("tune", "--out"): "--tuned-dir",
    ("method new", "--dir"): "--out",
    ("grid run", "--retry"): "--retries",
    ("results figures", "--output"): "--out",
    ("results examples", "--output"): "--out",
    ("results export", "--output"): "--out",
    ("cache gc", "--keep-results"): "--results-dir",
}


def current_name(words: Sequence[str]) -> str:
    """Say what an old verb or option in a call is called now; empty where there is none."""
    if words and words[0] in VERBS:
        return f"bench {words[0]} is now bench {VERBS[words[0]]}"
    given = {word.partition("=")[0] for word in words}
    for (verb, old), new in OPTIONS.items():
        if old in given and verb.split() == list(words[: len(verb.split())]):
            return f"{old} of bench {verb} is now {new}"
    return ""
