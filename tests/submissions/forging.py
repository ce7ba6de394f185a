"""Ways to alter a submission as somebody would who renews every digest that can be renewed by hand."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from genrec_unlearn_bench.evaluation.per_user import recompute
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.reporting.results import Badge
from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.publish import published_bytes, read_table
from genrec_unlearn_bench.submissions.verification import verify

Record = dict[str, Any]
Alteration = Callable[[Path], None]


def places(folder: Path, task: str = "industrial-brand") -> list[Path]:
    """The result folders of a task, by seed."""
    return sorted(path.parent for path in (folder / "results" / task).rglob("result.json"))


def renewed(folder: Path) -> None:
    """List the files of submission.yaml anew."""
    path = folder / "submission.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    beside = {"submission.yaml", "verification.json"}
    files = {file.relative_to(folder).as_posix(): file for file in sorted(folder.rglob("*")) if file.is_file()}
    content["contents"] = {name: file_digest(file) for name, file in files.items() if name not in beside}
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def words(folder: Path, change: Callable[[Record], object]) -> None:
    """Change submission.yaml."""
    path = folder / "submission.yaml"
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def record(place: Path, change: Callable[[Record], object]) -> None:
    """Change a record, and renew the list of files."""
    path = place / "result.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    renewed(_root(place))


def metric(name: str, change: Callable[[Record], object]) -> Callable[[Record], None]:
    """Change the first value of a metric in a record."""

    def apply(content: Record) -> None:
        change(next(value for value in content["metrics"] if value["metric"] == name))

    return apply


def table(place: Path, change: Callable[[pd.DataFrame], pd.DataFrame], *, rescore: bool = False) -> None:
    """Change a per-user table and renew all digests; with ``rescore`` the record's aggregates follow."""
    path = place / "per_user.parquet"
    frame, _ = read_table(path.read_bytes(), "table")
    frame = change(frame.copy())
    path.write_bytes(published_bytes(frame))
    sealed(place, frame if rescore else None)


def raw_table(place: Path, change: Callable[[Any], Any]) -> None:
    """Change the parquet file itself (a ``pyarrow.Table``), past everything that publishing sees to."""
    import pyarrow.parquet as pq

    path = place / "per_user.parquet"
    sink = io.BytesIO()
    pq.write_table(change(pq.read_table(path)), sink)
    path.write_bytes(sink.getvalue())
    sealed(place, None)


def sealed(place: Path, frame: pd.DataFrame | None) -> None:
    """Renew the table's digest in the record and the list of files; with a frame its aggregates too."""

    def change(content: Record) -> None:
        content["per_user_digest"] = file_digest(place / "per_user.parquet")
        if frame is not None:
            fresh = {(v.metric, v.group.value, v.beam): v for v in recompute(frame)}
            for value in content["metrics"]:
                found = fresh.get((value["metric"], value["group"], value.get("beam")))
                if found is not None:
                    value.update(found.model_dump(mode="json", include={"value", "n", "sd", "interval"}))

    record(place, change)


def _root(place: Path) -> Path:
    return next(parent for parent in place.parents if (parent / "submission.yaml").is_file())


def is_refused(folder: Path, leaderboard: Path, *, check: str, message: str) -> None:
    """Assert that a check refuses the folder in these words, and says where and how to mend it."""
    found = verify(load(folder, leaderboard))
    assert not found.passed
    assert found.badge is Badge.SELF_REPORTED
    told = [fault for fault in found.checks[check] if message in fault.what]
    assert told, [fault.text() for fault in found.faults]
    assert all(fault.where and fault.hint for fault in found.faults)
    assert not any(str(folder) in fault.text() for fault in found.faults)


def first(folder: Path) -> Path:
    return places(folder)[0]


def demo(folder: Path) -> Path:
    return places(folder, "demo-brand")[0]


def fields(**changes: Any) -> Callable[[dict[str, Any]], None]:
    """Set fields; ``cell__seed`` goes down a level."""

    def apply(content: dict[str, Any]) -> None:
        for name, value in changes.items():
            *path, last = name.split("__")
            target = content
            for part in path:
                target = target[part]
            target[last] = value

    return apply


def edited_text(path: str, old: str, new: str, *, renew: bool = True) -> Alteration:
    def alter(folder: Path) -> None:
        file = folder / path
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, 1), encoding="utf-8")
        if renew:
            renewed(folder)

    return alter


def on_record(**changes: Any) -> Alteration:
    return lambda folder: record(first(folder), fields(**changes))
