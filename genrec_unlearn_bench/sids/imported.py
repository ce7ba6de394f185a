"""Semantic IDs that others made: LETTER's and MiniOneRec's ``index.json``, item -> ``["<a_12>", "<b_3>", ...]``."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genrec_unlearn_bench.data.dataset import Dataset
from genrec_unlearn_bench.data.formats.lines import Faults
from genrec_unlearn_bench.data.formats.records import read_index
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.sids.quantise import with_ordinals
from genrec_unlearn_bench.sids.table import SidTable, colliding_groups, from_index


def imported_table(path: Path, dataset: Dataset, config: SidConfig) -> SidTable:
    """The items' IDs as the file has them, without codebooks; level sizes are the largest code + 1.

    Where items share an ID, ``config.collision_token`` appends TIGER's ordinal level, as behind a tokenizer; without it
    they stay together, as in LETTER and MiniOneRec. An index whose IDs are all different gets no such level.

    Raises DataFault with all faults: no JSON object, an item twice, an item of the dataset without an ID, a token of
    another form, IDs of different length; and items that the dataset lacks, unless its k-core filter left them out.
    """
    ids = dataset.items.ids
    codes = read_index(path, ids, whole=not dataset.manifest.k_core)
    lengths = (codes >= 0).sum(axis=1)
    usual = int(np.bincount(lengths).argmax())
    faults = Faults(path, "an index has as many tokens for every item; make it again, or complete it")
    for row in np.flatnonzero(lengths != usual):
        faults.add(path, f"item {ids[row]!r}", f"its ID has {lengths[row]} tokens, and most have {usual}")
    faults.check()
    table = from_index(codes)
    shared = config.collision_token and colliding_groups(codes)
    return with_ordinals(table, config.collision_slack) if shared else table
