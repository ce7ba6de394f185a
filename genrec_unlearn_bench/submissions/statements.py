"""What the authors of a submission affirm, by name; RULES.md says each with examples and how it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["STATEMENTS"]

STATEMENTS: Mapping[str, str] = MappingProxyType(
    {
        "no-test-data": "The method and its tuning used no test interaction, and nothing derived from one.",
        "no-oracle": "No retrained model, nor anything measured on one, went into the method or its tuning.",
        "no-task-identity": "The method does not ask which task, dataset or seed it runs on.",
        "same-architecture": "What is served is the given backbone, with its parameters, tokens or trie changed.",
        "own-results": "Every table was made by `bench run` from the method file submitted here, and not edited.",
        "all-seeds": "All seeds that were run are submitted, failed and diverged ones included.",
        "honest-tuning": "Configurations were chosen on validation alone, at seeds not reported, and all are counted.",
        "public-pretraining": "Nothing was pretrained on the benchmark's datasets outside of the runs submitted here.",
        "may-publish": "The authors may publish the files submitted here under the licences named.",
    }
)
"""Name -> statement. A changed meaning takes a new name."""
