"""Makes the tables and the figure of docs/does-reassignment-matter.md and the table of docs/planted.md.

``python -m docs.planted.report`` from the repository's root, as often as wanted: whatever is measured so far
is shown, and what is missing is counted. ``--results DIR`` first reads the records of the grid ``reassignment``
(``bench grid run reassignment --results-dir DIR``) into industrial.csv beside this file.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docs.planted.figure import draw
from docs.planted.measure import ARMS, read_points
from genrec_unlearn_bench.grid.expand import expand, read_grid
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.results import Result, load_results
from genrec_unlearn_bench.reporting.statistics.paired import holm, paired_tests, t_interval

HERE = Path(__file__).parent
RECORDS = HERE / "industrial.csv"
PAGES = (HERE.parent / "does-reassignment-matter.md", HERE.parent / "planted.md")
GRID = "reassignment"
ALPHA = 0.05
MEASURES = {"worst": "worst-case forget", "retain": "retain", "near": "retain-near"}
VARIED = {"tracer": "phi_lr", "random-reassign": "lambda_forget"}
RECORDED = {
    "served": "forget:hr@10",
    "exposed": "forget:exposed.hr@10",
    "worst": "forget:worst-case.hr@10",
    "retain": "retain:ndcg@10",
    "near": "retain-near:ndcg@10",
    "omega": "overlap.mean",
}
UNMOVED, RANDOM = "tracer-no-reassignment", "random-reassign[lambda_forget=0.4]"
LEARNED = tuple(name for name in ARMS if name.startswith("tracer["))
PAIRS = (*((name, UNMOVED) for name in ("tracer-zero-phi", *LEARNED, RANDOM)), *((name, RANDOM) for name in LEARNED))
"""Rows that are compared: first minus second, at the same seed, learning rate and λ1."""
FRONTIER = ("retain-only", UNMOVED, *(f"{UNMOVED}[lambda_forget={weight}]" for weight in (0.6, 1.0)))
"""Without new IDs, at rising λ1: what can be kept at that much forgetting. λ1 above .4 was added after seed 0."""


class Score(NamedTuple):
    """One model's numbers, by column of the tables; NaN where one was not measured."""

    world: str
    seed: int
    row: str
    values: Mapping[str, float]


def planted_scores() -> list[Score]:
    """The planted worlds, named by their Ω."""
    return [Score(f"Ω = {point.overlap:g}", point.seed, point.row, point._asdict()) for point in read_points()]


def recorded_scores() -> list[Score]:
    """The cells of the grid that have a result."""
    if not RECORDS.is_file():
        return []
    with RECORDS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return [
        Score(row["task"], int(row["seed"]), row["row"], {name: float(row[name]) for name in RECORDED}) for row in rows
    ]


def grid_cells() -> list[tuple[str, int, str]]:
    """(task, seed, row) of every cell of the grid, in its order."""
    cells = expand(read_grid(GRID), data_dir=None, results_dir=Path(), tuned_dir=Path(), device=None)
    return [
        (cell.request.task, cell.request.seed, _label(cell.request.method, cell.request.method_set)) for cell in cells
    ]


def _label(method: str, fields: Mapping[str, Any]) -> str:
    varied = VARIED.get(method)
    return f"{method}[{varied}={float(fields[varied])}]" if varied else method


def read_records(folder: Path) -> None:
    """Write the results of the grid's cells, and of no others, to industrial.csv."""
    names = {column: Measure.parse(text, beam=10) for column, text in RECORDED.items()}
    found = {_cell(result): result for result in load_results([folder]).results}
    with RECORDS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["task", "seed", "row", *RECORDED])
        for cell in grid_cells():
            if result := found.get(cell):
                values = [result.values.get(measure) for measure in names.values()]
                writer.writerow([*cell, *(f"{np.nan if value is None else value:.6f}" for value in values)])


def _cell(result: Result) -> tuple[str, int, str]:
    return result.task, result.seed, _label(result.method, json.loads(result.method_config))


def by_world(scores: Iterable[Score]) -> dict[str, dict[str, dict[int, Mapping[str, float]]]]:
    """World -> row -> seed -> numbers."""
    out: dict[str, dict[str, dict[int, Mapping[str, float]]]] = {}
    for score in scores:
        out.setdefault(score.world, {}).setdefault(score.row, {})[score.seed] = score.values
    return out


def ordered(rows: Iterable[str]) -> list[str]:
    """References, then the arms in their order, then other methods by name."""
    places = {name: place for place, name in enumerate(("original", "retrain", *ARMS))}
    return sorted(rows, key=lambda row: (places.get(row, len(places)), row))


def number(value: float, signed: bool = False) -> str:
    """Three decimals without the zero in front; a dash for what was not measured."""
    if not np.isfinite(value):
        return "–"
    text = f"{abs(value):.3f}"
    sign = ("−" if value < 0 else "+" if signed else "") if float(text) else ""
    return sign + text.removeprefix("0")


def level_table(rows: Mapping[str, Mapping[int, Mapping[str, float]]], columns: Mapping[str, str]) -> list[str]:
    """Mean over seeds of every row, with half the width of its 95 % interval where there are several."""
    lines = [f"| row | seeds | {' | '.join(columns.values())} |", f"|---|{'---|' * (len(columns) + 1)}"]
    for row in ordered(rows):
        cells = []
        for column in columns:
            found = t_interval(np.array([[values[column] for values in rows[row].values()]], dtype=np.float64))
            spread = found.high[0] - found.mean[0]
            if column == "moved":
                cells.append(f"{found.mean[0]:.1f}")
                continue
            cells.append(number(found.mean[0]) + (f" ± {number(spread)}" if np.isfinite(spread) else ""))
        lines.append(f"| `{row}` | {len(rows[row])} | {' | '.join(cells)} |")
    return lines


def difference_table(rows: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[str]:
    """Paired differences in one world, which are one family of tests."""
    pairs = [(one, two) for one, two in PAIRS if len(rows.get(one, {}).keys() & rows.get(two, {}).keys()) >= 2]
    if not pairs:
        return ["No pair of rows has two seeds yet, so nothing is compared."]
    seeds = sorted({seed for row in rows.values() for seed in row})
    nothing = dict.fromkeys(MEASURES, np.nan)
    differences = [
        [rows[one].get(seed, nothing)[name] - rows[two].get(seed, nothing)[name] for seed in seeds]
        for one, two in pairs
        for name in MEASURES
    ]
    return _tested("first − second", [f"`{one}` − `{two}`" for one, two in pairs], MEASURES, differences)


def frontier_table(rows: Mapping[str, Mapping[int, Mapping[str, float]]]) -> list[str]:
    """What each way of moving keeps above the frontier of unmoved tokens, at as much worst-case forgetting.

    The frontier of a seed is the broken line through its own models; ``np.interp`` is constant beyond its ends.
    """
    kept = {name: title for name, title in MEASURES.items() if name != "worst"}
    seeds = sorted(set.intersection(*(set(rows.get(name, {})) for name in (*FRONTIER, *LEARNED, RANDOM))))
    if len(seeds) < 2:
        return ["No two seeds have all rows yet, so nothing is compared."]
    lines = {seed: sorted((rows[name][seed] for name in FRONTIER), key=lambda one: one["worst"]) for seed in seeds}
    differences = [
        [
            rows[row][seed][name]
            - np.interp(rows[row][seed]["worst"], *([one[k] for one in lines[seed]] for k in ("worst", name)))
            for seed in seeds
        ]
        for row in (*LEARNED, RANDOM)
        for name in kept
    ]
    return _tested("row, above the frontier", [f"`{row}`" for row in (*LEARNED, RANDOM)], kept, differences)


def _tested(
    head: str, names: Sequence[str], measures: Mapping[str, str], differences: Sequence[Sequence[float]]
) -> list[str]:
    """A table of paired tests, one line a name and one column a measure, corrected together."""
    tests = paired_tests(differences)
    corrected = holm(tests.p)
    lines = [f"| {head} | seeds | {' | '.join(measures.values())} |", f"|---|---|{'---|' * len(measures)}"]
    for place, name in enumerate(names):
        cells = []
        for k in range(place * len(measures), (place + 1) * len(measures)):
            ends = f"[{number(tests.low[k], True)}, {number(tests.high[k], True)}]"
            text = f"{number(tests.estimate[k], True)} {ends}"
            cells.append(f"**{text}**" if corrected[k] <= ALPHA else text)
        lines.append(f"| {name} | {tests.n[place * len(measures)]} | {' | '.join(cells)} |")
    return lines


def method_table(scores: Iterable[Score]) -> list[str]:
    """Every row at seed 0, where all were run: served / exposed forget HR@1, and retain / near NDCG@10, by world."""
    found = by_world(score for score in scores if score.seed == 0)
    lines = [f"| row | {' | '.join(f'{world}: forget | kept' for world in found)} |", f"|---|{'---|---|' * len(found)}"]
    for row in ordered({row for rows in found.values() for row in rows}):
        cells = [f"`{row}`"]
        for rows in found.values():
            values = rows.get(row, {}).get(0, dict.fromkeys(("served", "exposed", *MEASURES), np.nan))
            cells.append(f"{number(values['served'])} / {number(values['exposed'])}")
            cells.append(f"{number(values['retain'])} / {number(values['near'])}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def missing_text(scores: Sequence[Score]) -> list[str]:
    """How many cells of the grid have a result, and which have none, by task and seed."""
    cells = grid_cells()
    there = {(score.world, score.seed, score.row) for score in scores}
    absent: dict[tuple[str, int], list[str]] = {}
    for task, seed, row in cells:
        if (task, seed, row) not in there:
            absent.setdefault((task, seed), []).append(row)
    rows = len({row for _, _, row in cells})
    lines = [f"**{len(cells) - sum(map(len, absent.values()))} of {len(cells)} cells have a result.**"]
    for task in dict.fromkeys(task for task, _ in absent):
        whole = [str(seed) for (name, seed), names in absent.items() if name == task and len(names) == rows]
        lines += [f"Nothing yet of `{task}` at seeds {', '.join(whole)}."] if whole else []
    for (task, seed), names in absent.items():
        if len(names) < rows:
            lines.append(f"Missing of `{task}` at seed {seed}: {', '.join(f'`{name}`' for name in names)}.")
    return lines


def sections() -> dict[str, list[str]]:
    """The generated parts of the pages, by name."""
    points, recorded = planted_scores(), recorded_scores()
    planted, real = by_world(points), by_world(recorded)
    forget = {"served": "served", "exposed": "exposed", "worst": "worst case"}
    kept = {"retain": "retain", "near": "retain-near"}
    cosines = {"cos_soft_start": "cos, soft start", "cos_soft_end": "soft end", "cos_end": "end"}
    out = {"all-methods": method_table(points), "cells": missing_text(recorded)}
    levels: list[str] = []
    for world, rows in planted.items():
        arms = {row: found for row, found in rows.items() if row in {"original", "retrain", *ARMS}}
        levels += [f"**{world}**", "", *level_table(arms, {**forget, **kept, "moved": "moved"}), ""]
        out[f"conflict {world}"] = level_table(arms, cosines)
        out[f"differences {world}"] = difference_table(rows)
    out["planted"] = levels[:-1]
    out["frontier Ω = 0.5"] = frontier_table(planted["Ω = 0.5"])
    for task in dict.fromkeys(task for task, _, _ in grid_cells()):
        rows = real.get(task, {})
        out[task] = level_table(rows, {**forget, **kept, "omega": "Ω"}) if rows else ["No cell has a result yet."]
        out[f"differences {task}"] = difference_table(rows)
    return out


def filled(text: str, parts: Mapping[str, Sequence[str]]) -> str:
    """A page with each part between its two comments, ``<!-- made: NAME -->`` and ``<!-- end -->``. Raises KeyError."""

    def replaced(match: re.Match[str]) -> str:
        return "\n".join([f"<!-- made: {match[1]} -->", "", *parts[match[1]], "", "<!-- end -->"])

    return re.sub(r"<!-- made: (.*?) -->\n.*?<!-- end -->", replaced, text, flags=re.S)


def main() -> None:
    """Read, draw, and fill the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--results", type=Path, help="folder with the grid's records")
    chosen = parser.parse_args()
    if chosen.results is not None:
        read_records(chosen.results)
    parts = sections()
    for page in PAGES:
        page.write_text(filled(page.read_text(encoding="utf-8"), parts), encoding="utf-8")
    draw(by_world([*planted_scores(), *recorded_scores()]), HERE / "reassignment.svg", HERE / "reassignment.png")


if __name__ == "__main__":
    main()
