"""A small dataset in LETTER's layout with semantic IDs of its own, under the names of the packaged one."""

from __future__ import annotations

import json
from pathlib import Path

from tests.planted import sequences, sids

TINY = {
    "shape.layers": 1,
    "shape.d_model": 32,
    "shape.d_kv": 8,
    "shape.d_ff": 48,
    "shape.heads": 4,
    "shape.dropout": 0.0,
    "training.lr": 5e-3,
    "training.batch_size": 64,
    "training.epochs": 6,
    "training.evaluations": 3,
    "training.patience": 20,
}


def write_world(folder: Path, *, users: int = 60, items: int = 64) -> Path:
    """Users walk in circles (``tests.planted``), so the next item can be learned. Items 0 and 1 share an ID."""
    codes = sids().codes.copy()
    codes[1] = codes[0]
    place = folder / "instruments-letter"
    place.mkdir(parents=True)
    tokens = {
        str(item): [f"<{level}_{code}>" for level, code in zip("abcd", codes[item], strict=True)]
        for item in range(items)
    }
    walks = {str(user): walk for user, walk in enumerate(sequences(users, 8, 1))}
    (place / "Instruments.index.json").write_text(json.dumps(tokens))
    (place / "Instruments.inter.json").write_text(json.dumps(walks))
    return folder
