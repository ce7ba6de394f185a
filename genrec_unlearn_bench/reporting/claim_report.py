"""Verdicts on the paper's claims from the results at hand, the blocks that decided them, and what is missing.

A claim does not hold where one rule fails in one of its blocks, at any scale. It holds where all rules hold in every
block of its tasks and backbones at the paper's scale. Everything else cannot be told.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from genrec_unlearn_bench.pipeline.record import WEAK_ORIGINAL
from genrec_unlearn_bench.reporting.board import Block, make_board
from genrec_unlearn_bench.reporting.claims import Claim, Claims, Evidence, Outcome, Rule, apply_rule, rows_of
from genrec_unlearn_bench.reporting.comparisons import names_of
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.results import Result, scale_rank
from genrec_unlearn_bench.reporting.wording import counted, listed, markdown_text, spanned

SCHEMA_VERSION = 2
REGIMES = {"core": "", "full": "suite full"}

Pair = tuple[str, str]
"""Task and backbone."""


@dataclass(frozen=True)
class CheckedClaim:
    """A claim with its verdict, what decided it, in a line, and what is not there."""

    claim: Claim
    verdict: Outcome
    reason: str
    evidence: tuple[Evidence, ...]
    missing: tuple[str, ...]


def find_blocks(results: Sequence[Result], protocol: StatisticsProtocol) -> tuple[Block, ...]:
    """Blocks of results, each protocol version by itself."""
    out: list[Block] = []
    for version in sorted({result.protocol_version for result in results}):
        same = [result for result in results if result.protocol_version == version]
        out += make_board(same, protocol.model_copy(update={"suite_protocol": version})).blocks
    return tuple(out)


def version_of(block: Block) -> int:
    """The protocol of its records."""
    return block.rows[0].first.protocol_version


def check_claim(claim: Claim, blocks: Sequence[Block], claims: Claims, protocol: StatisticsProtocol) -> CheckedClaim:
    """A claim against the blocks at hand."""
    evidence: dict[Pair, list[Evidence]] = {}
    weak: dict[str, str] = {}
    for pair in product(claim.tasks, claim.backbones):
        found = []
        for rule in claim.rules:
            names = (*pair, REGIMES[rule.suite])
            fitting = [one for one in blocks if (one.key.task, one.key.backbone, one.key.regime) == names]
            weak |= {one.key.title: one.weak for one in fitting if one.weak}
            fitting = [one for one in fitting if not one.weak]
            if fitting:
                found.append(apply_rule(rule, _best(rule, fitting, claims, protocol), claims, protocol))
        if any(each.outcome is not Outcome.HOLDS for each in found if each.rule.premise):
            # Nothing in the block refutes the claim.
            found = [each if each.outcome is Outcome.HOLDS else replace(each, outcome=Outcome.OPEN) for each in found]
        evidence[pair] = found
    every = tuple(each for found in evidence.values() for each in found)
    unused = tuple(f"{title} is not used, a weak original: {why}" for title, why in weak.items())
    missing = (*unused, *_missing(claim, evidence, claims, protocol))
    return CheckedClaim(claim, *_verdict(claim, evidence), every, missing)


def _best(rule: Rule, blocks: Sequence[Block], claims: Claims, protocol: StatisticsProtocol) -> Block:
    """The block that decides for a task and backbone: most rows with enough seeds, then scale, tuned, protocol."""

    def order(block: Block) -> tuple[int, int, bool, int, int]:
        rows = rows_of(rule, block, claims).values()
        complete = sum(row is not None and len(row.results) >= protocol.seeds for row in rows)
        key = block.key
        return complete, scale_rank(key.scale), key.ruleset == "tuned", version_of(block), len(block.seeds)

    return max(blocks, key=order)


def _verdict(claim: Claim, evidence: dict[Pair, list[Evidence]]) -> tuple[Outcome, str]:
    every = [each for found in evidence.values() for each in found]
    if failed := [each for each in every if each.outcome is Outcome.FAILS]:
        blocks = len({each.block for each in failed})
        more = f"; and in {counted(blocks - 1, 'more block')}" if blocks > 1 else ""
        return Outcome.FAILS, f"{_shorts(failed)}{more}"
    if not claim.rules:
        return Outcome.OPEN, "no record holds what it needs"
    held = [
        found
        for found in evidence.values()
        if len(found) == len(claim.rules) and all(each.outcome is Outcome.HOLDS for each in found)
    ]
    shown = sum(all(_at_scale(claim, each) for each in found) for found in held)
    of = f"of {counted(len(evidence), 'block')}"
    if shown == len(evidence) and not claim.needs:
        return Outcome.HOLDS, f"in all {counted(shown, 'block')}"
    tested = sum(any(not each.lacking for each in found) for found in evidence.values())
    text = f"holds in {len(held)} {of}, {shown} of them at {claim.scale} scale" if held else f"{tested} {of} tested"
    return Outcome.OPEN, "; ".join(filter(None, (text, _shorts([each for each in every if not each.lacking]))))


def _at_scale(claim: Claim, each: Evidence) -> bool:
    return scale_rank(each.block.key.scale) >= scale_rank(claim.scale)


def _shorts(evidence: Sequence[Evidence]) -> str:
    """What was found in the first block, in a line."""
    if not evidence:
        return ""
    key = evidence[0].block.key
    words = "; ".join(each.short for each in evidence if each.block is evidence[0].block)
    return f"{key.task} {key.backbone} {key.scale}: {words}"


def _missing(
    claim: Claim, evidence: dict[Pair, list[Evidence]], claims: Claims, protocol: StatisticsProtocol
) -> tuple[str, ...]:
    """Blocks of which nothing is at the claim's scale, what these ask for, rows that lack seeds, and what it needs."""
    out = []
    absent = [pair for pair, found in evidence.items() if not any(_at_scale(claim, each) for each in found)]
    if claim.rules and absent:
        tasks, backbones = (listed(dict.fromkeys(names)) for names in zip(*absent, strict=True))
        out.append(f"{len(absent)} of {len(evidence)} blocks at {claim.scale} scale ({tasks} on {backbones})")
        asked = {backbone for _, backbone in absent}
        out += [f"{backbone}: {words}" for backbone, words in claims.hardware.items() if backbone in asked]
    lacking: dict[str, dict[str, None]] = {}
    for each in (each for found in evidence.values() for each in found if each.lacking):
        lacking.setdefault(each.block.key.title, {}).update(dict.fromkeys(each.lacking))
    out += [f"{protocol.seeds} seeds of {listed(names)} ({title})" for title, names in lacking.items()]
    return (*out, *claim.needs)


def claims_document(checked: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> dict[str, Any]:
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
                "evidence": [_evidence(one) for one in each.evidence],
                "missing": each.missing,
                "commands": each.claim.commands,
            }
            for each in checked
        ],
    }


def _evidence(one: Evidence) -> dict[str, Any]:
    return {
        **names_of(one.block.key),
        "setup": one.block.key.variant,
        "protocol_version": version_of(one.block),
        "condition": one.rule.condition,
        "outcome": one.outcome.value,
        "summary": one.short,
        "measurements": one.lines,
        "lacking": one.lacking,
        "records": [result.place for row in one.rows.values() for result in row.results.values()],
    }


def claims_markdown(checked: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> str:
    """The page: a table of verdicts, then every claim by itself."""
    rows = "".join(f"\n| {each.claim.number} | {each.claim.title} | {each.verdict.value} |" for each in checked)
    out = [
        "# The paper's claims, tested",
        "<!-- Made by `bench results claims --out docs/claims.md`: edit leaderboard/claims.yaml, or run more. -->",
        how_text(checked, protocol),
        f"| | claim | verdict |\n|---|---|---|{rows}",
    ]
    number = Counter(text for each in checked for text in each.missing)
    shared = {text: [each.claim.number for each in checked if text in each.missing] for text in number}
    shared = {text: claims for text, claims in shared.items() if len(claims) > 2}
    if shared:
        lines = [f"- {markdown_text(text)}: claims {', '.join(map(str, claims))}" for text, claims in shared.items()]
        out += ["## Missing for several claims", "\n".join(lines)]
    for each in checked:
        own = replace(each, missing=tuple(text for text in each.missing if text not in shared))
        out += [f"## {each.claim.number}. {each.claim.title}: {each.verdict.value}", *section(own, markdown_text)]
    return "\n\n".join(out) + "\n"


def how_text(checked: Sequence[CheckedClaim], protocol: StatisticsProtocol) -> str:
    """How many claims hold, and by what rule."""
    found = Counter(each.verdict for each in checked)
    return (
        f"{counted(len(checked), 'claim')}: {found[Outcome.HOLDS]} hold, {found[Outcome.FAILS]} do not hold, "
        f"{found[Outcome.OPEN]} cannot be told. A claim does not hold where one of its conditions fails in one of its "
        "blocks (task and backbone), at any scale: most records are of small models on one dataset, and a failure "
        "there is one of this reproduction. It holds where every condition holds in every block at the paper's scale. "
        f"All else cannot be told. Blocks whose original has less than {WEAK_ORIGINAL:g} of SASRec's retain NDCG@10 "
        f"are not used. Tests need {protocol.seeds} seeds: paired t with Holm's correction within a "
        "condition, 95 % t intervals, two one-sided tests with the margin of retrained models (docs/statistics.md). "
        "A grid may leave out rows that a condition asks for: once it has run, they are named."
    )


def section(each: CheckedClaim, escape: Callable[[str], str] = str) -> list[str]:
    """One claim in full, as paragraphs of markdown without the heading."""
    claim = each.claim
    quotes = " … ".join(f"“{words}”" for words in claim.words)
    out = [escape(f"Paper ({claim.where}): {quotes}. Its numbers: {claim.numbers}.")]
    out += [escape(f"The paper against itself: {claim.contradictions}")] if claim.contradictions else []
    if claim.rules:
        out.append("Holds if\n\n" + "\n".join(f"- {escape(rule.condition)}" for rule in claim.rules))
    # What lacks rows or seeds is below.
    shown = [one for one in each.evidence if not one.lacking or one.outcome is Outcome.FAILS]
    for block in dict.fromkeys(one.block for one in shown):
        found = [one for one in shown if one.block is block]
        counts = {len(row.results) for one in found for row in one.rows.values()}
        seeds = f"{spanned((min(counts), max(counts)))} seed{'' if counts == {1} else 's'}"
        lines = [f"{escape(block.key.title)} (protocol {version_of(block)}), {seeds}:\n"]
        for one in found:
            lines.append(f"- {one.outcome.value}: {escape(one.short)}")
            lines += [f"  - {escape(line)}" for line in one.lines]
        out.append("\n".join(lines))
    if each.missing:
        out.append("Missing:\n\n" + "\n".join(f"- {escape(text)}" for text in each.missing))
    if claim.rules:
        out.append("Made by\n" + "\n".join(f"  `{command}`" for command in claim.commands))
    return out
