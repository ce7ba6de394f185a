"""A request: one cell and how to run it, as the command line and the library both write it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from genrec_unlearn_bench.config import StrictModel, parse

RulesetName = Literal["default", "fixed", "tuned"]
M = TypeVar("M", bound=BaseModel)

TUNING_SEED = 9000
"""Far from the seeds that are reported (0 … 4) and from those of their oracles (1000 steps). From here on seeds are for
tuning, and tables leave their runs out."""


def _plain(value: Any) -> Any:
    """Numbers of NumPy and tuples as JSON has them."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.item() if hasattr(value, "item") else value


Fields = Annotated[dict[str, JsonValue], BeforeValidator(_plain)]


class RunRequest(StrictModel):
    """One cell of a grid. What is None takes the default of its task or scale."""

    task: str
    """Name of a task (``bench ls tasks``)."""
    method: str
    """Name of a method or reference row, or ``path/to/file.py:ClassName``."""
    backbone: str = "tiger"
    """Name of a backbone."""
    seed: int = Field(default=0, ge=0)
    """Training seed; data seeds belong to the task and do not depend on it."""
    scale: str | None = None
    """smoke, small, paper or official; ``smoke`` for the demo's tasks and ``small`` for all others."""
    suite: str = "core"
    """Which measurements are taken (``evaluation.suites``)."""
    measure: tuple[str, ...] = ()
    """Of a suite that takes more than the core, these measurements alone; all where none are named."""
    measure_set: Fields = Field(default_factory=dict)
    """Fields of the measurements' configurations that differ from the scale's presets: ``relearning.lr`` …"""
    data_dir: Path | None = None
    """Where the dataset's files lie."""
    sids: Path | None = None
    """Index file (``index.json`` of LETTER or MiniOneRec) with the items' semantic IDs; None trains a tokenizer."""
    encoder: str | None = None
    """Text encoder; TF-IDF at smoke and small scale, a sentence encoder above."""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 …"""
    threads: int | None = Field(default=None, ge=1)
    """CPU threads; where none are given, one at smoke scale and the physical cores above."""
    method_set: Fields = Field(default_factory=dict)
    """Fields of the method's configuration that differ from its defaults."""
    backbone_set: Fields = Field(default_factory=dict)
    """Fields of the backbone's configuration that differ from the scale's preset; dots go down a level."""
    sid_set: Fields = Field(default_factory=dict)
    """Fields of the tokenizer's configuration that differ from the scale's preset."""
    ruleset: RulesetName = "default"
    """Where the method's configuration comes from: its defaults with ``method_set``, one configuration for all tasks
    (``fixed``), or what ``bench tune`` has chosen for this cell (``tuned``)."""
    tuned_dir: Path = Path("tuned")
    """Where the choices of ``bench tune`` lie."""
    oracle_seeds: int = Field(default=1, ge=0, le=20)
    """Retrained models the gap is taken against: seeds s, s + 1000, s + 2000 …; 0 takes no gap."""
    sasrec: bool | None = None
    """Whether SASRec is trained once a dataset, to hold the original's quality against; None: at all scales but
    smoke, whose models are small on purpose."""
    requests: int = Field(default=1, ge=1)
    """Number of requests the forget set is divided into, by concept; each is applied to the last one's model."""
    shadows: int = Field(default=0, ge=0, le=64)
    """Shadow models that are trained for U-LiRA; 0 trains none and takes none of its metrics."""
    results_dir: Path = Path("results")
    """Where the result is written."""

    def command(self) -> str:
        """The command line that repeats this run."""
        names = ("backbone", "seed", "scale", "suite", "data_dir", "sids", "encoder", "device", "threads")
        more = ("oracle_seeds", "sasrec", "measure", "ruleset", "tuned_dir", "requests", "shadows")
        return shlex.join(self.arguments("run", *names, *more))

    def arguments(self, verb: str, *names: str) -> list[str]:
        """A call of ``verb`` with the task, the method, the named fields and all changes of configurations."""
        words = ["bench", verb, "--task", self.task, "--method", self.method]
        for name in names:
            value = getattr(self, name)
            if isinstance(value, bool):
                words.append(f"--{'' if value else 'no-'}{name}")
            elif value is not None and (name in ("seed", "scale") or value != type(self).model_fields[name].default):
                text = ",".join(value) if isinstance(value, tuple) else str(value)
                words += [f"--{name.replace('_', '-')}", text]
        parts = (("", self.method_set), ("-backbone", self.backbone_set))
        for part, fields in (*parts, ("-sid", self.sid_set), ("-measure", self.measure_set)):
            for name, value in fields.items():
                plain = json.dumps(value) if value is None or isinstance(value, dict | list) else str(value)
                words += [f"--set{part}", f"{name}={plain}"]
        return words


def _merged(now: Any, value: Any) -> Any:
    """The fields of a section that are named, in place of those it has."""
    if isinstance(now, dict) and isinstance(value, Mapping):
        return now | {name: _merged(now.get(name), one) for name, one in value.items()}
    return value


def changed(preset: M, fields: Mapping[str, Any], *, where: str) -> M:
    """A preset with some fields changed; ``training.epochs`` goes down a level, as a nested mapping does.

    Raises ConfigError with all faults at once.
    """
    content = preset.model_dump()
    for name, value in fields.items():
        place: Any = content
        *path, last = name.split(".")
        for part in path:
            place = place.setdefault(part, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            place[last] = _merged(place.get(last), value)
        else:
            # The name goes below a plain value: validation reports it under the name as it was given.
            content[name] = value
    return parse(type(preset), content, where=where)
