"""The JSON document of a leaderboard: what ``bench leaderboard --format json`` writes and what the page reads.

Plain JSON with every computed number in it, so that a reader needs no statistics. Its parts:

- ``protocol``, ``measures`` (by name, ``forget:hr@10/10`` is HR@10 on forget users at beam 10);
- ``tables``: which rows and columns stand where, with the notes below them;
- ``blocks``: one a task × backbone × scale × ruleset, with its ``rows`` and, by measure, columns of numbers. Those of
  ``cells`` are in the order of ``rows`` and hold what is true of a row by itself (mean, sd, t interval, values by seed,
  equivalence to the oracle; ``n`` only where a seed is missing). Those of ``layouts`` are in the order of the layout's
  own ``rows``, the ranked ones, and hold what depends on its family of tests (difference from its baseline, corrected
  p, mark, rank, letters);
- ``across``: Friedman's test over blocks; ``reported``: a paper's own numbers; ``left_out``: what is not shown.

``null`` is what was not measured or not tested; a column, or a field, in which there is nothing is left out.
``schema_version`` rises when a field changes its meaning. Numbers have six significant digits, on the page
the decimals that a table shows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any, NamedTuple

from pydantic_core import to_json

from genrec_unlearn_bench.registry import REFERENCE_ROWS, methods
from genrec_unlearn_bench.reporting.across import Across
from genrec_unlearn_bench.reporting.analysis import BlockAnalysis, Cell, Mark
from genrec_unlearn_bench.reporting.board import BlockKey, Row
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import StatisticsProtocol
from genrec_unlearn_bench.reporting.reported import ReportedComparison, reported_notes
from genrec_unlearn_bench.reporting.results import Result
from genrec_unlearn_bench.reporting.sentences import notes
from genrec_unlearn_bench.reporting.tables import Section, Table, decimals
from genrec_unlearn_bench.reporting.verdicts import (
    Forgets,
    Keeps,
    Tone,
    Verdicts,
    pareto_front,
    verdict_analysis,
    verdict_measures,
    verdicts,
)
from genrec_unlearn_bench.reporting.wording import counted, declared_controls, fields, listed, six

SCHEMA_VERSION = 2
KEY_DIGITS = 10
"""Of a run's key on the page: those that name its folder."""


def render_json(
    tables: Sequence[Table], *, across: Sequence[Across] = (), reported: Sequence[ReportedComparison] | None = None
) -> str:
    """The document as text; ends with a line break. Infinities and NaN do not occur."""
    return to_json(document(tables, across=across, reported=reported), indent=1).decode() + "\n"


def document(
    tables: Sequence[Table],
    *,
    across: Sequence[Across] = (),
    reported: Sequence[ReportedComparison] | None = None,
    brief: bool = False,
) -> dict[str, Any]:
    """The document of some tables of one protocol, of one layout or of several.

    Args:
        brief: For the page: as many decimals as a table shows, and without what is looked up elsewhere: values by
            seed, p before correction, effect sizes, notes of runs and configurations of backbones. Notes stand in
            ``layouts``, those of one block each, as the page shows one at a time.
    """
    protocol = tables[0].protocol
    layouts: dict[BlockKey, list[_Layout]] = {}
    for table in tables:
        shown = {section.title: frozenset(line.label for line in section.lines) for section in table.sections}
        for block in table.blocks:
            key = block.block.key
            if key.backbone in shown:
                layouts.setdefault(key, []).append(_Layout(table, block, shown[key.backbone]))
    measures = {measure: None for found in layouts.values() for each in found for measure in each.block.measures}
    measures |= dict.fromkeys(verdict_measures(protocol))
    return {
        "kind": "genrec-unlearn-bench leaderboard",
        "schema_version": SCHEMA_VERSION,
        "protocol": {
            "name": protocol.name,
            **protocol.model_dump(mode="json", exclude={"forgetting", "forgetting_parts"}),
        },
        "measures": {measure.text: _measure(measure) for measure in measures},
        "tables": [_table(table, brief=brief) for table in tables],
        "blocks": [_block(found, protocol, brief=brief) for _, found in sorted(layouts.items())],
        "across": rounded([_across(each) for each in across]),
        "reported": rounded([asdict(each) for each in reported]) if reported is not None else None,
        "reported_notes": list(reported_notes(reported)) if reported else [],
        "left_out": tables[0].analysis.board.left_out,
    }


def plain(number: float | None) -> float | None:
    """The number, as an integer where it is one: 0 and not 0.0."""
    return int(number) if number is not None and number.is_integer() and abs(number) < 1e9 else number


def rounded(content: Any) -> Any:
    """JSON content with numbers of six significant digits; what is not finite becomes null."""
    if isinstance(content, float):
        return plain(six(content))
    if isinstance(content, dict):
        return {key: rounded(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [rounded(value) for value in content]
    return content


def role_of(row: Row) -> str:
    """``reference``, ``control`` or ``method``.

    A control is a trivial or crippled method: a row that the protocol does not rank, one whose source says so in the
    first word of its docstring, or one that ``titles.yaml`` lists.
    """
    if row.method in REFERENCE_ROWS:
        return "reference"
    return "control" if row.kind == "reference" or row.method in _declared_controls() else "method"


@cache
def _declared_controls() -> frozenset[str]:
    return declared_controls().union(name for name, entry in methods().items() if entry.role == "control")


def _measure(measure: Measure) -> dict[str, Any]:
    spec = measure.spec
    return {
        **fields(measure, "metric", "group", "side", "beam"),
        **fields(spec, "title", "unit"),
        "better": measure.better,
        "decimals": decimals(spec),
        "range": rounded(spec.range),
        "about": spec.description,
    }


def _table(table: Table, *, brief: bool) -> dict[str, Any]:
    return {
        "name": table.name,
        "title": table.layout.title,
        **fields(table.key, "scale", "ruleset", "regime"),
        "caption": " ".join(table.layout.caption.split()),
        "layout": table.layout.name,
        "columns": [
            {"task": c.top, "head": c.head, "measure": c.measure.text, "title": c.title} for c in table.columns
        ],
        "sections": [
            {"backbone": section.title, "rows": [line.label for line in section.lines]} for section in table.sections
        ],
        **({} if brief else {"notes": notes(table, best="best", second="second")}),
    }


def _block_notes(table: Table, block: BlockAnalysis) -> list[str]:
    """Notes below the numbers of one block on the page, which has a legend of its own."""
    lines = [line for section in table.sections if section.title == block.block.key.backbone for line in section.lines]
    rows = [(line, block.block.by_label.get(line.label)) for line in lines]
    mine = [replace(line, entries=tuple(e for e in line.entries if e.row is row)) for line, row in rows if row]
    alone = replace(table, sections=(Section("", tuple(mine)),), blocks=(block,))
    marks = notes(alone, best="best", second="second", template="legend.txt")
    return [text for text in notes(alone, best="best", second="second") if text not in marks]


class _Layout(NamedTuple):
    """A layout's table in one block, with the labels of the rows that it shows there."""

    table: Table
    block: BlockAnalysis
    shown: frozenset[str]


def _block(layouts: Sequence[_Layout], protocol: StatisticsProtocol, *, brief: bool) -> dict[str, Any]:
    block = layouts[0].block.block
    rows = [row for row in block.rows if any(row.label in layout.shown for layout in layouts)]
    tested = verdict_analysis(block, protocol)
    analyses = {measure: each for each in [tested, *(one.block for one in layouts)] for measure in each.measures}
    runs = [run for row in rows for run in row.results.values()]
    found = _rows(rows, tested, protocol, brief=brief)
    cells = {m.text: _cells([each.cell(row, m) for row in rows], m, each, brief=brief) for m, each in analyses.items()}
    return {
        **fields(block.key, "task", "backbone", "scale", "ruleset", "regime"),
        "setup": block.key.variant,
        "title": block.key.title,
        "seeds": block.seeds,
        "baseline": tested.baseline.label if tested.baseline is not None else None,
        "oracle": block.oracle.label if block.oracle is not None else None,
        "encoder": runs[0].encoder,
        "environments": list(dict.fromkeys(_environment(run) for run in runs)),
        "commits": list(dict.fromkeys(_commit(run) for run in runs)),
        "created": [min(run.created for run in runs), max(run.created for run in runs)],
        **({} if brief else {name: json.loads(getattr(runs[0], name)) for name in ("backbone_config", "sid_config")}),
        **_filled({"original_over_sasrec": plain(six(block.original_over_sasrec))}),
        "rows": found,
        "summary": f"Weak original: {block.weak}. {_summary(found)}" if block.weak else _summary(found),
        "cells": {name: columns for name, columns in cells.items() if columns},
        "layouts": {layout.table.layout.name: _family(layout, brief=brief) for layout in layouts},
    }


def _rows(
    rows: Sequence[Row], tested: BlockAnalysis, protocol: StatisticsProtocol, *, brief: bool
) -> list[dict[str, Any]]:
    found = [(row, verdicts(tested, row, protocol)) for row in rows]
    points = {
        row.label: (each.gap, each.kept)
        for row, each in found
        if role_of(row) == "method" and not row.diverged and each.gap is not None and each.kept is not None
    }
    front = dict(zip(points, pareto_front(list(points.values())), strict=True))
    return [_row(row, each, front=front.get(row.label, False), brief=brief) for row, each in found]


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """What a block shows, in a sentence or two."""
    found = {row["label"]: row["verdicts"] for row in rows if row["verdicts"] is not None}
    kind = {row["label"]: row["kind"] for row in rows}
    idle = [label for label, each in found.items() if each["forgets"]["verdict"] == Forgets.NO_EFFECT]
    without = f" Without any effect: {listed(idle)}." if idle else ""
    if not found:
        return "There are reference rows alone: no method was run."
    if all(each["forgets"]["tone"] == Tone.OPEN or label in idle for label, each in found.items()):
        return f"Too few seeds to show anything: the numbers are here, in grey, and no verdicts.{without}"
    forget = [label for label, each in found.items() if each["forgets"]["verdict"] == Forgets.YES]
    both = [label for label in forget if found[label]["keeps"]["verdict"] in (Keeps.EQUIVALENT, Keeps.BETTER)]
    names = [
        listed(label for label in labels if kind[label] == wanted) or "none"
        for wanted, labels in (("method", forget), ("method", both), ("control", both))
    ]
    return (
        f"Methods shown to forget as retraining does: {names[0]}. Of these, shown to keep retain quality: {names[1]}. "
        f"Controls that do both: {names[2]}.{without}"
    )


def _row(row: Row, found: Verdicts, *, front: bool, brief: bool) -> dict[str, Any]:
    source, first, role = row.first.source, row.first, role_of(row)
    shown = {
        name: _filled({"verdict": one.outcome, **fields(one, "tone", "detail", "sentence")})
        for name, one in (("forgets", found.forgets), ("keeps", found.keeps), ("costs", found.costs))
    }
    out = {
        "label": row.label,
        "method": row.method,
        "kind": role,
        "diverged": list(row.diverged),
        "source": source.name,
        "badge": source.badge_text,
        "order": [plain(round(float(number), 4)) for number in found.order],
        "point": rounded({"gap": found.gap, "kept": found.kept, "front": front}),
        "config": json.loads(first.method_config),
        "command": first.command,
        "runs": [_run(run, brief=brief) for run in row.results.values()],
    }
    return {"verdicts": None if role == "reference" else shown, **_filled(out)}


def _filled(content: Mapping[str, Any]) -> dict[str, Any]:
    """Without the fields in which there is nothing."""
    return {name: value for name, value in content.items() if value not in (None, "", [])}


def _environment(run: Result) -> str:
    found = run.environment
    threads = counted(found.threads, "thread")
    return f"{found.device} ({found.device_name}), {found.precision}, {threads}, Python {found.python}"


def _commit(run: Result) -> str:
    """Ten digits, with ``+`` behind them where files had been changed."""
    return f"{(run.environment.git_commit or '')[:10]}{'+' if run.environment.git_dirty else ''}"


def _run(run: Result, *, brief: bool) -> dict[str, Any]:
    if brief:
        return {"seed": run.seed, "key": run.key[:KEY_DIGITS]}
    return {
        **fields(run, "seed", "key", "created", "diverged", "place", "command"),
        "commit": _commit(run),
        "environment": _environment(run),
        **fields(run, "notes", "suite_version"),
    }


def _columns(found: Sequence[Any], names: Sequence[str], places: int | None) -> dict[str, list[Any]]:
    """Attributes of some objects as columns, floats with so many decimals; without those that are null throughout."""

    def shown(value: Any) -> Any:
        if not isinstance(value, float):
            return value
        return plain(six(value) if places is None else round(value, places))

    return _measured({name: [shown(getattr(each, name, None)) for each in found] for name in names})


def _measured(columns: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: column for name, column in columns.items() if any(value is not None for value in column)}


def _tests(tests: Sequence[Any], names: Sequence[str], places: int | None) -> dict[str, list[Any]]:
    """Columns of some tests, and their verdicts; null where one seed makes any test impossible."""
    verdict = [test.verdict if test is not None and test.n > 1 else None for test in tests]
    return {**_columns(tests, names, places), **_measured({"verdict": verdict})}


def _cells(cells: Sequence[Cell], measure: Measure, block: BlockAnalysis, *, brief: bool) -> dict[str, Any]:
    if all(cell.mean is None for cell in cells):
        return {}
    places = decimals(measure.spec) if brief else None
    out: dict[str, Any] = _columns(cells, ("mean", "sd", "low", "high"), places)
    if any(cell.n != len(cell.seeds) for cell in cells):
        out["n"] = [cell.n for cell in cells]
    if not brief:
        out["seeds"] = rounded([cell.seeds for cell in cells])
    names = ("estimate",) if brief else ("estimate", "low90", "high90", "p", "n")
    if equivalence := _tests([cell.equivalence for cell in cells], names, places):
        out["equivalence"] = {"margin": plain(six(block.margins.get(measure))), **equivalence}
    return out


def _family(layout: _Layout, *, brief: bool) -> dict[str, Any]:
    """What a layout's families of tests say of the ranked rows that it shows."""
    block = layout.block
    rows = [row for row in block.block.rows if row.kind == "method" and row.label in layout.shown]
    columns = {}
    for measure in block.measures:
        cells = [block.cell(row, measure) for row in rows]
        mark = [cell.mark if cell.mark is not Mark.PLAIN else None for cell in cells]
        letters = [cell.letters or None for cell in cells]
        found: dict[str, Any] = _measured({"mark": mark, "rank": [cell.rank for cell in cells], "letters": letters})
        tests = [cell.difference for cell in cells]
        names = ("p_holm",) if brief else ("p_holm", "n", "p", "p_sign_flip", "effect", "exact")
        difference = _columns(tests, ("estimate", "low", "high"), decimals(measure.spec) if brief else None)
        difference |= _tests(tests, names, 4 if brief else None)
        if difference and ("verdict" in difference or not brief):
            found["difference"] = difference
        if found:
            columns[measure.text] = found
    return {
        "baseline": block.baseline.label if block.baseline is not None else None,
        "primary": [measure.text for measure in block.primary],
        "rows": [row.label for row in rows],
        "tests_against_baseline": block.against_baseline,
        "tests_among_pairs": block.pairs,
        **({"notes": _block_notes(layout.table, block)} if brief else {}),
        "columns": columns,
    }


def _across(each: Across) -> dict[str, Any]:
    return {
        "measure": each.measure.text,
        **fields(each, "scale", "ruleset", "regime", "blocks"),
        "statistic": each.found.statistic if each.found is not None else None,
        "p": each.found.p if each.found is not None else None,
        "standings": [{"method": s.label, "mean_rank": s.mean_rank, "letters": s.letters} for s in each.standings],
        **fields(each, "sentence", "notes"),
    }
