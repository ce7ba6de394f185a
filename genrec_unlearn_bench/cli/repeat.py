"""``bench reproduce RUN``: a record's cell once more, and how the numbers compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from genrec_unlearn_bench.cli.console import print_json, progressing, stdout

if TYPE_CHECKING:
    from genrec_unlearn_bench.reproduce.repetition import Compared, Repetition

__all__ = ["repeat"]

SHOWN = ("hr@10", "ndcg@10", "concept-rate@10", "similarity.first")
"""Always shown; of the rest only what is not identical."""

ASKED = {
    "bits": "the same bits",
    "floor": "HR@10 and NDCG@10 within the noise floor that was measured on this GPU",
    "users": "HR@10 and NDCG@10 within 2.8 standard errors over users, as no noise floor is known here",
}

MOST = 12
"""Rows of other numbers that are shown."""


def repeat(
    text: str,
    *,
    results_dir: Path,
    cache_dir: Path | None,
    data_dir: Path | None,
    method: str | None,
    encoder: str | None,
    device: str | None,
    threads: int | None,
    fresh: bool,
    floor: int | None,
    as_json: bool,
) -> None:
    """Repeat a run, or measure its noise floor, and print the comparison; exit code 1 where it does not hold."""
    from genrec_unlearn_bench.pipeline.results import read_record
    from genrec_unlearn_bench.reproduce.floor_runs import measure_floor
    from genrec_unlearn_bench.reproduce.noise_floor import NoiseFloor, read_floors
    from genrec_unlearn_bench.reproduce.repeat import Anew, repeat_record
    from genrec_unlearn_bench.reproduce.run_lookup import PLACES, find_run
    from genrec_unlearn_bench.store.store import default_cache

    folder = find_run(text, tuple(dict.fromkeys([results_dir, *PLACES])))
    record = read_record(folder)
    anew: Anew = "all" if fresh else "row"
    with progressing() as progress:

        def once(floors: tuple[NoiseFloor, ...]) -> Repetition:
            return repeat_record(
                record,
                method=method,
                cache_dir=cache_dir or default_cache(),
                data_dir=data_dir,
                threads=threads,
                device=device,
                encoder=encoder,
                anew=anew,
                floors=floors,
                progress=progress,
            )

        progress.info(f"{folder}: {record.command}")
        if floor is None:
            done = once(read_floors(folder))
        else:
            _, done = measure_floor(folder, record, floor, once, anew=anew, progress=progress)
    if as_json:
        print_json(_content(done, folder))
    else:
        _draw(done, folder)
    if not done.matches:
        raise typer.Exit(1)


def _content(done: Repetition, folder: Path) -> dict[str, Any]:
    return {
        "folder": str(folder),
        "key": done.then.key,
        "matches": done.matches,
        "bitwise": done.bitwise,
        "basis": done.basis,
        "floor_unused": done.floor_unused,
        "counts": done.counts,
        "parted": done.parted,
        "reused": list(done.reused),
        "changes": [vars(change) for change in done.changes],
        "rows": [{**vars(row), "group": row.group.value} for row in done.rows],
        "record": done.now.model_dump(mode="json"),
    }


def _draw(done: Repetition, folder: Path) -> None:
    from genrec_unlearn_bench.cli.descriptions import Card, Sheet

    cell = done.then.cell
    first = [row for row in done.rows if row.metric in SHOWN]
    others = [row for row in done.rows if row.metric not in SHOWN and row.verdict in ("differs", "within")]
    others.sort(key=lambda row: row.verdict != "differs")
    columns = ("metric", "group", "beam", "then", "now", "allowed", "verdict")
    sheets = [Sheet("", tuple(_row(row) for row in [*first, *others[:MOST]]), columns)]
    if len(others) > MOST:
        sheets.append(Sheet("", ((f"and {len(others) - MOST} more that are not identical (--json has all)",),)))
    facts = [
        ("numbers", ", ".join(f"{count} {verdict}" for verdict, count in done.counts.items())),
        ("asked for", ASKED[done.basis]),
        *([("noise floor", f"not used: {done.floor_unused}")] if done.floor_unused else []),
        ("surroundings", "\n".join(map(str, done.changes)) or "as they were"),
        ("from the cache", ", ".join(done.reused) or "nothing"),
        ("first difference", done.parted or "none: every stage came out the same"),
        ("verdict", "the record holds" if done.matches else "the record does not hold here"),
    ]
    sheets.append(Sheet("", tuple(facts)))
    title = f"{cell.task} · {cell.backbone} · {cell.method} · {cell.scale} · seed {cell.seed}"
    Card(title, {}, text=str(folder), sheets=tuple(sheets)).draw(stdout())


def _row(row: Compared) -> tuple[str, ...]:
    numbers = ["–" if value is None else f"{value:.6g}" for value in (row.then, row.now)]
    allowed = "–" if row.allowed is None else f"±{row.allowed:.2g}"
    return row.metric, row.group.value, str(row.beam or "–"), *numbers, allowed, row.verdict
