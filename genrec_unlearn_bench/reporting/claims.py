"""The claims of TRACER's paper (``leaderboard/claims.yaml``), and their rules applied to one block of results."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from genrec_unlearn_bench.config import StrictModel, parse_yaml
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.reporting.analysis import Verdict, paired_differences
from genrec_unlearn_bench.reporting.board import Block, Row
from genrec_unlearn_bench.reporting.comparisons import interval_text
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics import equivalence
from genrec_unlearn_bench.reporting.statistics.equivalence import tosts
from genrec_unlearn_bench.reporting.statistics.paired import t_interval
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import bare, fixed, leaderboard_text, listed, p_text

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
        out = []
        for texts in (text.split(" or ") for text in self.measures):
            known = [text for text in texts if text.partition("/")[0].rpartition(":")[2] in metric_specs()]
            out.append([Measure.parse(text, beam=BEAM) for text in known or texts])
        return tuple(out)

    @property
    def titles(self) -> str:
        return listed(dict.fromkeys(choice[0].title for choice in self.choices))


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
    return parse_yaml(Claims, leaderboard_text("claims.yaml"), where="leaderboard/claims.yaml")


LIKE = (equivalence.Verdict.EQUIVALENT, equivalence.Verdict.IDENTICAL)


class Outcome(StrEnum):
    """Of a rule in a block, and of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "cannot be told"


@dataclass(frozen=True)
class Evidence:
    """What a rule came to in one block.

    Attributes:
        short: In a line; ``lines`` are the numbers behind it.
        rows: By their names in the rule.
        lacking: Names of rows that are missing or have too few seeds.
    """

    rule: Rule
    block: Block
    outcome: Outcome
    short: str
    lines: tuple[str, ...]
    rows: Mapping[str, Row]
    lacking: tuple[str, ...]


class _Side(StrEnum):
    """One comparison of two rows on one measure."""

    EQUAL = "equivalent to {}"
    WORSE = "worse than {}"
    BETTER = "better than {}"
    DIFFERENT = "different from {}"
    UNCLEAR = "not separable from {}"
    UNSHOWN = "neither equivalent to {} nor different"
    NO_EFFECT = "no effect of {} to compare with"
    FEW = "not tested against {}"


def rows_of(rule: Rule, block: Block, claims: Claims) -> dict[str, Row | None]:
    """The suite's own row of every name in a rule; None where there is none, or several that it does not tell apart."""
    others = rule.against if isinstance(rule, Compare) else (rule.against,)
    out: dict[str, Row | None] = {name: None for name in (rule.row, *others) if name}
    for name in out:
        choice = claims.rows.get(name, RowChoice(method=(name,)))
        for method in choice.method:
            own = [row for row in block.rows if row.method == method and not row.first.source.name]
            found = [row for row in own if choice.config.items() <= json.loads(row.first.method_config).items()]
            if len(found) == 1:
                out[name] = found[0]
                break
    return out


def apply_rule(rule: Rule, block: Block, claims: Claims, protocol: StatisticsProtocol) -> Evidence:
    """A rule in a block, on the rows that are there; one that is missing leaves open what the others do not refute."""
    named, needed = rows_of(rule, block, claims), protocol.seeds
    found = {name: row for name, row in named.items() if row is not None}
    lacking = tuple(name for name, row in named.items() if row is None or len(row.results) < needed)
    answer: Answer = (Outcome.OPEN, "", ())
    if rule.row in found:
        given = (block, found, protocol)
        answer = _compare(rule, *given) if isinstance(rule, Compare) else _interval(rule, *given)
    outcome, short, lines = answer
    if outcome is Outcome.HOLDS and len(found) < len(named):
        outcome = Outcome.OPEN
    texts = [short, _counts_text(found, lacking, needed)]
    device = found[rule.row].first.environment.device if rule.row in found else rule.device
    if not device.startswith(rule.device):
        outcome, texts = Outcome.OPEN, [*texts, f"run on {device}, only {rule.device} counts"]
    return Evidence(rule, block, outcome, "; ".join(filter(None, texts)), lines, found, lacking)


def _counts_text(found: Mapping[str, Row], lacking: Sequence[str], needed: int) -> str:
    """``no row a; 1 of 5 seeds of b and c``."""
    groups: dict[int, list[str]] = {}
    for name in lacking:
        groups.setdefault(len(found[name].results) if name in found else 0, []).append(name)
    return "; ".join(
        f"{f'{count} of {needed} seeds of' if count else 'no row'} {listed(names)}" for count, names in groups.items()
    )


Answer = tuple[Outcome, str, tuple[str, ...]]
"""Outcome, its line, and the numbers behind it."""


def _compare(rule: Compare, block: Block, found: Mapping[str, Row], protocol: StatisticsProtocol) -> Answer:
    measures = _measured(rule, block)
    others = [name for name in rule.against if name in found]
    if not others:
        return Outcome.OPEN, "", ()
    values = {measure: block.values(measure) for measure in measures}
    pairs = [(name, measure) for name in others for measure in measures]
    ours = np.stack([values[measure][block.rows.index(found[rule.row])] for _, measure in pairs])
    theirs = np.stack([values[measure][block.rows.index(found[name])] for name, measure in pairs])
    tests = paired_differences(ours, theirs, [measure for _, measure in pairs], protocol)
    inert = {name for name in others if _is_inert(block, found[name], measures, protocol)}
    sides: dict[str, list[_Side]] = {name: [] for name in others}
    lines = []
    for (name, measure), one, other, test in zip(pairs, ours, theirs, tests, strict=True):
        likeness = tosts([one - other], block.margin(measure, protocol.equivalence_quantile))[0]
        if test.n < protocol.seeds:
            side = _Side.FEW
        elif name in inert:
            side = _Side.NO_EFFECT
        elif rule.want != "equivalent" and test.verdict in _SIGNIFICANT:
            side = _SIGNIFICANT[test.verdict]
        elif likeness.verdict in LIKE:
            side = _Side.EQUAL
        elif rule.want == "equivalent":
            side = _Side.DIFFERENT if likeness.verdict is equivalence.Verdict.DIFFERENT else _Side.UNSHOWN
        else:
            side = _Side.UNCLEAR
        sides[name].append(side)
        places = decimals(measure.spec)
        shown = f"{interval_text(test.estimate, test.low, test.high, places)}, p {p_text(test.p_holm)}"
        if rule.want == "equivalent":
            shown = interval_text(likeness.estimate, likeness.low90, likeness.high90, places) + " (90 %)"
            shown += f", margin {bare(f'{likeness.margin:.2g}')}" if likeness.margin is not None else ""
        lines.append(f"{measure.title}: {rule.row} {_mean(one, places)}, {name} {_mean(other, places)}; {shown}")
    outcomes = [_one_against(rule, part) for part in sides.values()]
    # One that does not hold decides; else one that cannot be told.
    outcome = next((each for each in (Outcome.FAILS, Outcome.OPEN) if each in outcomes), Outcome.HOLDS)
    return outcome, _summary(measures, sides), tuple(lines)


_SIGNIFICANT = {Verdict.BETTER: _Side.BETTER, Verdict.WORSE: _Side.WORSE}
_WIN_AND_LOSS = {
    "better": (_Side.BETTER, _Side.WORSE),
    "worse": (_Side.WORSE, _Side.BETTER),
    "equivalent": (_Side.EQUAL, _Side.DIFFERENT),
}


def _one_against(rule: Compare, sides: Sequence[_Side]) -> Outcome:
    """The row against one other, over the measures."""
    win, loss = _WIN_AND_LOSS[rule.want]
    wins, losses = sides.count(win), sides.count(loss)
    ties = sides.count(_Side.EQUAL) if win is not _Side.EQUAL else 0
    if rule.ties == "hold":
        wins, ties = wins + ties, 0
    beaten = losses + ties
    holds, fails = {
        "all": (wins == len(sides), beaten > 0),
        "any": (wins > 0, beaten == len(sides)),
        "pareto": (wins > 0 and not losses, losses > 0 or beaten == len(sides)),
    }[rule.require]
    return Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.OPEN


def _summary(measures: Sequence[Measure], sides: Mapping[str, Sequence[_Side]]) -> str:
    """``forget HR@10: equivalent to flat, better than elm``; measures of which the same is true together."""
    titles: dict[str, list[str]] = {}
    for place, measure in enumerate(measures):
        groups = [(side, [name for name in sides if sides[name][place] is side]) for side in _Side]
        text = ", ".join(side.value.format(listed(names)) for side, names in groups if names)
        titles.setdefault(text, []).append(measure.title)
    return "; ".join(f"{listed(names)}: {text}" for text, names in titles.items())


def _is_inert(block: Block, row: Row, measures: Sequence[Measure], protocol: StatisticsProtocol) -> bool:
    """Whether a compared method's values are the original's in every seed."""
    original = next((each for each in block.rows if each.method == protocol.baseline), None)
    if original is None or row.kind == "reference":
        return False
    mine, base = block.rows.index(row), block.rows.index(original)
    return all(np.array_equal((v := block.values(m.base))[mine], v[base], equal_nan=True) for m in measures)


def _interval(rule: Interval, block: Block, found: Mapping[str, Row], protocol: StatisticsProtocol) -> Answer:
    if rule.against and rule.against not in found:
        return Outcome.OPEN, "", ()
    at = block.rows.index(found[rule.row])
    rows = []
    for measure in _measured(rule, block):
        values = block.values(measure)
        own = values[at]
        if rule.against:
            other = values[block.rows.index(found[rule.against])]
            own = np.divide(own, other, out=np.full_like(own, np.nan), where=other != 0.0)
        rows.append(own - block.values(Measure.parse(rule.minus, beam=BEAM))[at] if rule.minus else own)
    estimate = t_interval([np.mean(rows, axis=0)], confidence=protocol.confidence)
    n, low, high = int(estimate.n[0]), float(estimate.low[0]), float(estimate.high[0])
    if n < 1:
        return Outcome.OPEN, f"{rule.subject}: not measured", ()
    shown = interval_text(float(estimate.mean[0]), low, high, 3)
    text = f"{rule.subject}: {shown if rule.minus else shown.removeprefix('+')}"
    if rule.at_least is not None:
        holds, fails = low >= rule.at_least, high < rule.at_least
    else:
        bound = float(rule.at_most or 0.0)
        holds, fails = high <= bound, low > bound
    decided = Outcome.HOLDS if holds else Outcome.FAILS if fails else Outcome.OPEN
    return decided if n >= protocol.seeds else Outcome.OPEN, text, ()


def _measured(rule: Rule, block: Block) -> list[Measure]:
    """A rule's measures: of each choice the first that some row has."""
    return [next((m for m in choice if np.isfinite(block.values(m)).any()), choice[0]) for choice in rule.choices]


def _mean(values: NDArray[np.float64], places: int) -> str:
    measured = values[np.isfinite(values)]
    return bare(fixed(float(measured.mean()), places)) if len(measured) else "–"
