"""The backbones by name, imported on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from genrec_unlearn_bench.config import one_of
from genrec_unlearn_bench.registry import imported

if TYPE_CHECKING:
    from genrec_unlearn_bench.backbones.backbone import Backbone

_CLASSES = {
    "mor": "genrec_unlearn_bench.backbones.minionerec.backbone:MiniOneRec",
    "letter": "genrec_unlearn_bench.backbones.letter:Letter",
    "p5sid": "genrec_unlearn_bench.backbones.p5sid.backbone:P5Sid",
    "tiger": "genrec_unlearn_bench.backbones.tiger:Tiger",
    "etegrec": "genrec_unlearn_bench.backbones.etegrec.backbone:Etegrec",
}


def backbones() -> dict[str, str]:
    return dict(_CLASSES)


def load_backbone(name: str) -> type[Backbone[Any, Any]]:
    """The backbone of that name; raises UnknownName."""
    result: type[Backbone[Any, Any]] = imported(_CLASSES[one_of("backbone", name, _CLASSES)])
    return result
