"""The statistics protocol: a file with a version, fixed before the numbers are seen and printed under every table."""

from __future__ import annotations

from functools import cache
from importlib import resources

from pydantic import Field

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.errors import ProtocolMismatch
from genrec_unlearn_bench.reporting.measure import Measure


class StatisticsProtocol(StrictModel):
    """Rules that every comparison in every table follows (protocol sec. 6)."""

    version: int = Field(ge=1)
    """Version of the statistics; rises with any change that can change a mark, a rank or a verdict."""
    suite_protocol: int = Field(ge=1)
    """The protocol of data, tasks and measurements that it goes with; no table has records of another one."""
    alpha: float = Field(gt=0, lt=1)
    """Family-wise error rate of one block (task × backbone) of a table."""
    confidence: float = Field(gt=0, lt=1)
    """Of all intervals (t over seeds)."""
    seeds: int = Field(ge=2)
    """Replicates that a full row has. Fewer are shown as they are, and counted."""
    baseline: str
    """The row that all others are tested against, where a call names none."""
    oracle: str
    """The row that equivalence and gaps refer to."""
    beam: int = Field(ge=1)
    """Beam width of the list metrics, where a call names none."""
    primary: tuple[str, ...] = Field(min_length=1)
    """Measures of the confirmatory family."""
    forgetting: tuple[str, ...] = Field(min_length=1)
    """Measures of the verdict on forgetting; the worse of several counts."""
    forgetting_parts: tuple[str, ...] = ()
    """Measures that its sentence names beside them, in no family of tests."""
    sign_flip_from: int = Field(ge=2)
    """Seeds from which the exact sign-flip test is printed beside the t-test: below, it cannot reach alpha."""
    equivalence_quantile: float = Field(gt=0, lt=1)
    """Quantile of the differences between retrained models that is the margin of equivalence, which is never less than
    what one test example can change."""
    user_permutations: int = Field(ge=100)
    """Sign flips of the user-level comparison of two checkpoints."""
    friedman_blocks: int = Field(ge=3)
    """Blocks from which methods are compared across blocks."""
    power: float = Field(gt=0, lt=1)
    """At which the smallest detectable difference is stated."""

    tuning_seeds_from: int = Field(ge=0)
    """Seeds from here up belong to tuning; runs with them are left out of every table."""
    references: tuple[str, ...] = Field(min_length=1)
    """Rows that stand above the methods in every table and are neither ranked nor in a family (protocol sec. 3)."""

    def primary_measures(self, beam: int | None = None) -> tuple[Measure, ...]:
        """The primary measures at a beam (the protocol's where none is given)."""
        return tuple(Measure.parse(text, beam=beam or self.beam) for text in self.primary)

    @property
    def name(self) -> str:
        """How tables call it."""
        return f"protocol {self.suite_protocol}, statistics {self.version}"


PROTOCOLS = (1, PROTOCOL_VERSION)
"""Protocols whose results can be shown, the oldest first; new ones are made under the last."""


@cache
def statistics_protocol(version: int = PROTOCOL_VERSION) -> StatisticsProtocol:
    """The statistics of results under a protocol. Raises ProtocolMismatch for one that this suite does not know."""
    where, text = protocol_file("protocol", version)
    return parse_yaml(StatisticsProtocol, text, where=where)


def protocol_file(name: str, version: int) -> tuple[str, str]:
    """Place and text of ``protocol`` or ``layouts`` as of a protocol: all in which the tables of two protocols differ.

    Raises ProtocolMismatch for a version that this suite does not know.
    """
    if version not in PROTOCOLS:
        raise ProtocolMismatch(
            f"there are results of protocol {version}, and this suite shows those of protocol "
            f"{' and '.join(map(str, PROTOCOLS))}",
            hint="run them again with this version, or make their table with the version that they were run with",
        )
    file = f"{name}.yaml" if version == PROTOCOL_VERSION else f"{name}-{version}.yaml"
    text = (resources.files("genrec_unlearn_bench.leaderboard") / file).read_text(encoding="utf-8")
    return f"leaderboard/{file}", text
