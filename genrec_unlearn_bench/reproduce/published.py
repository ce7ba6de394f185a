"""Published references: numbers to reproduce, with their data, configuration, decoding and tolerance.

One YAML a reference, in ``leaderboard/published``. Reading them imports nothing heavy.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, one_of, parse_yaml


class Expected(StrictModel):
    metric: str = Field(pattern=r"^(recall|ndcg)@[1-9][0-9]*$")
    """Of ranked semantic IDs with one relevant each; recall is the hit rate."""
    value: float = Field(gt=0, le=1)

    @property
    def cutoff(self) -> int:
        return int(self.metric.partition("@")[2])


class PublishedReference(StrictModel):
    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    title: str
    source: str
    """Who published it, where, and how we know."""
    dataset: str
    """Name of a dataset; its split is the reference's."""
    index: str
    """Role of the dataset's file with the published semantic IDs, so that no tokenizer is trained."""
    config: dict[str, Any]
    """Network and training: fields of TIGER's configuration (T5 over SID tokens)."""
    beam: int = Field(ge=1)
    """Semantic IDs that decoding keeps."""
    expected: tuple[Expected, ...] = Field(min_length=1)
    tolerance: float = Field(gt=0, lt=1)
    """Relative distance within which the number counts as reproduced."""
    why: str
    """Reason for the tolerance."""
    deviations: tuple[str, ...] = ()
    """In what we differ from the source, knowingly."""


@cache
def published_references() -> dict[str, PublishedReference]:
    """The references that ship with the package, by name. Raises ConfigError for a broken one."""
    folder = resources.files("genrec_unlearn_bench.leaderboard") / "published"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    texts = {f"published/{entry.name}": entry.read_text(encoding="utf-8") for entry in files}
    found = [parse_yaml(PublishedReference, text, where=where) for where, text in texts.items()]
    return {reference.name: reference for reference in found}


def find_reference(name: str) -> PublishedReference:
    """Raises UnknownName."""
    known = published_references()
    return known[one_of("reference", name, known)]
