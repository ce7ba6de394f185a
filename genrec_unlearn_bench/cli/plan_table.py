"""How ``bench plan`` looks: counts by backbone, a matrix of methods, and below them reasons, shared stages and sums."""

from __future__ import annotations

import shutil
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from genrec_unlearn_bench.cli.status_table import told_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rich.table import Table
    from rich.text import Text

    from genrec_unlearn_bench.grid.explanation import Explanation
    from genrec_unlearn_bench.grid.outlook import Outlook
    from genrec_unlearn_bench.grid.plan import Plan, PlannedCell, Standing

__all__ = ["cell_line", "counts_table", "explanation", "legend", "matrix", "reasons", "shared", "told_size", "totals"]

STYLES: dict[Standing, str] = {"done": "green", "missing": "yellow", "stale": "magenta", "impossible": "red"}
LETTERS: dict[Standing, str] = {"done": "✓", "missing": "·", "stale": "~", "impossible": "✗"}
MOST_METHODS = 60
MOST_REASONS = 8
MOST_SHARED = 12


def counts_table(name: str, plan: Plan) -> Table:
    """Backbones by standing."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=f"{name}: {_count(len(plan.cells), 'cell')}", title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1)
    )
    table.add_column("", no_wrap=True)
    for standing in STYLES:
        table.add_column(Text(standing, style=STYLES[standing]), justify="right")
    table.add_column("cells", justify="right")
    groups: dict[str, Counter[Standing]] = defaultdict(Counter)
    for planned in plan.cells:
        groups[planned.cell.request.backbone][planned.standing] += 1
    rows = dict(groups) if len(groups) < 2 else {**groups, "all": Counter(plan.counts)}
    for group, counts in rows.items():
        numbers = [Text(str(counts[one]) if counts[one] else "·", style=STYLES[one]) for one in STYLES]
        table.add_row(group, *numbers, str(counts.total()))
    return table


def matrix(plan: Plan, width: int) -> Table | None:
    """Methods by backbones, how many cells stand how; None where it would not fit or say nothing new."""
    from rich import box
    from rich.table import Table

    backbones = list(dict.fromkeys(planned.cell.request.backbone for planned in plan.cells))
    methods: dict[str, dict[str, Counter[Standing]]] = {}
    for planned in plan.cells:
        row = methods.setdefault(_method(planned), {backbone: Counter() for backbone in backbones})
        row[planned.cell.request.backbone][planned.standing] += 1
    told = {method: [_letters(row[backbone]) for backbone in backbones] for method, row in methods.items()}
    columns = [max(len(name), *(len(row[place]) for row in told.values())) for place, name in enumerate(backbones)]
    needed = max((len(method) for method in told), default=0) + sum(columns) + 2 * (len(backbones) + 1)
    if not 1 < len(methods) <= MOST_METHODS or needed > width:
        return None
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
    table.add_column("method", no_wrap=True)
    for backbone in backbones:
        table.add_column(backbone, no_wrap=True)
    for method, texts in told.items():
        table.add_row(method, *texts)
    return table


def legend() -> Text:
    """What the signs of the matrix mean."""
    from rich.text import Text

    text = Text("  ")
    for standing, letter in LETTERS.items():
        text.append(f"{letter} {standing}   ", style=STYLES[standing])
    return text


def reasons(plan: Plan) -> list[str | Text]:
    """Why cells are stale or impossible, and what missing ones wait for; equal reasons in one line."""
    found: list[str | Text] = []
    for standing in ("impossible", "stale", "missing"):
        cells = [planned for planned in plan.cells if planned.standing == standing]
        if not cells:
            continue
        found += ["", _heading(standing)]
        groups: dict[tuple[str, str], list[PlannedCell]] = defaultdict(list)
        for planned in cells:
            groups[planned.reason, planned.hint].append(planned)
        ordered = sorted(groups.items(), key=lambda group: -len(group[1]))
        for (reason, hint), members in ordered[:MOST_REASONS]:
            found.append(f"  {_count(len(members), 'cell')}: {reason}")
            if hint:
                found += [f"      {line.strip()}" for line in hint.splitlines()]
        found += _more(len(ordered), MOST_REASONS, f"reasons, with --standing {standing}")
    return found


def shared(plan: Plan, width: int) -> list[str]:
    """Stages to be made that cells share, those that most cells wait for first."""
    if not plan.shared:
        return []
    found = ["", f"shared stages to be made: {len(plan.shared)}"]
    for stage in plan.shared[:MOST_SHARED]:
        time = "unknown" if stage.seconds is None else f"{'' if stage.alike else '≈ '}{told_time(stage.seconds)}"
        line = f"  {stage.name}"
        room = max(40, min(width, 100) - 34)
        found.append(f"{line:<{room}} {_count(len(stage.cells), 'cell'):>11}  {time:>14}")
    return [*found, *_more(len(plan.shared), MOST_SHARED, "with --json")]


def totals(plan: Plan, whole: Outlook, cache: Path) -> list[str]:
    """Time and disk."""
    if not whole.jobs:
        done = not plan.counts["impossible"]
        return ["", "everything is done" if done else "everything that can be run is done"]
    known = whole.jobs - whole.unknown
    if not known:
        nothing = f"nothing like these {_count(whole.jobs, 'job')} is in the cache or among the results"
        return ["", f"time: unknown, as {nothing}"]
    time = f"time: {told_time(whole.seconds)} on one process"
    if whole.processes > 1:
        time += f", {told_time(whole.at_least)} at best on {whole.processes}"
    time += f"; {told_time(whole.longest)} however many there are"
    lines = ["", time]
    if whole.unknown:
        lines.append(f"      without {_count(whole.unknown, 'job')} of {whole.jobs} that nothing like was run of")
    if whole.rough:
        lines.append(f"      {_count(whole.rough, 'job')} by stages of another method, configuration or dataset (≈)")
    if whole.recorded:
        lines.append(f"      {_count(whole.recorded, 'job')} by results, made on: {'; '.join(whole.machines)}")
    if whole.unknown_size == whole.jobs:
        return lines
    room = _free(cache)
    left = "" if room is None else f"; {told_size(room)} free"
    unknown = f", without {_count(whole.unknown_size, 'job')}" if whole.unknown_size else ""
    lines.append(f"disk: {told_size(whole.size)} more in {cache}{unknown}{left}")
    return lines


def cell_line(planned: PlannedCell) -> Text:
    """One cell in one line."""
    from rich.text import Text

    line = Text(f"{planned.standing:<10} ", style=STYLES[planned.standing])
    time = f" ({told_time(planned.seconds)})" if planned.waits and planned.seconds else ""
    behind = planned.reason or (str(planned.result) if planned.result else "")
    line.append(f"{planned.cell.name}{time}: {behind}" if behind else f"{planned.cell.name}{time}", style="default")
    return line


def explanation(found: Explanation) -> list[str | Text]:
    """One cell in full."""
    from rich.text import Text

    head = Text(found.name)
    standing = Text(f"{found.standing}", style=STYLES[found.standing])
    if found.reason:
        standing.append(f": {found.reason}", style="default")
    lines: list[str | Text] = [head, standing]
    lines += [f"  {line.strip()}" for line in found.hint.splitlines()]
    if found.result is not None:
        lines.append(f"result: {found.result}")
    if found.steps:
        lines.append("")
        room = max(len(_step(step.name, step.of)) for step in found.steps)
        for step in found.steps:
            was = f", was {step.then[:10]}" if step.then else ""
            state = f"{'there' if step.there else 'to be made'}{was}"
            lines.append(f"  {_step(step.name, step.of):<{room}}  {step.key[:10]}  {state}")
    if found.difference is not None:
        lines += ["", f"{found.difference.stage}, compared with {found.compared}:"]
        lines += [f"  {field}" for field in found.difference.fields or ("nothing is left of it to compare with",)]
    return lines


def told_size(size: int) -> str:
    """``812 KiB``, ``3.4 GiB``."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if value >= 10 or unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def _method(planned: PlannedCell) -> str:
    """The method as the grid names it; a file's name for a file."""
    return str(planned.cell.axes.get("method") or planned.cell.request.method)


def _letters(counts: Counter[Standing]) -> Text:
    from rich.text import Text

    text = Text()
    for standing, letter in LETTERS.items():
        if counts[standing]:
            text.append(f"{letter}{counts[standing]} ", style=STYLES[standing])
    text.rstrip()
    return text


def _step(name: str, of: str) -> str:
    return f"{name} of {of}" if of else name


def _heading(standing: Standing) -> Text:
    from rich.text import Text

    return Text(f"{standing}:", style=STYLES[standing])


def _count(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _more(count: int, most: int, what: str) -> Sequence[str]:
    return [f"  … and {count - most} more {what}"] if count > most else []


def _free(place: Path) -> int | None:
    """Bytes free where the cache lies, or will lie."""
    candidates: Iterable[Path] = (place, *place.absolute().parents)
    there = next((folder for folder in candidates if folder.is_dir()), None)
    return shutil.disk_usage(there).free if there is not None else None
