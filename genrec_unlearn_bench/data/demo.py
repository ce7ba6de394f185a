"""The ``demo`` dataset: synthetic and shipped with the package, so that everything can be tried without any file.

400 items of 40 brands and 13,500 or so interactions of 1,500 users, made by ``tests/data/demo_world.py``, which says
what in it imitates real catalogues: favourite brands, departments that drift, companions, junk prices.
"""

from __future__ import annotations

from dataclasses import replace
from importlib import resources

from genrec_unlearn_bench.data.formats import folder
from genrec_unlearn_bench.data.raw import RawData
from genrec_unlearn_bench.progress import Progress

_NOTE = "synthetic: generated with seed 0; no item, brand or user is real"


def read(progress: Progress) -> RawData:
    """The shipped files, which have the layout of a plain folder."""
    with resources.as_file(resources.files("genrec_unlearn_bench.tasks") / "datasets" / "demo") as place:
        names = {"items": "items.jsonl.gz", "interactions": "interactions.tsv.gz"}
        raw = folder.read({role: place / name for role, name in names.items()}, progress)
    return replace(raw, notes=(_NOTE,))
