"""Which stages several cells of a grid wait for, told apart before they exist.

The key of a stage that stands on a missing one is not known yet. What it will be made from is: two cells wait for the
same stage where everything that a run would make its key from is the same. That is what a link's identity says. It may
tell apart what turns out to be one stage; then the second job finds it done.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.recommender import Capability

if TYPE_CHECKING:
    from genrec_unlearn_bench.grid.job import Until
    from genrec_unlearn_bench.grid.probe import Shared
    from genrec_unlearn_bench.pipeline.setting import Setting

__all__ = ["Link", "links"]

_GROUND = ("download", "dataset", "task", "features")
_TOKENS = (*_GROUND, "sids", "sasrec")


@dataclass(frozen=True)
class Link:
    """A shared stage of a cell.

    Attributes:
        identity: The same for all cells that stand on it.
        there: Whether the walk has found it. What lies behind a missing stage cannot be found.
        needs: Identities of those that have to be there before.
        stages: Kinds of stored stages that the job makes.
    """

    identity: str
    there: bool
    name: str
    until: Until
    number: int
    needs: tuple[str, ...]
    stages: tuple[str, ...]


def links(setting: Setting, shared: Shared) -> tuple[Link, ...]:
    """The shared stages of a cell, each behind those it needs."""
    first = shared.missing[0].name if shared.missing and shared.footing is None else ""
    places = _places(setting)
    ground, tokens, original = (places[until][0] for until in ("ground", "tokens", "original"))
    joint = Capability.JOINT_TOKENIZER in setting.capabilities
    # Oracles stand on the IDs that are served, which a joint tokenizer has only after its training.
    served = (ground, tokens, original) if joint else (ground, tokens)
    return (
        Link(ground, first not in _GROUND, places["ground"][1], "ground", 0, (), ("dataset", "task", "features")),
        Link(tokens, first not in _TOKENS, places["tokens"][1], "tokens", 0, (ground,), ("sids",)),
        Link(original, not first, places["original"][1], "original", 0, (ground, tokens), ("original",)),
        *(
            Link(
                f"{places['retrain'][0]}/{number}",
                there,
                f"{places['retrain'][1]}, oracle {number}" if number else places["retrain"][1],
                "retrain",
                number,
                served,
                ("retrain",),
            )
            for number, there in enumerate(shared.oracles)
        ),
    )


def _places(setting: Setting) -> dict[str, tuple[str, str]]:
    """Identity and name of each kind of shared stage."""
    backbone = setting.backbone
    config, sids = setting.backbone_config, setting.sid_config
    data: dict[str, Any] = {
        "dataset": setting.dataset.name,
        "place": str(setting.data_dir or ""),
        "encoder": setting.encoder.key,
    }
    task = {"task": setting.request.task, "holdout": setting.suite.holdout}
    # A holdout is drawn from a task's train part, so that nothing trained is shared with other tasks.
    own = task if setting.suite.holdout else {}
    trained = {"seed": setting.seed, "device": setting.device_kind}
    vectors = backbone.collaborative(config, sids)
    reads = vectors is not None or backbone.reads_interactions(sids)
    tokens = {
        **data,
        **trained,
        "tokenizer": type(sids).__name__,
        "sids": sids.model_dump(mode="json"),
        "modules": sorted(backbone.tokenizer_modules()),
        **({"vectors": vectors.model_dump(mode="json")} if vectors is not None else {}),
        **(own if reads else {}),
    }
    original = {**tokens, **own, "backbone": backbone.name, "config": config.model_dump(mode="json")}
    where, scale = setting.dataset.name, f"{setting.scale.value}, seed {setting.seed}"
    held = f", {setting.request.suite}" if setting.suite.holdout else ""
    return {
        "ground": (_identity("ground", {**data, "task": setting.request.task}), f"ground: {setting.request.task}"),
        "tokens": (_identity("tokens", tokens), f"semantic IDs: {where}, {backbone.name}, {scale}{held}"),
        "original": (_identity("original", original), f"original: {where}, {backbone.name}, {scale}{held}"),
        "retrain": (
            _identity("retrain", {**original, **task}),
            f"retrain: {setting.request.task}, {backbone.name}, {scale}{held}",
        ),
    }


def _identity(kind: str, content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return f"{kind}/{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"
