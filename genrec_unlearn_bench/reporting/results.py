"""Results as reporting reads them: the lean part of every record below a folder, with where it came from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from genrec_unlearn_bench.config import first_fault
from genrec_unlearn_bench.errors import CorruptArtefact, DataMissing
from genrec_unlearn_bench.files import find_files
from genrec_unlearn_bench.pipeline.record import Environment, RunRecord
from genrec_unlearn_bench.pipeline.results import RECORD
from genrec_unlearn_bench.reporting.measure import TOTAL_SHARE, TUNING_SECONDS, UNLEARN_SECONDS, Measure

SCALES = ("smoke", "small", "paper", "official")
"""Those of ``bench run --scale``, the nearest to the official code last."""
_GAPS = ("gap.", "gapz.")
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


class Badge(StrEnum):
    """How far a result has been checked (protocol sec. 7); see leaderboard/RULES.md."""

    SELF_REPORTED = "self-reported"
    """The authors say so."""
    RE_SCORED = "re-scored"
    """Every ranking metric and concept rate follows from the per-user tables, and all checks passed."""
    REPRODUCED = "reproduced"
    """A cell, run again elsewhere, gave the same numbers, and nothing is withheld; the text says how many of them."""


@dataclass(frozen=True)
class Source:
    """Where results come from; renderers escape what the submitter wrote."""

    name: str = ""
    """Of the submission; empty for results that belong to none."""
    title: str = ""
    authors: tuple[str, ...] = ()
    link: str = ""
    bibtex: str = ""
    badge_text: str = Badge.SELF_REPORTED.value
    """The badge with what was run again and how."""


OWN = Source()


@dataclass(frozen=True, eq=False, slots=True)
class Result:
    """One record, cut down to what tables need.

    Attributes:
        method_config, backbone_config, sid_config: As canonical JSON, so that they can be compared and hashed.
        values: Every measured number but the record's own gaps, which know one oracle only; None = not measured.
        examples: Over how many examples or items each was taken, where the record says so.
        holdout: Digest of the interactions that nothing was trained on; empty where everything was.
        recommenders: Digests of the trained original and retrained model behind it, by stage.
        requests: Into how many the forget set was divided.
        place: The result's folder relative to the folder that was read, with ``/``.
        folder: Where it lies, for its per-user table.
    """

    key: str
    task: str
    backbone: str
    method: str
    seed: int
    scale: str
    suite: str
    ruleset: str
    protocol_version: int
    suite_version: str
    created: str
    dataset_digest: str
    task_digest: str
    method_digest: str
    method_config: str
    backbone_label: str
    backbone_config: str
    sid_config: str
    encoder: str
    environment: Environment
    diverged: bool
    ended_early: Mapping[str, str]
    values: Mapping[Measure, float | None]
    examples: Mapping[Measure, int]
    command: str
    notes: tuple[str, ...]
    per_user_digest: str
    holdout: str
    original_over_sasrec: float | None
    recommenders: Mapping[str, str]
    requests: int
    place: str
    folder: Path
    source: Source


CELL_COLUMNS = ("task", "backbone", "method", "seed", "scale", "suite", "ruleset", "requests")
"""What a result is selected by; ``backbone`` is then the name that tables show."""
_OF_RECORD = tuple(field.name for field in dataclass_fields(Result) if field.name in RunRecord.model_fields)


class Loaded(NamedTuple):
    """Results of some folders; ``faults`` are the records that could not be read, as sentences."""

    results: tuple[Result, ...]
    faults: tuple[str, ...]


def scale_rank(scale: str) -> int:
    """Place of a scale in ``SCALES``; -1 for one that does not exist."""
    return SCALES.index(scale) if scale in SCALES else -1


def load_results(roots: Sequence[Path], *, source: Source = OWN, skip_broken: bool = False) -> Loaded:
    """Read every record below some folders.

    Raises:
        DataMissing: A folder does not exist, or there is no record in any of them.
        CorruptArtefact: Some cannot be read (all are named, at most ten in full), unless ``skip_broken``.
    """
    results: list[Result] = []
    faults: list[str] = []
    for root in roots:
        if not root.is_dir():
            raise DataMissing(
                f"there is no folder {str(root)!r}", hint="give the folder that bench run wrote to (--results-dir)"
            )
        for path in find_files(root, RECORD):
            try:
                record = RunRecord.model_validate_json(path.read_bytes())
                results.append(result_of(record, folder=path.parent, root=root, source=source))
            except (OSError, ValidationError) as fault:
                reason = fault.strerror or str(fault) if isinstance(fault, OSError) else first_fault(fault)
                faults.append(f"{path}: {reason}")
    if faults and not skip_broken:
        listing = "".join(f"\n  - {fault}" for fault in faults[:10])
        more = f"\n  … and {len(faults) - 10} more" if len(faults) > 10 else ""
        raise CorruptArtefact(
            f"{len(faults)} of {len(faults) + len(results)} records cannot be read:{listing}{more}",
            hint="restore or remove these folders, or go on without them (--skip-broken)",
        )
    if not results and not faults:
        raise DataMissing(
            f"no result below {', '.join(str(root) for root in roots)}",
            hint="run something first (bench run), or give another --results-dir",
        )
    return Loaded(tuple(results), tuple(faults))


def result_of(record: RunRecord, *, folder: Path, root: Path, source: Source = OWN) -> Result:
    """The lean form of a record."""
    cell = record.cell
    measured = [(Measure(v.metric, v.group, v.beam), v) for v in record.metrics if not v.metric.startswith(_GAPS)]
    values = {measure: value.value for measure, value in measured}
    shared = {name: getattr(cell, name) for name in CELL_COLUMNS} | {name: getattr(record, name) for name in _OF_RECORD}
    configs = {name: _canonical(shared[name]) for name in ("method_config", "backbone_config", "sid_config")}
    return Result(
        **{**shared, **configs, "backbone_label": record.backbone_label or cell.backbone},
        values=values | _costs(record, values.get(UNLEARN_SECONDS)),
        examples={measure: value.n for measure, value in measured if value.n},
        recommenders={stage.name: stage.digest for stage in record.stages if stage.name in ("original", "retrain")},
        place=folder.relative_to(root).as_posix() if folder.is_relative_to(root) else folder.name,
        folder=folder,
        source=source,
    )


def _costs(record: RunRecord, unlearning: float | None) -> dict[Measure, float | None]:
    """Seconds of tuning, and unlearning with tuning as a percentage of retraining; None where a part is not recorded.

    A tuned method whose record counts no seconds of tuning has unknown ones.
    """
    if unlearning is None:
        return {}
    cost = record.cost
    unknown = not cost.tuning_seconds and (cost.tuning_trials > 0 or record.cell.ruleset == "tuned")
    tuning = None if unknown else cost.tuning_seconds
    share = None
    if tuning is not None and cost.retrain_seconds:
        share = 100.0 * (unlearning + tuning) / cost.retrain_seconds
    return {TUNING_SECONDS: tuning, TOTAL_SHARE: share}
