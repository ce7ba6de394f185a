"""Comparisons of two rows or two checkpoints, as text for the terminal and as JSON with a version."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.reporting.analysis import Cell
from genrec_unlearn_bench.reporting.board import BlockKey
from genrec_unlearn_bench.reporting.compare_rows import PairedBlock, PairedMeasure
from genrec_unlearn_bench.reporting.compare_users import CheckpointPair
from genrec_unlearn_bench.reporting.formats.escaping import visible
from genrec_unlearn_bench.reporting.formats.terminal import print_sentences
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.statistics.users import CLAIM
from genrec_unlearn_bench.reporting.tables import decimals
from genrec_unlearn_bench.reporting.wording import bare, fixed, p_text, six

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

__all__ = ["draw_checkpoints", "draw_pairs", "pairs_document", "users_document"]

SCHEMA_VERSION = 1

Checkpoints = Sequence[tuple[BlockKey, Sequence[CheckpointPair]]]


Number = Annotated[float | None, AfterValidator(six)]
"""Six significant digits."""


class SideEntry(StrictModel):
    """One row by itself; ``equivalence`` to the retrained model, null where it could not be tested."""

    label: str
    mean: Number
    sd: Number
    n: int
    equivalence: str | None


class MeasureEntry(StrictModel):
    """One measure of one block: first minus second."""

    measure: str
    first: SideEntry
    second: SideEntry
    difference: Number
    low: Number
    high: Number
    n: int
    p: Number
    p_holm: Number
    p_sign_flip: Number
    effect: Number
    exact: bool
    verdict: str
    """better: the first is."""
    detectable: Number
    sentence: str


class BlockEntry(StrictModel):
    """Two rows in one block."""

    task: str
    backbone: str
    scale: str
    ruleset: str
    setup: str
    seeds: tuple[int, ...]
    family: int
    measures: tuple[MeasureEntry, ...]
    notes: tuple[str, ...]


class PairsDocument(StrictModel):
    """The document of ``bench compare --json``."""

    kind: Literal["genrec-unlearn-bench comparison"] = "genrec-unlearn-bench comparison"
    schema_version: int = SCHEMA_VERSION
    protocol: StatisticsProtocol
    blocks: tuple[BlockEntry, ...]


class CheckpointEntry(StrictModel):
    """Two checkpoints of one seed on one measure: first minus second, over the same test rows."""

    task: str
    backbone: str
    scale: str
    ruleset: str
    seed: int
    measure: str
    first: str
    second: str
    difference: Number
    low: Number
    high: Number
    p: Number
    rows: int
    users: int
    permutations: int


class UsersDocument(StrictModel):
    """The document of ``bench compare --users --json``; p-values are not corrected."""

    kind: Literal["genrec-unlearn-bench checkpoints"] = "genrec-unlearn-bench checkpoints"
    schema_version: int = SCHEMA_VERSION
    claim: str = CLAIM
    protocol: StatisticsProtocol
    comparisons: tuple[CheckpointEntry, ...]


def pairs_document(found: Iterable[PairedBlock], protocol: StatisticsProtocol) -> PairsDocument:
    """Comparisons of rows as JSON has them."""
    return PairsDocument(protocol=protocol, blocks=tuple(_block(each) for each in found))


def users_document(found: Checkpoints, protocol: StatisticsProtocol) -> UsersDocument:
    """Comparisons of checkpoints as JSON has them."""
    return UsersDocument(
        protocol=protocol, comparisons=tuple(_checkpoint(key, pair) for key, pairs in found for pair in pairs)
    )


def draw_pairs(console: Console, found: Sequence[PairedBlock], protocol: StatisticsProtocol) -> None:
    """Print every block: a line for each measure, what may be said, and what has to be known."""
    from rich.text import Text

    heads = ("measure", "A", "B", "A - B", "p", "p Holm", "sign flip", "g", "seeds")
    for each in found:
        names = f"A = {each.first.label}, B = {each.second.label}"
        console.print(Text(visible(f"{each.block.key.title}: {names}"), style="bold"))
        console.print(_grid(heads, [_row(one) for one in each.measures]))
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
        console.print(_grid(heads, rows))
    console.print(
        Text(
            f"{protocol.name.capitalize()}: {CLAIM}. Paired sign flips over users ({protocol.user_permutations} "
            "patterns, all test rows of a user together), not corrected for the number of lines. Another training "
            "seed gives other checkpoints: for a claim about methods compare over seeds (without --users)."
        )
    )


def _row(one: PairedMeasure) -> tuple[str, ...]:
    places = decimals(one.measure.spec)
    return (
        f"{one.measure.title} {one.measure.arrow}".strip(),
        _mean(one.first, places),
        _mean(one.second, places),
        _interval(one.estimate, one.low, one.high, places),
        p_text(one.p),
        p_text(one.p_holm),
        p_text(one.p_sign_flip),
        "–" if one.effect is None else f"{one.effect:.2f}",
        str(one.n),
    )


def _likeness(one: PairedMeasure, each: PairedBlock, protocol: StatisticsProtocol) -> str:
    """How both stand to the retrained model."""
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


def _interval(estimate: float | None, low: float | None, high: float | None, places: int) -> str:
    if six(estimate) is None or estimate is None:
        return "–"
    text = f"{'+' if estimate > 0 else ''}{fixed(estimate, places)}"
    if six(low) is None or six(high) is None or low is None or high is None:
        return bare(text)
    return bare(f"{text} [{fixed(low, places)}, {fixed(high, places)}]")


def _grid(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False)
    for place, head in enumerate(heads):
        grid.add_column(head, justify="left" if place == 0 else "right", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(visible(part)) for part in row))
    return grid


def _block(each: PairedBlock) -> BlockEntry:
    measures = (_measure(one, each) for one in each.measures)
    seeds, key = each.seeds, each.block.key
    setup = {"setup": key.variant, "seeds": seeds, "family": each.family}
    return BlockEntry.model_validate({**_cell(key), **setup, "measures": tuple(measures), "notes": each.notes})


def _cell(key: BlockKey) -> dict[str, str]:
    return {"task": key.task, "backbone": key.backbone, "scale": key.scale, "ruleset": key.ruleset}


def _measure(one: PairedMeasure, each: PairedBlock) -> MeasureEntry:
    fields = {name: value for name, value in vars(one).items() if name in MeasureEntry.model_fields}
    sides = {"first": _side(each.first.label, one.first), "second": _side(each.second.label, one.second)}
    return MeasureEntry.model_validate({**fields, **sides, "measure": one.measure.text, "difference": one.estimate})


def _side(label: str, cell: Cell) -> SideEntry:
    equivalence = cell.equivalence.verdict.value if cell.equivalence is not None else None
    return SideEntry(label=label, mean=cell.mean, sd=cell.sd, n=cell.n, equivalence=equivalence)


def _checkpoint(key: BlockKey, pair: CheckpointPair) -> CheckpointEntry:
    fields = {name: value for name, value in vars(pair.found).items() if name in CheckpointEntry.model_fields}
    place = {"seed": pair.seed, "measure": pair.measure.text, "first": pair.first, "second": pair.second}
    return CheckpointEntry.model_validate({**_cell(key), **fields, **place, "difference": pair.found.estimate})
