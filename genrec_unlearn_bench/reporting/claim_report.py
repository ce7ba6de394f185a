"""Verdicts on the paper's claims from the results at hand, the blocks that decided them, and what is missing.

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
from genrec_unlearn_bench.reporting.claims import (
    Claim,
    Claims,
    Finding,
    Outcome,
    Rule,
    apply_rule,
    complete_rows,
    names_in,
)
from genrec_unlearn_bench.reporting.comparisons import names_of
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.wording import counted, listed, markdown_text, spanned

SCHEMA_VERSION = 1
SCALES = ("smoke", "small", "paper", "official")
REGIMES = {"core": "", "full": "suite full"}


@dataclass(frozen=True)
class Evidence:
    """What a rule of a claim found in a block; a block of ``beside`` decides nothing."""

    rule: Rule
    block: Block
    finding: Finding
    decides: bool

    @property
    def holds(self) -> bool:
        return self.finding.outcome is Outcome.HOLDS

    @property
    def pair(self) -> tuple[str, str]:
        """Task and backbone."""
        return self.block.key.task, self.block.key.backbone

    @property
    def document(self) -> dict[str, Any]:
        """As JSON has it."""
        finding = self.finding
        return {
            **names_of(self.block.key),
            "setup": self.block.key.variant,
            "protocol_version": version_of(self.block),
            "condition": self.rule.condition,
            "outcome": finding.outcome.value,
            "decides": self.decides,
            "summary": finding.short,
            "measurements": list(finding.lines),
            "lacking": list(finding.lacking),
            "records": [result.place for row in finding.rows.values() for result in row.results.values()],
        }


@dataclass(frozen=True)
class Missing:
    """Something that is not there, and the commands that make it, where some do."""

    what: str
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its verdict, and what decided it, in a line."""

    claim: Claim
    verdict: Outcome
    reason: str
    evidence: tuple[Evidence, ...]
    missing: tuple[Missing, ...]


def find_blocks(parts: Iterable[Sequence[Result]], protocol: StatisticsProtocol) -> tuple[Block, ...]:
    """Blocks of several sets of results, each set and each protocol version by itself."""
    out: list[Block] = []
    for results in parts:
        for version in sorted({result.protocol_version for result in results}):
            same = [result for result in results if result.protocol_version == version]
            out += make_board(same, protocol.model_copy(update={"suite_protocol": version})).blocks
    return tuple(out)


def version_of(block: Block) -> int:
    """The protocol of its records."""
    return block.rows[0].first.protocol_version


def check_claim(claim: Claim, blocks: Sequence[Block], claims: Claims, protocol: StatisticsProtocol) -> CheckedClaim:
    """A claim against the blocks at hand."""
    evidence: list[Evidence] = []
    for pair in product(claim.tasks, claim.backbones):
        found = []
        for rule in claim.rules:
            names = (*pair, REGIMES[rule.suite])
            fitting = [one for one in blocks if (one.key.task, one.key.backbone, one.key.regime) == names]
            if fitting:
                block = _best(rule, fitting, claims, protocol)
                found.append(Evidence(rule, block, apply_rule(rule, block, claims, protocol), True))
        if not all(each.holds for each in found if each.rule.premise):
            # Nothing in the block refutes the claim.
            opened = [replace(each, finding=replace(each.finding, outcome=Outcome.OPEN)) for each in found]
            found = [each if each.holds else other for each, other in zip(found, opened, strict=True)]
        evidence += found
    beside = _beside(claim, evidence, blocks, claims, protocol)
    missing = [*_no_block(claim, evidence, claims), *_lacking(claim, evidence, claims, protocol)]
    missing += [Missing(text) for text in claim.needs]
    return CheckedClaim(claim, *_verdict(claim, evidence, beside), (*evidence, *beside), tuple(missing))


def _best(rule: Rule, blocks: Sequence[Block], claims: Claims, protocol: StatisticsProtocol) -> Block:
    """The block that decides for a task and backbone: most rows with enough seeds, then scale, tuned, protocol."""

    def order(block: Block) -> tuple[int, int, bool, int, int]:
        key, rows = block.key, complete_rows(rule, block, claims, protocol)
        return rows, SCALES.index(key.scale), key.ruleset == "tuned", version_of(block), len(block.seeds)

    return max(blocks, key=order)


def _beside(
    claim: Claim, evidence: Sequence[Evidence], blocks: Sequence[Block], claims: Claims, protocol: StatisticsProtocol
) -> list[Evidence]:
    """Blocks that decide nothing, for rules that no deciding block has all rows of."""
    out = []
    for rule in claim.rules:
        taken = [each for each in evidence if each.rule is rule]
        if all(each.finding.lacking for each in taken):
            out += [
                Evidence(rule, block, apply_rule(rule, block, claims, protocol), False)
                for block in blocks
                if block.key.task in claim.beside
                and block.key.regime == REGIMES[rule.suite]
                and block not in [each.block for each in taken]
                and complete_rows(rule, block, claims, protocol) == len(names_in(rule))
            ]
    return out


def _verdict(claim: Claim, evidence: Sequence[Evidence], beside: Sequence[Evidence]) -> tuple[Outcome, str]:
    failed = [each for each in evidence if each.finding.outcome is Outcome.FAILS]
    if failed:
        blocks = len({each.block for each in failed})
        more = f"; and in {counted(blocks - 1, 'more block')}" if blocks > 1 else ""
        return Outcome.FAILS, f"{_shorts(failed)}{more}"
    if not claim.rules:
        return Outcome.OPEN, "no record holds what it needs"
    pairs = list(product(claim.tasks, claim.backbones))
    by_pair = {pair: [each for each in evidence if each.pair == pair] for pair in pairs}
    held = [
        pair for pair, found in by_pair.items() if len(found) == len(claim.rules) and all(one.holds for one in found)
    ]
    shown = [pair for pair in held if all(_at_scale(claim, each) for each in by_pair[pair])]
    if len(shown) == len(pairs) and not claim.needs:
        return Outcome.HOLDS, f"in all {counted(len(pairs), 'block')}"
    tested = sum(any(not each.finding.lacking for each in found) for found in by_pair.values())
    of = f"of {counted(len(pairs), 'block')}"
    text = (
        f"holds in {len(held)} {of}, {len(shown)} of them at {claim.scale} scale" if held else f"{tested} {of} tested"
    )
    numbers = _shorts([each for each in evidence if not each.finding.lacking] or beside)
    return Outcome.OPEN, f"{text}; {numbers}" if numbers else text


def _at_scale(claim: Claim, each: Evidence) -> bool:
    return SCALES.index(each.block.key.scale) >= SCALES.index(claim.scale)


def _shorts(evidence: Sequence[Evidence]) -> str:
    """Findings in the first block, in a line."""
    if not evidence:
        return ""
    key = evidence[0].block.key
    words = "; ".join(each.finding.short for each in evidence if each.block is evidence[0].block)
    return f"{key.task} {key.backbone} {key.scale}: {words}"


def _lacking(claim: Claim, evidence: Sequence[Evidence], claims: Claims, protocol: StatisticsProtocol) -> list[Missing]:
    """Rows of the blocks at hand that have too few seeds or are not there, with a command for each set of them."""
    methods: dict[tuple[Block, str], dict[str, None]] = {}
    configured: dict[str, None] = {}
    for each in evidence:
        for name in each.finding.lacking:
            choice = claims.rows.get(name)
            if choice and choice.config:
                configured[name] = None
            else:
                methods.setdefault((each.block, each.rule.suite), {})[choice.method[0] if choice else name] = None
    out = [Missing(f"rows {listed(configured)}", claim.commands)] if configured else []
    for (block, suite), names in methods.items():
        key, encoder = block.key, block.rows[0].first.encoder.partition("#")[0].rpartition(":")[2]
        given = {"task": key.task, "backbone": key.backbone.partition(" ")[0], "scale": key.scale, "encoder": encoder}
        given |= {"ruleset": key.ruleset} if key.ruleset != "default" else {}
        given |= {"suite": suite} if suite != "core" else {}
        parts = [f"--{option} {value}" for option, value in given.items()] + [f"--method {','.join(names)}"]
        command = " ".join(["bench run", *parts, *(f"--seed {seed}" for seed in range(protocol.seeds))])
        out.append(Missing(f"{protocol.seeds} seeds of {listed(names)} ({key.title})", (command,)))
    return out


def _no_block(claim: Claim, evidence: Sequence[Evidence], claims: Claims) -> list[Missing]:
    """Tasks and backbones of which nothing is at the claim's scale, and the commands that make them."""
    there = {each.pair for each in evidence if _at_scale(claim, each)}
    pairs = list(product(claim.tasks, claim.backbones)) if claim.rules else []
    absent = [pair for pair in pairs if pair not in there]
    tasks, backbones = (listed(dict.fromkeys(names)) for names in zip(*absent, strict=True)) if absent else ("", "")
    what = f"{len(absent)} of {len(pairs)} blocks at {claim.scale} scale ({tasks} on {backbones})"
    needed = [(name, words) for name, words in claims.hardware.items() if any(name == each for _, each in absent)]
    return [Missing(what, claim.commands)] * bool(absent) + [Missing(f"{name}: {words}") for name, words in needed]


def claims_document(tested: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> dict[str, Any]:
    """What ``bench results claims --json`` prints."""
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
                "evidence": [one.document for one in each.evidence],
                "missing": [vars(one) for one in each.missing],
            }
            for each in tested
        ],
    }


def claims_markdown(tested: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> str:
    """The page: a table of verdicts, then every claim by itself."""
    rows = "".join(f"\n| {each.claim.number} | {each.claim.title} | {each.verdict.value} |" for each in tested)
    out = [
        "# The paper's claims, tested",
        "<!-- Made by `bench results claims --out docs/claims.md`: edit leaderboard/claims.yaml, or run more. -->",
        how_text(tested, protocol),
        f"| | claim | verdict |\n|---|---|---|{rows}",
    ]
    claims = {
        one: [each.claim.number for each in tested if one in each.missing] for each in tested for one in each.missing
    }
    shared = {one: numbers for one, numbers in claims.items() if len(numbers) > 2}
    if shared:
        named = [replace(one, what=f"{one.what}: claims {', '.join(map(str, of))}") for one, of in shared.items()]
        out += ["## Missing for several claims", missing_text(named, markdown_text)]
    for each in tested:
        own = replace(each, missing=tuple(one for one in each.missing if one not in shared))
        out += [f"## {each.claim.number}. {each.claim.title}: {each.verdict.value}", *section(own, markdown_text)]
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
        "condition, 95 % t intervals, two one-sided tests with the margin of retrained models (docs/statistics.md). "
        "A grid may leave out rows that a condition asks for: once it has run, they are named with their command."
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
    shown = [one for one in each.evidence if not one.finding.lacking or one.finding.outcome is Outcome.FAILS]
    for block in dict.fromkeys(one.block for one in shown):
        found = [one for one in shown if one.block is block]
        beside = "" if found[0].decides else ", decides nothing"
        counts = {len(row.results) for one in found for row in one.finding.rows.values()} or {0}
        seeds = f"{spanned((min(counts), max(counts)))} seed{'' if counts == {1} else 's'}"
        lines = [f"{escape(block.key.title)} (protocol {version_of(block)}){beside}, {seeds}:\n"]
        for one in found:
            lines.append(f"- {one.finding.outcome.value}: {escape(one.finding.short)}")
            lines += [f"  - {escape(line)}" for line in one.finding.lines]
        out.append("\n".join(lines))
    return out + (["Missing:\n\n" + missing_text(each.missing, escape)] if each.missing else [])


def missing_text(missing: Iterable[Missing], escape: Callable[[str], str] = str) -> str:
    """A list of what is missing, each with its commands."""
    return "\n".join("\n".join([f"- {escape(one.what)}", *(f"  `{call}`" for call in one.commands)]) for one in missing)
