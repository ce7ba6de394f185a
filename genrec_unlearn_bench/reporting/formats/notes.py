"""Notes below a table: protocol, seeds, families, marks, power, and what was left out; plain sentences.

A number without them says more than was measured, so every format prints them. LaTeX prints fewer, in a paper's signs
and names; the paragraph on the statistics says the rest there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Mark
from genrec_unlearn_bench.reporting.board import CORE
from genrec_unlearn_bench.reporting.facts import facts
from genrec_unlearn_bench.reporting.latex_text import shorten
from genrec_unlearn_bench.reporting.measure import RECORDED_COSTS
from genrec_unlearn_bench.reporting.sentences import in_latex, sentences
from genrec_unlearn_bench.reporting.statistics.equivalence import Verdict as Likeness
from genrec_unlearn_bench.reporting.tables import DIVERGED, EQUIVALENCE, SIGNS, Entry, Table
from genrec_unlearn_bench.reporting.titles import backbone_title, row_title, task_title
from genrec_unlearn_bench.reporting.wording import listed

_TEXT = {
    **{verdict.name.lower(): sign for verdict, sign in SIGNS.items()},
    **{verdict.name.lower(): sign for verdict, sign in EQUIVALENCE.items() if verdict is not Likeness.UNDERPOWERED},
    "unmeasured": "n/a",
    "absent": "–",
    "diverged": DIVERGED,
}
_LATEX = {
    "best": "Bold",
    "second": "underlined",
    "better": "⁺",
    "worse": "⁻",
    "equivalent": "†",
    "unmeasured": "n.m.",
    "absent": "–",
}
_TITLES = {"row": row_title, "task": task_title, "backbone": backbone_title}


def notes(table: Table, *, best: str = "Bold", second: str = "italic") -> tuple[str, ...]:
    """Every sentence below a table, in reading order; names in them are not escaped.

    Args:
        best, second: How the format shows the two sets.
    """
    return sentences("notes.txt", **_context(table, {**_TEXT, "best": best, "second": second}))


def legend(table: Table, *, best: str = "Bold", second: str = "italic or underlined") -> tuple[str, ...]:
    """Those of the notes that say what the signs in the table mean."""
    return sentences("legend.txt", **_context(table, {**_TEXT, "best": best, "second": second}))


def latex_notes(table: Table) -> tuple[str, ...]:
    """Notes below a LaTeX table, as TeX: the marks that occur in it, seeds, gaps, and the protocol."""
    return tuple(map(in_latex, sentences("notes.txt", **_context(table, _LATEX, brief=True))))


def _context(table: Table, signs: dict[str, str], *, brief: bool = False) -> dict[str, Any]:
    found = facts([table])

    def name(kind: str, text: str) -> str:
        return shorten(_TITLES[kind](text)) if brief else text

    detectable = [(measure, found.detectable(measure)) for measure in found.primary]
    baselines = found.baselines or (found.protocol.baseline,)
    beams: dict[int, dict[str, None]] = {}
    for column in table.columns:
        if column.measure.beam is not None:
            beams.setdefault(column.measure.beam, {})[column.head] = None
    suite = table.blocks[0].block.rows[0].first.suite
    return {
        "f": found,
        "protocol": found.protocol,
        "signs": signs,
        "brief": brief,
        "name": name,
        "present": set(_present(found.entries, primary_alone=brief)),
        "costs": any(column.measure in RECORDED_COSTS for column in table.columns),
        "baselines": listed(name("row", label) for label in baselines),
        "oracle": name("row", found.protocol.oracle),
        "suite": suite if suite != CORE else "",
        "core": CORE,
        "several": len(found.blocks) > 1,
        "unmarked": [
            (reasons, [_where(block, name) for block in blocks]) for reasons, blocks in found.unmarked.items()
        ],
        "detectable": [f"{number:.2g} on {measure.title}" for measure, number in detectable if number is not None],
        "beams": [(width, list(heads)) for width, heads in sorted(beams.items())],
        "left_out": () if brief else table.analysis.board.left_out,
    }


def _present(entries: Sequence[Entry], *, primary_alone: bool) -> Iterator[str]:
    """Signs that occur in a table, by their names in the templates."""
    for entry in entries:
        cell, diverged = entry.cell, entry.row is not None and bool(entry.row.diverged)
        if cell is None:
            yield "absent"
        elif cell.mean is None and not diverged:
            yield "unrecorded" if entry.column.measure in RECORDED_COSTS else "unmeasured"
        elif not diverged:
            if cell.mark is not Mark.PLAIN:
                yield "marked"
            if entry.column.primary or not primary_alone:
                if cell.difference is not None:
                    yield cell.difference.verdict.name.lower()
                if cell.equivalence is not None and cell.equivalence.verdict is not Likeness.UNDERPOWERED:
                    yield cell.equivalence.verdict.name.lower()
            if entry.column.primary and cell.rank is not None:
                yield "ranked"


def _where(block: BlockAnalysis, name: Any) -> str:
    key = block.block.key
    return f"{name('task', key.task)} on {name('backbone', key.backbone)}" + (
        f" ({key.variant})" if key.variant else ""
    )
