"""Was everybody's recommender the same one: rows of a table differ in the method, and in nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pydantic import ValidationError

from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.submissions.bundle import Bundle
from genrec_unlearn_bench.submissions.fault import Fault

__all__ = ["check_recommenders"]

_SETTINGS = ("backbone_config", "sid_config", "encoder")


def check_recommenders(bundle: Bundle) -> Iterable[Fault]:
    """One configuration of backbone, tokenizer and encoder for each task, backbone and scale: the leaderboard's own,
    where it has results of that kind, else the first result's."""
    first: dict[tuple[str, ...], tuple[str, RunRecord]] = {}
    for result in bundle.results:
        record, cell = result.record, result.record.cell
        key = (cell.task, cell.backbone, record.backbone_label, cell.scale)
        if key not in first:
            known = None if bundle.is_tree else _known(bundle, record)
            first[key] = known or (result.place, record)
        place, other = first[key]
        differing = [name for name in _SETTINGS if getattr(other, name) != getattr(record, name)]
        if differing:
            yield Fault(
                what=f"the recommender is set up differently than in {place}: {_shown(other, record, differing)}",
                where=f"{result.record_path}: {', '.join(differing)}",
                hint="run it with the settings of that result's command, so that only the method differs",
            )


def _known(bundle: Bundle, record: RunRecord) -> tuple[str, RunRecord] | None:
    """A result of the leaderboard's own with the same task, backbone and scale."""
    if bundle.leaderboard is None:
        return None
    cell = record.cell
    folder = bundle.leaderboard / "results" / cell.task / cell.backbone
    for path in sorted(folder.glob(f"*/{cell.scale}-seed*/{RECORD}")):
        found = _read(path)
        if found is not None and found.backbone_label == record.backbone_label:
            return f"leaderboard/results/{path.parent.relative_to(bundle.leaderboard / 'results').as_posix()}", found
    return None


def _read(path: Path) -> RunRecord | None:
    try:
        return RunRecord.model_validate_json(path.read_bytes())
    except ValidationError:
        return None


def _shown(one: RunRecord, other: RunRecord, names: list[str]) -> str:
    """The first field that differs, as ``training.epochs 40 there, 4 here``."""
    there, here = getattr(one, names[0]), getattr(other, names[0])
    path = [names[0]]
    while isinstance(there, dict) and isinstance(here, dict):
        name = next(name for name in (*there, *here) if there.get(name) != here.get(name))
        there, here = there.get(name), here.get(name)
        path.append(name)
    return f"{'.'.join(path)} is {str(there)[:60]!a} there and {str(here)[:60]!a} here"
