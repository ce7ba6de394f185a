"""Comparisons of two rows or two checkpoints, as text for the terminal and as JSON with a version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.reporting.analysis import Cell
from genrec_unlearn_bench.reporting.board import BlockKey
from genrec_unlearn_bench.reporting.compare_rows import PairedBlock, PairedMeasure
from genrec_unlearn_bench.reporting.compare_users import CheckpointPair
from genrec_unlearn_bench.reporting.formats.grid import plain_grid, print_sentences
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.users import CLAIM
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import bare, fixed, p_text, six, visible

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA_VERSION = 1

Checkpoints = Sequence[tuple[BlockKey, Sequence[CheckpointPair]]]


def pairs_document(found: Iterable[PairedBlock], protocol: StatisticsProtocol) -> dict[str, Any]:
    """The document of ``bench results compare --json``: differences are first minus second, numbers have six digits."""
    blocks = [
        {
            **_cell(each.block.key),
            "setup": each.block.key.variant,
            "seeds": list(each.seeds),
            "family": each.family,
            "measures": [_measure(one, each) for one in each.measures],
            "notes": list(each.notes),
        }
        for each in found
    ]
    head = {"kind": "genrec-unlearn-bench comparison", "schema_version": SCHEMA_VERSION}
    return {**head, "protocol": protocol.model_dump(mode="json"), "blocks": blocks}


def users_document(found: Checkpoints, protocol: StatisticsProtocol) -> dict[str, Any]:
    """The document of ``bench results compare --users --json``; p-values are not corrected."""
    comparisons = [
        {
            **_cell(key),
            "seed": pair.seed,
            "measure": pair.measure.text,
            "first": pair.first,
            "second": pair.second,
            "difference": six(pair.found.estimate),
            **_numbers(pair.found, "low", "high", "p"),
            **{name: getattr(pair.found, name) for name in ("rows", "users", "permutations")},
        }
        for key, pairs in found
        for pair in pairs
    ]
    head = {"kind": "genrec-unlearn-bench checkpoints", "schema_version": SCHEMA_VERSION, "claim": CLAIM}
    return {**head, "protocol": protocol.model_dump(mode="json"), "comparisons": comparisons}


def draw_pairs(console: Console, found: Sequence[PairedBlock], protocol: StatisticsProtocol) -> None:
    """Print every block: a line for each measure, what may be said, and what has to be known."""
    from rich.text import Text

    heads = ("measure", "A", "B", "A - B", "p", "p Holm", "sign flip", "g", "seeds")
    for each in found:
        names = f"A = {each.first.label}, B = {each.second.label}"
        console.print(Text(visible(f"{each.block.key.title}: {names}"), style="bold"))
        console.print(plain_grid(heads, [_row(one) for one in each.measures]))
        sentences = [one.sentence for one in each.measures]
        sentences += [_likeness(one, each, protocol) for one in each.measures]
        print_sentences(console, (*sentences, *each.notes))
        console.print()
    tests = " and ".join(dict.fromkeys(f"{each.family}" for each in found))
    console.print(
        Text(
            f"{protocol.name.capitalize()}: paired t over shared training seeds, Holm over the {tests} tests of a "
            f"block, α = {protocol.alpha:g}; {protocol.confidence:.0%} t intervals; g: Hedges' g of the differences; "
            f"the exact sign flip is given from {protocol.sign_flip_from} seeds up. A pair that was picked after a "
            "look at a table needs that table's families instead (bench leaderboard)."
        )
    )


def draw_checkpoints(console: Console, found: Checkpoints, protocol: StatisticsProtocol) -> None:
    """Print every pair of checkpoints, with what they can and cannot show."""
    from rich.text import Text

    heads = ("measure", "seed", "A - B", "p", "test rows", "users")
    for key, pairs in found:
        if not pairs:
            continue
        names = f"A = {pairs[0].first}, B = {pairs[0].second}"
        console.print(Text(visible(f"{key.title}: {names}"), style="bold"))
        rows = []
        for pair in pairs:
            places = decimals(pair.measure.spec)
            interval = _interval(pair.found.estimate, pair.found.low, pair.found.high, places)
            count = (str(pair.found.rows), str(pair.found.users))
            rows.append((pair.measure.title, str(pair.seed), interval, p_text(six(pair.found.p)), *count))
        console.print(plain_grid(heads, rows))
    console.print(
        Text(
            f"{protocol.name.capitalize()}: {CLAIM}. Paired sign flips over users ({protocol.user_permutations} "
            "patterns, all test rows of a user together), not corrected for the number of lines. Another training "
            "seed gives other checkpoints: for a claim about methods compare over seeds (without --users)."
        )
    )


def _row(one: PairedMeasure) -> tuple[str, ...]:
    found, places = one.difference, decimals(one.measure.spec)
    return (
        f"{one.measure.title} {one.measure.arrow}".strip(),
        _mean(one.first, places),
        _mean(one.second, places),
        _interval(found.estimate, found.low, found.high, places),
        p_text(found.p),
        p_text(found.p_holm),
        p_text(found.p_sign_flip),
        "–" if found.effect is None else f"{found.effect:.2f}",
        str(found.n),
    )


def _likeness(one: PairedMeasure, each: PairedBlock, protocol: StatisticsProtocol) -> str:
    margin = next((c.equivalence.margin for c in (one.first, one.second) if c.equivalence is not None), None)
    parts = [
        f"{row.label} {cell.equivalence.verdict.value if cell.equivalence is not None else 'not tested'}"
        for row, cell in ((each.first, one.first), (each.second, one.second))
        if row is not each.block.oracle
    ]
    allowed = f" (margin {margin:.2g})" if margin is not None else ""
    return f"{one.measure.title}, equivalence to {protocol.oracle}{allowed}: {', '.join(parts) or 'it is the oracle'}."


def _mean(cell: Cell, places: int) -> str:
    if cell.mean is None:
        return "–"
    return bare(fixed(cell.mean, places) + (f" ±{fixed(cell.sd, places)}" if cell.sd is not None else ""))


def _interval(estimate: float, low: float | None, high: float | None, places: int) -> str:
    if six(estimate) is None:
        return "–"
    text = f"{'+' if estimate > 0 else ''}{fixed(estimate, places)}"
    if six(low) is None or six(high) is None or low is None or high is None:
        return bare(text)
    return bare(f"{text} [{fixed(low, places)}, {fixed(high, places)}]")


def _cell(key: BlockKey) -> dict[str, str]:
    return {"task": key.task, "backbone": key.backbone, "scale": key.scale, "ruleset": key.ruleset}


def _numbers(found: object, *names: str) -> dict[str, float | None]:
    return {name: six(getattr(found, name)) for name in names}


def _measure(one: PairedMeasure, each: PairedBlock) -> dict[str, Any]:
    found = one.difference
    return {
        "measure": one.measure.text,
        "first": _side(each.first.label, one.first),
        "second": _side(each.second.label, one.second),
        "difference": six(found.estimate),
        **_numbers(found, "low", "high"),
        "n": found.n,
        **_numbers(found, "p", "p_holm", "p_sign_flip", "effect"),
        "exact": found.exact,
        "verdict": found.verdict.value,
        "detectable": six(one.detectable),
        "sentence": one.sentence,
    }


def _side(label: str, cell: Cell) -> dict[str, Any]:
    equivalence = cell.equivalence.verdict.value if cell.equivalence is not None else None
    return {"label": label, **_numbers(cell, "mean", "sd"), "n": cell.n, "equivalence": equivalence}
