"""The claims of TRACER's paper (``leaderboard/claims.yaml``): its words, and the rules that decide on them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Annotated, Literal

from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.errors import UnknownName
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.wording import listed

BEAM = 10
"""Of list metrics that name none: the paper's."""


class RowChoice(StrictModel):
    """A row by its method and fields of its configuration."""

    method: tuple[str, ...] = Field(min_length=1)
    """The first that a block has."""
    config: dict[str, float | int | bool | str] = Field(default_factory=dict)


class _Rule(StrictModel):
    row: str
    """A method, or one of the claims' ``rows``."""
    measures: tuple[str, ...] = Field(min_length=1)
    """As on the command line; ``a or b`` is the first that a block has, as protocols differ in what they measure."""
    suite: Literal["core", "full"] = "core"
    device: str = ""
    """Kind of device that the row must have been run on to count; any where this is empty."""
    premise: bool = False
    """Without it the claim's other rules show nothing in a block: that it does not hold refutes nothing."""

    @property
    def choices(self) -> tuple[list[Measure], ...]:
        """Each of its measures with its alternatives, ``forget:exposed.hr@10 or forget:original-sids.hr@10/50``.

        Raises UnknownName or UsageError where none of them is declared.
        """
        return tuple(_declared(text.split(" or ")) for text in self.measures)

    @property
    def titles(self) -> str:
        return listed(dict.fromkeys(choice[0].title for choice in self.choices))


def _declared(texts: Sequence[str]) -> list[Measure]:
    out = []
    for text in texts:
        try:
            out.append(Measure.parse(text, beam=BEAM))
        except UnknownName:
            if text == texts[-1] and not out:
                raise
    return out


class Compare(_Rule):
    """A row against rows, by the protocol's paired test, corrected by Holm over the rule's rows and measures.

    It fails where the row is significantly on the other side, or equivalent (two one-sided tests with the margin of the
    block's retrained models, where the measure has one); where ties hold, the latter is as good as a win. Where
    equivalence is wanted, it fails outside the margin. A method whose values are the original's in every seed has no
    effect, so that a comparison with it shows nothing either way.
    """

    kind: Literal["compare"]
    against: tuple[str, ...] = Field(min_length=1)
    want: Literal["better", "worse", "equivalent"] = "better"
    require: Literal["all", "any", "pareto"] = "all"
    """Of the measures: all, any, or ``pareto``: at least one, and none the other way."""
    ties: Literal["fail", "hold"] = "fail"

    @property
    def names(self) -> tuple[str, ...]:
        """Every row that the rule names."""
        return tuple(dict.fromkeys((self.row, *self.against)))

    @property
    def condition(self) -> str:
        """When it holds, as a sentence."""
        words = f"significantly {self.want} than" if self.want != "equivalent" else "equivalent to"
        words += ", or equivalent to," if self.ties == "hold" else ""
        where = "" if self.require == "all" else "at least one of "
        tail = ", and worse on none" if self.require == "pareto" else ""
        each = "each of " if len(self.against) > 1 else ""
        return f"{self.row} is {words} {each}{listed(self.against)} on {where}{self.titles}{tail}"


class Interval(_Rule):
    """The t interval over seeds of a row's mean over the measures, against a bound; fails wholly beyond it."""

    kind: Literal["interval"]
    against: str = ""
    """Row that each measure is divided by, seed by seed."""
    minus: str = ""
    """Measure of the same row that is subtracted."""
    label: str = ""
    """What the mean is called, where the measures' titles are too long or say too little."""
    at_least: float | None = None
    at_most: float | None = None

    @model_validator(mode="after")
    def _one_bound(self) -> Interval:
        if (self.at_least is None) == (self.at_most is None) or (self.against and self.minus):
            raise ValueError("an interval has one bound, at_least or at_most, and against or minus or neither")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Every row that the rule names."""
        return (self.row, self.against) if self.against else (self.row,)

    @property
    def subject(self) -> str:
        """What the interval is of."""
        mean = self.label or "mean of " * (len(self.measures) > 1) + self.titles
        return f"{self.row}{f' over {self.against}' if self.against else ''}, {mean}"

    @property
    def condition(self) -> str:
        side = f"is at least {self.at_least:g}" if self.at_least is not None else f"is at most {self.at_most:g}"
        return f"{self.subject}: the whole interval {side}"


Rule = Annotated[Compare | Interval, Field(discriminator="kind")]


class Claim(StrictModel):
    """One claim. It holds where every rule holds in every block of its tasks and backbones at its scale."""

    number: int = Field(ge=1)
    title: str
    words: tuple[str, ...] = Field(min_length=1)
    """The paper's own."""
    where: str
    """In the paper."""
    numbers: str
    """The paper's own."""
    contradictions: str = ""
    """Where the paper contradicts itself."""
    rules: tuple[Rule, ...] = ()
    needs: tuple[str, ...] = ()
    """What no record holds, without which it cannot be said to hold."""
    tasks: tuple[str, ...] = ("industrial-brand", "sports-brand", "toys-brand")
    backbones: tuple[str, ...] = ("mor", "letter", "tiger", "p5sid", "etegrec")
    beside: tuple[str, ...] = ("demo-brand",)
    """Tasks whose blocks are shown where no block of the claim is, and decide nothing."""
    scale: Literal["small", "paper"] = "paper"
    """Smallest scale at which its blocks can show that it holds."""
    commands: tuple[str, ...] = ("bench grid run paper-main",)
    """What makes its records."""

    @model_validator(mode="after")
    def _decidable(self) -> Claim:
        if not self.rules and not self.needs:
            raise ValueError("a claim has rules, or says what it needs")
        return self


class Claims(StrictModel):
    """The file."""

    rows: dict[str, RowChoice] = Field(default_factory=dict)
    """Names for rows that are more than a method's name."""
    hardware: dict[str, str] = Field(default_factory=dict)
    """By backbone: what the paper's scale asks for."""
    claims: tuple[Claim, ...] = Field(min_length=1)


@cache
def paper_claims() -> Claims:
    """The claims that ship with the package."""
    file = resources.files("genrec_unlearn_bench.leaderboard") / "claims.yaml"
    return parse_yaml(Claims, file.read_text(encoding="utf-8"), where="leaderboard/claims.yaml")
