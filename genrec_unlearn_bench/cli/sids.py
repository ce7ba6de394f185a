"""``bench sids``: are a task's semantic IDs any good, and how do they stand to its concept?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from typer import Option

from genrec_unlearn_bench.cli import options
from genrec_unlearn_bench.cli.console import Card, Sheet, handled, open_store, print_json, stdout
from genrec_unlearn_bench.config import overrides

if TYPE_CHECKING:
    from genrec_unlearn_bench.sids.health import Collisions, SidHealth

__all__ = ["sids"]

Served = Annotated[
    bool, Option("--served", help="The IDs the original serves with: trains it where the tokenizer learns along.")
]


@handled
def sids(
    task: options.Task,
    backbone: options.Backbone = "tiger",
    scale: options.Scale = None,
    data_dir: options.DataDir = None,
    encoder: options.Encoder = None,
    device: options.Device = "auto",
    threads: options.Threads = None,
    set_sid: options.SetSid = None,
    served: Served = False,
    cache_dir: options.CacheDir = None,
    as_json: options.AsJson = False,
    debug: options.Debug = False,
) -> None:
    """Make a task's semantic IDs, or read them from the cache, and report on them.

    Codes used and their perplexity by level, collisions, quantisation error, and how far prefixes coincide with brands,
    categories and the task's concept.
    """
    from genrec_unlearn_bench.pipeline.request import RunRequest
    from genrec_unlearn_bench.pipeline.token_health import token_health

    request = RunRequest(
        task=task,
        method="original",
        backbone=backbone,
        scale=scale,
        data_dir=data_dir,
        encoder=encoder,
        device=device,
        threads=threads,
        sid_set=overrides(set_sid or [], where="--set-sid"),
    )
    with open_store(cache_dir) as (store, progress):
        found = token_health(request, store, progress, served=served)
    if as_json:
        print_json(found.model_dump(mode="json"))
        return
    _draw(found, task)


def _draw(found: SidHealth, task: str) -> None:
    levels = ("level", "codes used", "perplexity", "largest code", "prefixes", "error", "nearest code")
    collisions = (
        ("on the codebooks' levels", *_counts(found.quantised_collisions)),
        ("on whole IDs", *_counts(found.collisions)),
    )
    prefixes = tuple(
        (str(one.length), str(one.shared), *map(_share, (one.brand_pure, one.category_pure, one.concept_shared)))
        for one in found.prefixes
    )
    shared = ("length", "prefixes", "one brand", "one category", "concept items that share it with a retain item")
    sheets = (
        Sheet("Levels", tuple(found.rows()), levels),
        Sheet("Collisions", collisions, ("", "groups", "items", "excess", "largest group")),
        Sheet("Prefixes with two or more items", prefixes, shared),
    )
    Card(f"Semantic IDs of {task}: {found.items} items", {}, sheets=sheets).draw(stdout())


def _counts(of: Collisions) -> tuple[str, str, str, str]:
    return str(of.groups), str(of.items), str(of.excess), str(of.largest)


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
