"""What the results at hand say about the paper's claims: verdicts, the blocks that decided them, and what is missing.

A claim does not hold where one rule fails in one of its blocks, at any scale. It holds where all rules hold in every
block of its tasks and backbones at the paper's scale. Everything else cannot be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from genrec_unlearn_bench.reporting.board import Block, make_board
from genrec_unlearn_bench.reporting.claim_rules import (
    AnyRule,
    Finding,
    Outcome,
    apply_rule,
    complete_rows,
    find_row,
    names_in,
)
from genrec_unlearn_bench.reporting.claims import Claim, Claims
from genrec_unlearn_bench.reporting.comparisons import names_of
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.wording import counted, listed, markdown_text, spanned

SCHEMA_VERSION = 1
SCALES = ("smoke", "small", "paper", "official")
REGIMES = {"core": "", "full": "suite full"}


@dataclass(frozen=True, eq=False)
class Place:
    """A block, and the protocol version of its records."""

    block: Block
    version: int

    @property
    def title(self) -> str:
        return f"{self.block.key.title} (protocol {self.version})"


@dataclass(frozen=True)
class Evidence:
    """What a rule of a claim found in a block; a block of ``beside`` decides nothing."""

    rule: AnyRule
    place: Place
    finding: Finding
    decides: bool

    @property
    def pair(self) -> tuple[str, str]:
        """Task and backbone."""
        return self.place.block.key.task, self.place.block.key.backbone


@dataclass(frozen=True)
class Missing:
    """Something that is not there, and the commands that make it, where some do."""

    what: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its verdict.

    Attributes:
        reason: What decided, in a line.
    """

    claim: Claim
    verdict: Outcome
    reason: str
    evidence: tuple[Evidence, ...]
    missing: tuple[Missing, ...]


def find_places(parts: Iterable[Sequence[Result]], protocol: StatisticsProtocol) -> tuple[Place, ...]:
    """Blocks of several sets of results, each set and each protocol version by itself."""
    out = []
    for results in parts:
        for version in sorted({result.protocol_version for result in results}):
            same = [result for result in results if result.protocol_version == version]
            board = make_board(same, protocol.model_copy(update={"suite_protocol": version}))
            out += [Place(block, version) for block in board.blocks]
    return tuple(out)


def check_claim(claim: Claim, places: Sequence[Place], claims: Claims, protocol: StatisticsProtocol) -> CheckedClaim:
    """A claim against the blocks at hand."""
    evidence: list[Evidence] = []
    for pair in product(claim.tasks, claim.backbones):
        found = []
        for rule in claim.rules:
            place = _best(rule, [each for each in places if _fits(each, rule, *pair)], claims, protocol)
            if place is not None:
                found.append(Evidence(rule, place, apply_rule(rule, place.block, claims, protocol), True))
        evidence += _under_premises(found)
    beside = _beside(claim, evidence, places, claims, protocol)
    missing = [*_no_block(claim, evidence, claims), *_lacking(claim, evidence, claims, protocol)]
    missing += [Missing(text) for text in claim.needs]
    return CheckedClaim(claim, *_verdict(claim, evidence, beside), (*evidence, *beside), tuple(missing))


def _fits(place: Place, rule: AnyRule, task: str, backbone: str) -> bool:
    key = place.block.key
    return (key.task, key.backbone, key.regime) == (task, backbone, REGIMES[rule.suite])


def _best(rule: AnyRule, places: Sequence[Place], claims: Claims, protocol: StatisticsProtocol) -> Place | None:
    """The block that speaks for a task and backbone: most rows with enough seeds, then scale, tuned, protocol."""

    def order(place: Place) -> tuple[int, int, bool, int, int]:
        key = place.block.key
        seeds = max((len(row.results) for row in place.block.rows), default=0)
        rows = complete_rows(rule, place.block, claims, protocol)
        return rows, SCALES.index(key.scale), key.ruleset == "tuned", place.version, seeds

    return max(places, key=order, default=None)


def _under_premises(found: list[Evidence]) -> list[Evidence]:
    """A block's evidence; where a premise does not hold, nothing in it refutes the claim."""
    if all(each.finding.outcome is Outcome.HOLDS for each in found if each.rule.premise):
        return found
    return [
        replace(each, finding=replace(each.finding, outcome=Outcome.OPEN))
        if each.finding.outcome is Outcome.FAILS
        else each
        for each in found
    ]


def _beside(
    claim: Claim, evidence: Sequence[Evidence], places: Sequence[Place], claims: Claims, protocol: StatisticsProtocol
) -> list[Evidence]:
    """Blocks that decide nothing, for rules that no deciding block has all rows of."""
    out = []
    for rule in claim.rules:
        if any(each.rule is rule and not each.finding.lacking for each in evidence):
            continue
        taken = [each.place for each in evidence if each.rule is rule]
        for place in places:
            key, complete = place.block.key, complete_rows(rule, place.block, claims, protocol)
            fits = key.task in claim.beside and key.regime == REGIMES[rule.suite] and place not in taken
            if fits and complete == len(names_in(rule, protocol)):
                out.append(Evidence(rule, place, apply_rule(rule, place.block, claims, protocol), False))
    return out


def _verdict(claim: Claim, evidence: Sequence[Evidence], beside: Sequence[Evidence]) -> tuple[Outcome, str]:
    failed = [each for each in evidence if each.finding.outcome is Outcome.FAILS]
    if failed:
        blocks = len({each.place for each in failed})
        more = f"; and in {counted(blocks - 1, 'more block')}" if blocks > 1 else ""
        return Outcome.FAILS, f"{_shorts(failed)}{more}"
    if not claim.rules:
        return Outcome.OPEN, "no record holds what it needs"
    pairs = list(product(claim.tasks, claim.backbones))
    by_pair = {pair: [each for each in evidence if each.pair == pair] for pair in pairs}
    held = [pair for pair, found in by_pair.items() if len(found) == len(claim.rules) and all(map(_holds, found))]
    shown = [pair for pair in held if all(_at_scale(claim, each) for each in by_pair[pair])]
    if len(shown) == len(pairs) and not claim.needs:
        return Outcome.HOLDS, f"in all {counted(len(pairs), 'block')}"
    tested = sum(any(not each.finding.lacking for each in found) for found in by_pair.values())
    of = f"of {counted(len(pairs), 'block')}"
    text = (
        f"holds in {len(held)} {of}, {len(shown)} of them at {claim.scale} scale" if held else f"{tested} {of} tested"
    )
    telling = _shorts([each for each in evidence if not each.finding.lacking] or beside)
    return Outcome.OPEN, f"{text}; {telling}" if telling else text


def _holds(each: Evidence) -> bool:
    return each.finding.outcome is Outcome.HOLDS


def _at_scale(claim: Claim, each: Evidence) -> bool:
    return SCALES.index(each.place.block.key.scale) >= SCALES.index(claim.scale)


def _shorts(evidence: Sequence[Evidence]) -> str:
    """What the first block says, in a line."""
    if not evidence:
        return ""
    key = evidence[0].place.block.key
    words = "; ".join(each.finding.short for each in evidence if each.place is evidence[0].place)
    return f"{key.task} {key.backbone} {key.scale}: {words}"


def _lacking(claim: Claim, evidence: Sequence[Evidence], claims: Claims, protocol: StatisticsProtocol) -> list[Missing]:
    """Rows of the blocks at hand that have too few seeds or are not there, with a command for each set of them."""
    methods: dict[tuple[str, ...], dict[str, dict[str, None]]] = {}
    made_by_grid: dict[str, None] = {}
    for each in evidence:
        key = each.place.block.key
        encoder = each.place.block.rows[0].first.encoder.partition("#")[0].rpartition(":")[2]
        call = (key.task, key.scale, key.ruleset, each.rule.suite, encoder)
        for name in each.finding.lacking:
            row, choice = find_row(each.place.block, name, claims), claims.rows.get(name)
            if choice and choice.config:
                made_by_grid[name] = None
                continue
            method = row.method if row else choice.method[0] if choice else name
            methods.setdefault(call, {}).setdefault(key.backbone.partition(" ")[0], {})[method] = None
    out = [Missing(f"rows {listed(made_by_grid)}", claim.commands)] if made_by_grid else []
    for (task, scale, ruleset, suite, encoder), by_backbone in methods.items():
        groups: dict[tuple[str, ...], list[str]] = {}
        for backbone, names in by_backbone.items():
            groups.setdefault(tuple(names), []).append(backbone)
        for chosen, backbones in groups.items():
            parts = [f"bench run --task {task} --backbone {','.join(backbones)} --scale {scale} --encoder {encoder}"]
            parts += [f"--ruleset {ruleset}"] if ruleset != "default" else []
            parts += [f"--suite {suite}"] if suite != "core" else []
            parts += [f"--method {','.join(chosen)}", *(f"--seed {seed}" for seed in range(protocol.seeds))]
            what = f"{protocol.seeds} seeds of {listed(chosen)} ({task}, {scale}, {listed(backbones)})"
            out.append(Missing(what, (" ".join(parts),)))
    return out


def _no_block(claim: Claim, evidence: Sequence[Evidence], claims: Claims) -> list[Missing]:
    """Tasks and backbones of which nothing is at the claim's scale, and the commands that make them."""
    there = {each.pair for each in evidence if _at_scale(claim, each)}
    absent: dict[str, list[str]] = {}
    for task, backbone in product(claim.tasks, claim.backbones) if claim.rules else ():
        if (task, backbone) not in there:
            absent.setdefault(task, []).append(backbone)
    groups: dict[tuple[str, ...], list[str]] = {}
    for task, backbones in absent.items():
        groups.setdefault(tuple(backbones), []).append(task)
    text = "; ".join(f"{listed(names)} on {listed(backbones)}" for backbones, names in groups.items())
    out = [Missing(f"no records at {claim.scale} scale: {text}", claim.commands)] if absent else []
    return out + [
        Missing(f"{name}: {words}")
        for name, words in claims.hardware.items()
        if any(name in backbones for backbones in absent.values())
    ]


def claims_document(tested: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> dict[str, Any]:
    """What ``bench claims --json`` prints."""
    return {
        "kind": "genrec-unlearn-bench claims",
        "schema_version": SCHEMA_VERSION,
        "protocol": protocol.name,
        "claims": [
            {
                **each.claim.model_dump(include={"number", "title", "words", "where", "numbers", "contradictions"}),
                "holds_if": [rule.condition for rule in each.claim.rules],
                "verdict": each.verdict.value,
                "reason": each.reason,
                "evidence": [_evidence(one) for one in each.evidence],
                "missing": [vars(one) for one in each.missing],
            }
            for each in tested
        ],
    }


def _evidence(one: Evidence) -> dict[str, Any]:
    finding = one.finding
    return {
        **names_of(one.place.block.key),
        "setup": one.place.block.key.variant,
        "protocol_version": one.place.version,
        "condition": one.rule.condition,
        "outcome": finding.outcome.value,
        "decides": one.decides,
        "summary": finding.short,
        "measurements": list(finding.lines),
        "lacking": list(finding.lacking),
        "records": [result.place for row in finding.rows.values() for result in row.results.values()],
    }


def claims_markdown(tested: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> str:
    """The page: a table of verdicts, then every claim by itself."""
    rows = "".join(f"\n| {each.claim.number} | {each.claim.title} | {each.verdict.value} |" for each in tested)
    out = [
        "# The paper's claims, tested",
        "<!-- Made by `bench claims --out docs/claims.md`: edit leaderboard/claims.yaml, or run more. -->",
        how_text(tested, protocol),
        f"| | claim | verdict |\n|---|---|---|{rows}",
    ]
    for each in tested:
        out += [f"## {each.claim.number}. {each.claim.title}: {each.verdict.value}", *section(each, markdown_text)]
    return "\n\n".join(out) + "\n"


def how_text(tested: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> str:
    """How many claims hold, and by what rule."""
    found = Counter(each.verdict for each in tested)
    return (
        f"{counted(len(tested), 'claim')}: {found[Outcome.HOLDS]} hold, {found[Outcome.FAILS]} do not hold, "
        f"{found[Outcome.OPEN]} cannot be told. A claim does not hold where one of its conditions fails in one of its "
        "blocks (task and backbone), at any scale: most records are of small models on one dataset, and a failure "
        "there is one of this reproduction. It holds where every condition holds in every block at the paper's scale. "
        f"All else cannot be told. Tests need {protocol.seeds} seeds: paired t with Holm's correction within a "
        "condition, 95 % t intervals, two one-sided tests with the margin of retrained models (docs/statistics.md)."
    )


def section(each: CheckedClaim, escape: Callable[[str], str] = str) -> list[str]:
    """One claim in full, as paragraphs of markdown without the heading."""
    claim = each.claim
    quotes = " … ".join(f"“{words}”" for words in claim.words)
    out = [escape(f"Paper ({claim.where}): {quotes}. Its numbers: {claim.numbers}.")]
    out += [escape(f"The paper against itself: {claim.contradictions}")] if claim.contradictions else []
    if claim.rules:
        out.append("Holds if\n\n" + "\n".join(f"- {escape(rule.condition)}" for rule in claim.rules))
    # What lacks rows or seeds is below, with the command that adds them.
    told = [one for one in each.evidence if not one.finding.lacking or one.finding.outcome is Outcome.FAILS]
    for place in dict.fromkeys(one.place for one in told):
        found = [one for one in told if one.place is place]
        beside = "" if found[0].decides else ", decides nothing"
        seeds = {len(row.results) for one in found for row in one.finding.rows.values()} or {0}
        lines = [f"{escape(place.title)}{beside}, {_seeds_text(seeds)}:\n"]
        for one in found:
            lines.append(f"- {one.finding.outcome.value}: {escape(one.finding.short)}")
            lines += [f"  - {escape(line)}" for line in one.finding.lines]
        out.append("\n".join(lines))
    missing = ["\n".join([f"- {escape(one.what)}", *(f"  `{call}`" for call in one.commands)]) for one in each.missing]
    return out + (["\n".join(["Missing:\n", *missing])] if missing else [])


def _seeds_text(seeds: set[int]) -> str:
    return counted(max(seeds), "seed") if len(seeds) == 1 else f"{spanned((min(seeds), max(seeds)))} seeds"
