"""The stage in which a method does its work, and is measured doing it: nothing else runs inside the clock."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.backbones.recommender import Recommender, ServingRules
from genrec_unlearn_bench.errors import BenchError, CorruptArtefact
from genrec_unlearn_bench.pipeline.meter import metered
from genrec_unlearn_bench.pipeline.stage_log import StageLog
from genrec_unlearn_bench.pipeline.trained import MODEL, Tokens, Trained
from genrec_unlearn_bench.pipeline.weights import first_not_finite
from genrec_unlearn_bench.registry import Entry, source_file
from genrec_unlearn_bench.store.sources import code_digests
from genrec_unlearn_bench.unlearning.request import check_request

if TYPE_CHECKING:
    from genrec_unlearn_bench.data.examples import BoolArray
    from genrec_unlearn_bench.pipeline.ground import Ground
    from genrec_unlearn_bench.pipeline.workroom import Workroom
    from genrec_unlearn_bench.store.keys import KeyContent

__all__ = ["unlearned"]


def unlearned(room: Workroom, ground: Ground, sids: Tokens, before: Trained) -> Trained:
    """Apply the setting's method to the original.

    Raises:
        DataFault: There is nothing to forget, or nothing to keep.
        CorruptArtefact: The original's weights are not finite.
        BenchError: The setting has no method (a reference row), or the method broke its contract.
    """
    setting = room.setting
    method = setting.method
    if method is None:
        raise BenchError(f"{setting.entry.name!r} is a reference row, there is nothing to unlearn")
    content: KeyContent = {
        "original": before.stage.digest,
        "sids": sids.stage.digest,
        **ground.identity,
        # Not the variant's name: with the same configuration it is the same method.
        "method": method.name,
        "config": setting.method_config,
        "seed": setting.seed,
        "device": setting.device_kind,
        "code": method_code(setting.entry) | code_digests([setting.backbone.__module__]),
    }
    request = ground.request(setting.seed)
    check_request(request, task=setting.task.name)

    def compute(folder: Path) -> Mapping[str, Any]:
        log = StageLog(room.progress)
        recommender = before.load()
        if not isinstance(recommender, Recommender):
            raise BenchError(f"the backbone {setting.backbone.name!r} gives no generative recommender to unlearn from")
        _check_weights(recommender, before)
        with metered(setting.device) as reading:
            result = method.unlearn(recommender, request, log)
        if not isinstance(result, Recommender):
            raise BenchError(
                f"the method {setting.entry.name!r} returned {type(result).__name__}, not a recommender",
                hint="return the recommender that has forgotten from unlearn()",
            )
        _in_force(recommender, result).save(folder / MODEL)
        log.write(folder)
        return {"seconds": reading.seconds, "peak_memory_mib": reading.peak_memory_mib}

    stage = room.stage("unlearned", content, compute)
    backbone = setting.backbone
    return Trained(
        stage, (*before.upstream, before.stage), lambda: backbone.load(stage.path / MODEL, device=setting.device)
    )


def _in_force(given: Recommender, result: Recommender) -> Recommender:
    """The result under the rules that the given recommender was served by and its own: what an earlier request took
    out of the trie or of histories is not put back by a later one that names other items."""
    before, after = given.serving, result.serving
    if before.blocked is None and before.ignored is None:
        return result
    rules = ServingRules(_either(before.blocked, after.blocked), _either(before.ignored, after.ignored))
    return result.with_serving(rules)


def _either(one: BoolArray | None, other: BoolArray | None) -> BoolArray | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _check_weights(recommender: Recommender, before: Trained) -> None:
    broken = first_not_finite(recommender)
    if broken:
        raise CorruptArtefact(
            f"the original recommender cannot be unlearned from: {broken} holds NaN or infinity",
            where=str(before.stage.path),
            hint="its training diverged: lower the learning rate (--set-backbone training.lr=…), or delete that "
            "folder and run again",
        )


def method_code(entry: Entry) -> dict[str, str]:
    """Digests of the method's own source and of everything of this package that it imports."""
    module = entry.target.rpartition(":")[0]
    if entry.origin == "package":
        return code_digests([module])
    path = source_file(entry)
    return code_digests([], {entry.name: path} if path is not None else None)
