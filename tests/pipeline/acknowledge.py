"""Version lock of stages: which sources shape the outcome of each stage, and what was acknowledged about them.

A stage's key holds its version, not its code. So ``stage_versions.json`` keeps the version of every stage with a digest
of the sources behind it, and ``test_versions.py`` fails where they part: whoever changes the sources says whether the
outcome changed (raise the version) or not (acknowledge). ``python -m tests.pipeline.acknowledge`` writes the file.

A source is listed at the first stage whose outcome it shapes: what is made from that stage follows by its key. Code
that several stages run on their own (decoding, the division of a stream) is listed at each of them. Files of methods
are none: their digests are in the keys.
"""

from __future__ import annotations

import ast
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2] / "genrec_unlearn_bench"
LOCK = Path(__file__).with_name("stage_versions.json")
COMMAND = "python -m tests.pipeline.acknowledge"

EVERYWHERE = ("seeding.py",)

_TOKENIZER = ("sids", "!sids/health.py", "!sids/overlap.py", "pipeline/stages/train.py")
_TRAINING = (
    *("backbones", "!backbones/__init__.py", "!backbones/sasrec.py", "!backbones/sasrec_network.py"),
    *("decoding", "data/holdout.py", "pipeline/stages/train.py"),
)
_MEASURE = ("evaluation/measurement.py", "pipeline/stages/evaluate.py")
_SHADOWS = ("evaluation/ulira.py", "pipeline/stages/shadows.py")

SOURCES: Mapping[str, tuple[str, ...]] = {
    "dataset": (
        *("data/dataset.py", "data/examples.py", "data/fields.py", "data/formats"),
        *("data/items.py", "data/prepare.py", "data/splits.py"),
        "pipeline/stages/data.py",
    ),
    "task": (
        *(f"data/{name}.py" for name in ("attributes", "concepts", "draws", "forget", "neighbours", "tasks")),
        "pipeline/stages/data.py",
    ),
    "features": ("features", "pipeline/stages/data.py"),
    "features-scrubbed": ("features", "data/scrub.py", "pipeline/stages/data.py"),
    "sids": (*_TOKENIZER, "backbones/backbone.py", "backbones/etegrec/tokenizer.py", "backbones/letter.py"),
    "sids-full": (*_TOKENIZER, "backbones/backbone.py", "backbones/etegrec/tokenizer.py", "backbones/letter.py"),
    "sasrec": (
        "backbones/sasrec.py",
        "backbones/sasrec_network.py",
        "backbones/training.py",
        "data/holdout.py",
        "decoding/beam.py",
        "pipeline/stages/train.py",
    ),
    "popularity": ("backbones/sasrec.py", "data/holdout.py", "pipeline/stages/train.py"),
    "original": _TRAINING,
    "retrain": _TRAINING,
    "retrain-full": _TRAINING,
    "unlearned": (
        *("unlearning", "sids/kmeans.py", "sids/overlap.py", "decoding"),
        *("pipeline/stages/unlearn.py", "pipeline/stages/stream.py"),
    ),
    "stream": ("pipeline/stages/stream.py",),
    "evaluation": (
        *("evaluation/collateral.py", "evaluation/core.py"),
        *(
            "evaluation/decode.py",
            "evaluation/exposure.py",
            "evaluation/history_influence.py",
            "evaluation/lists.py",
            "evaluation/metric.py",
        ),
        *("evaluation/per_user.py", "evaluation/ranking.py"),
        *("decoding", "sids/overlap.py"),
        *("pipeline/stages/evaluate.py", "pipeline/stages/stream.py"),
    ),
    "sasrec-quality": ("evaluation/decode.py", "backbones/early_stopping.py", "pipeline/stages/evaluate.py"),
    "validated": ("unlearning/validation.py", "decoding", "pipeline/stages/evaluate.py"),
    "hidden-states": ("evaluation/probing/states.py", "evaluation/probing/splits.py", *_MEASURE),
    "probing": ("evaluation/probing", "!evaluation/probing/states.py", *_MEASURE),
    "likelihoods": ("evaluation/likelihoods.py", "evaluation/likelihood_scoring.py", *_MEASURE),
    "membership": ("evaluation/membership.py", *_MEASURE),
    "forget-quality": ("evaluation/forget_quality.py", *_MEASURE),
    "quantisation": ("evaluation/quantisation.py", "evaluation/quantised.py", *_MEASURE),
    "relearning-start": ("evaluation/relearning/attack.py", *_MEASURE),
    "relearning": ("evaluation/relearning", "unlearning/lora.py", *_MEASURE),
    "u-lira": _SHADOWS,
    "u-lira-metrics": _SHADOWS,
    "result": (
        *("evaluation/gap.py", "evaluation/stream.py", "evaluation/collateral.py"),
        *("pipeline/run.py", "pipeline/stages/stream.py"),
    ),
}
"""Files and folders of the package behind each stage; ``!`` takes out a part of a folder."""

NO_OUTCOME = (
    # Specifications of datasets (``data/catalogue.py``) are in the keys by their fields.
    *("data/catalogue.py", "data/download.py", "data/frames.py", "data/locate.py"),
    *("backbones/__init__.py", "sids/health.py"),
    *("evaluation/catalogue.py", "evaluation/invariants.py", "evaluation/suites.py"),
)
"""Files in the covered folders that change no stage's outcome: they find, download, list or check."""

COVERED = ("data", "features", "sids", "decoding", "backbones", "unlearning", "evaluation", "pipeline/stages")
"""Folders every file of which is behind some stage or in ``NO_OUTCOME``."""

VERSIONED_IN = {
    **dict.fromkeys(("dataset", "task", "features", "features-scrubbed"), "pipeline/stages/data.py"),
    **dict.fromkeys(("sids", "sids-full", "sasrec", "popularity"), "pipeline/stages/train.py"),
    **dict.fromkeys(("original", "retrain", "retrain-full"), "pipeline/stages/train.py (fit_stage)"),
    "unlearned": "pipeline/stages/unlearn.py (TOOLKIT_VERSION)",
    "stream": "pipeline/stages/stream.py",
    **dict.fromkeys(("evaluation", "sasrec-quality", "validated"), "pipeline/stages/evaluate.py"),
    "hidden-states": "evaluation/probing/measurement.py (STATES)",
    "probing": "evaluation/probing/measurement.py",
    "likelihoods": "evaluation/likelihoods.py (LIKELIHOODS)",
    "membership": "evaluation/membership.py",
    "forget-quality": "evaluation/forget_quality.py",
    "quantisation": "evaluation/quantisation.py",
    "relearning-start": "evaluation/relearning/measurement.py (START)",
    "relearning": "evaluation/relearning/measurement.py",
    **dict.fromkeys(("u-lira", "u-lira-metrics"), "pipeline/stages/shadows.py"),
    "result": "pipeline/graph.py",
}
"""Where the version of each stage stands."""


@dataclass(frozen=True)
class Locked:
    """Version of a stage and digest of the sources behind it."""

    version: int
    sources: str


def files_of(patterns: Iterable[str], root: Path = ROOT) -> list[Path]:
    """The files that the patterns of a stage mean; of folders, the Python files.

    Raises FileNotFoundError for a pattern that means nothing.
    """
    found: set[Path] = set()
    for pattern in patterns:
        place = root / pattern.removeprefix("!")
        files = set(place.rglob("*.py")) if place.is_dir() else {place}
        if not place.exists():
            raise FileNotFoundError(f"{place} is behind a stage by {Path(__file__).name}, and is not there")
        found = found - files if pattern.startswith("!") else found | files
    return sorted(found)


def digest_of(patterns: Iterable[str], root: Path = ROOT) -> str:
    """blake2b-128 of the code behind a stage: no docstrings, comments, annotations, layout or names of files count."""
    parts = sorted(_content(path) for path in files_of((*patterns, *EVERYWHERE), root))
    return hashlib.blake2b("\n".join(parts).encode(), digest_size=16).hexdigest()


def _content(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return repr(code_of(ast.parse(text))) if path.suffix == ".py" else text


def code_of(node: Any) -> Any:
    """A syntax tree as nested lists, the same in every version of Python that parses it."""
    if isinstance(node, list):
        return [code_of(part) for part in node if not _is_prose(part)]
    if not isinstance(node, ast.AST):
        return node
    if isinstance(node, ast.AnnAssign) and node.value is not None:
        node = ast.Assign([node.target], node.value)
    ignored = ("annotation", "returns", "type_comment", "type_params", "kind")
    fields = [(name, value) for name, value in ast.iter_fields(node) if name not in ignored and value not in (None, [])]
    return [type(node).__name__, *([name, code_of(value)] for name, value in fields)]


def _is_prose(node: object) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def versions_now() -> dict[str, int]:
    """Version by stage name, from the graphs of a few cells of the demo that have every stage between them."""
    from genrec_unlearn_bench.pipeline.graph import build_result
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.resolve import resolve
    from genrec_unlearn_bench.pipeline.stage import topological
    from genrec_unlearn_bench.pipeline.stages.evaluate import validate_stage

    requests = [
        RunRequest(task="demo-brand", method="tracer", suite="full", shadows=4),
        RunRequest(task="demo-brand", method="filter", requests=2),
        RunRequest(task="demo-brand", method="retrain-full", backbone="letter"),
        RunRequest(task="demo-brand", method="popularity", sasrec=True),
    ]
    found: dict[str, int] = {}
    for request in requests:
        resolved = resolve(request)
        result = build_result(resolved)
        data = {role: result.inputs[role] for role in ("dataset", "task", "features", "scrubbed")}
        for stage in topological([result, validate_stage(resolved, data, result.inputs["row"], result.inputs["sids"])]):
            if found.setdefault(stage.name, stage.version) != stage.version:
                raise ValueError(f"the stage {stage.name!r} has the versions {found[stage.name]} and {stage.version}")
    return found


def locked_now() -> dict[str, Locked]:
    """Version and sources of every stage as they are."""
    return {name: Locked(version, digest_of(SOURCES[name])) for name, version in sorted(versions_now().items())}


def read_lock(path: Path = LOCK) -> dict[str, Locked]:
    """What was acknowledged last; empty where nothing was."""
    return {name: Locked(**one) for name, one in json.loads(path.read_text()).items()} if path.is_file() else {}


def faults(acknowledged: Mapping[str, Locked], now: Mapping[str, Locked]) -> list[str]:
    """A line for every stage that is not as it was acknowledged."""
    lines = [f"the stage {name} is no longer made: {COMMAND}" for name in acknowledged.keys() - now.keys()]
    for name, stage in now.items():
        before = acknowledged.get(name)
        place = VERSIONED_IN.get(name, "its Stage(...)")
        if before is None:
            lines.append(f"the stage {name} is new: {COMMAND}")
        elif stage.version < before.version:
            lines.append(
                f"the version of the stage {name} was lowered from {before.version} to {stage.version}: {place}"
            )
        elif stage.version > before.version:
            lines.append(f"the version of the stage {name} was raised to {stage.version}: {COMMAND}")
        elif stage.sources != before.sources:
            lines.append(
                f"the sources behind the stage {name} changed. Has its outcome changed? Raise its version in {place}; "
                f"else acknowledge: {COMMAND}"
            )
    return sorted(lines)


def acknowledge(now: Mapping[str, Locked], path: Path = LOCK) -> list[str]:
    """Write the lock as things are; returns the stages that differ from what it said. Refuses lowered versions."""
    before = read_lock(path)
    lowered = [name for name, stage in now.items() if name in before and stage.version < before[name].version]
    if lowered:
        raise SystemExit(
            f"the versions of {', '.join(lowered)} were lowered: results that were computed under the number would be "
            f"found again. Raise them above what {path.name} says."
        )
    path.write_text(json.dumps({name: vars(now[name]) for name in sorted(now)}, indent=2) + "\n")
    return [name for name in sorted(now) if before.get(name) != now[name]]


if __name__ == "__main__":
    changed = acknowledge(locked_now())
    sys.stdout.write(f"acknowledged: {', '.join(changed) or 'nothing had changed'}\n")
