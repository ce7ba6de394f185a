"""The semantic-ID table: which codes stand for which item, where they came from, and which items share a prefix.

``SidTable.distances`` and the quantisers share the arithmetic at the end, so that the codes a tokenizer gives are, to
the bit, the nearest codewords by the distances that a method sees later.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import DataFault
from genrec_unlearn_bench.files import guarded
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

FloatArray = NDArray[np.float32]
CodeArray = NDArray[np.int64]

_CHUNK = 16_384
"""Rows encoded at once: 256 codewords then take 32 MiB of float64 distances."""
_TENSORS, _RECORD = "sids.safetensors", "sids.json"
_NETWORK = "network."
"""Prefix of a live tokenizer's weights among the tensors."""
_OTHER = "the semantic IDs are those of another catalogue"
_HINT = "use the table that was made for this dataset; tables of two datasets cannot be exchanged"


class TreeCodes(StrictModel):
    """Code numbers of a tree: first those with content, then the ordinals, then one that ends every SID.

    All levels have the same codes, and a code is the same token on whatever level it stands. SIDs may differ in
    length: an item is a run of content codes, its ordinal where the tree has ordinals, and the end code; -1 follows.
    As every SID ends with a code that stands nowhere else, none is a prefix of another.
    """

    content: int
    """Codes 0 … content - 1: digit pieces, or clusters."""
    ordinals: int = 0
    """The next so many count the items of a leaf; 0 for a tree whose content codes tell all items apart."""

    @property
    def end(self) -> int:
        """The code that ends a SID."""
        return self.content + self.ordinals

    @property
    def size(self) -> int:
        """Codes of every level."""
        return self.content + self.ordinals + 1


@dataclass(frozen=True, eq=False)
class SidTable:
    """N items, L levels; ``codes[i, l]`` lies in ``[0, level_sizes[l])``.

    Immutable: a reassignment gives a new table with the next version. All SIDs have equal length, except in the trees
    of P5-style indexers, which pad with -1 behind an item's last code.

    Attributes:
        codes: [N, L] int64.
        level_sizes: Number of codes of each level, L of them.
        quantised_levels: The first Q levels come from codebooks; a last level beyond them (Q = L - 1) is the
            collision ordinal of TIGER (0 where the prefix is unique). In a tree: the levels that hold content codes.
        codebooks: Q arrays [K_l, D], or None for indexers without codebooks.
        latents: [N, D] the quantiser's input z_i (r_i^1), or None.
        version: Counts reassignments; 0 is the tokenizer's own output.
        network: Weights of a live tokenizer by name, for backbones that go on training it with the recommender
            (ETEGRec); None where the codes are final. See ``freeze``.
        tree: Layout of a tree's codes (P5's indexers); None for tables of codebooks and their like.
    """

    codes: CodeArray
    level_sizes: tuple[int, ...]
    quantised_levels: int
    codebooks: tuple[FloatArray, ...] | None = None
    latents: FloatArray | None = None
    version: int = 0
    network: Mapping[str, FloatArray] | None = None
    tree: TreeCodes | None = None

    def __post_init__(self) -> None:
        if self.codes.ndim != 2 or self.codes.shape[1] != len(self.level_sizes):
            raise ValueError(f"codes {self.codes.shape} do not fit {len(self.level_sizes)} levels")
        padding = self.codes < 0
        outside = (self.codes >= np.asarray(self.level_sizes)) | (self.codes < -1)
        if outside.any() or padding[:, :1].any() or (padding[:, :-1] & ~padding[:, 1:]).any():
            raise ValueError("a code lies outside its level, or padding in front of a code")
        if self.tree is not None and set(self.level_sizes) != {self.tree.size}:
            raise ValueError(f"levels of {self.level_sizes} codes do not fit a tree of {self.tree.size}")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def levels(self) -> int:
        """L, the number of tokens of an item."""
        return len(self.level_sizes)

    @property
    def quantised_codes(self) -> CodeArray:
        """[N, Q] the codes that describe the item: without ordinals, and -1 behind the last of a tree."""
        codes = self.codes[:, : self.quantised_levels]
        return codes if self.tree is None else np.where(codes < self.tree.content, codes, -1)

    @property
    def quantised_sizes(self) -> tuple[int, ...]:
        """Number of codes in each level of ``quantised_codes``; Q of them."""
        if self.tree is not None:
            return (self.tree.content,) * self.quantised_levels
        return self.level_sizes[: self.quantised_levels]

    @property
    def digest(self) -> str:
        """blake2b-128 over codes, level sizes and version (and the layout of a tree)."""
        state = hashlib.blake2b(digest_size=16)
        state.update(repr((self.level_sizes, self.quantised_levels, self.version)).encode())
        if self.tree is not None:
            state.update(repr((self.tree.content, self.tree.ordinals)).encode())
        state.update(np.ascontiguousarray(self.codes, dtype="<i8").reshape(-1).data)
        return state.hexdigest()

    @property
    def frozen(self) -> bool:
        """Whether the codes are final: no tokenizer goes on moving them."""
        return self.network is None

    def freeze(self) -> SidTable:
        """Drop the tokenizer's network, so that from here on only a reassignment changes a code.

        A trained recommender's table is always frozen: unlearning acts on final codes.
        """
        return self if self.network is None else replace(self, network=None)

    def reassigned(self, items: NDArray[np.int64], codes: CodeArray) -> SidTable:
        """A new version in which ``items`` [n] carry ``codes`` [n, L]."""
        fresh = self.codes.copy()
        fresh[items] = codes
        return replace(self, codes=fresh, version=self.version + 1)

    def distances(self, items: NDArray[np.int64]) -> list[NDArray[np.float32]]:
        """Squared distance of each residual to each codeword along the items' codes in this table.

        Returns Q arrays [n, K_l]: ||r_i^l - c_k^l||^2 with r_i^1 = z_i and r_i^{l+1} = r_i^l - c^l_{s_i^l}
        (TRACER, eq. 2). Behind the last code of a shorter SID the residual stays as it is. Raises ValueError for a
        table without codebooks.
        """
        if self.codebooks is None or self.latents is None:
            raise ValueError("this table has no codebooks")
        residual = self.latents[items].astype(np.float64)
        codes = self.quantised_codes[items]
        out = []
        for level, book in enumerate(self.codebooks):
            words = book.astype(np.float64)
            out.append(squared_distances(residual, words))
            own = codes[:, level]
            residual = residual - np.where(own[:, None] < 0, 0.0, words[own])
        return out


def save_table(table: SidTable, folder: Path) -> None:
    """Write the table into ``folder``, which is created if need be. Raises StorageError."""
    tensors: dict[str, NDArray[Any]] = {"codes": table.codes}
    tensors |= {f"codebook.{level}": book for level, book in enumerate(table.codebooks or ())}
    tensors |= {_NETWORK + name: weights for name, weights in (table.network or {}).items()}
    if table.latents is not None:
        tensors["latents"] = table.latents
    record = {
        "level_sizes": table.level_sizes,
        "quantised_levels": table.quantised_levels,
        "version": table.version,
        "codebooks": len(table.codebooks or ()),
        "tree": None if table.tree is None else table.tree.model_dump(),
    }
    with guarded(folder, "the folder of the semantic IDs"):
        folder.mkdir(parents=True, exist_ok=True)
        write_tensors(tensors, folder / _TENSORS)
        (folder / _RECORD).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def load_table(folder: Path) -> SidTable:
    """Read the table that ``save_table`` wrote; the store has checked every byte."""
    record = json.loads((folder / _RECORD).read_text(encoding="utf-8"))
    tensors = read_tensors(folder / _TENSORS)
    network = {name.removeprefix(_NETWORK): value for name, value in tensors.items() if name.startswith(_NETWORK)}
    return SidTable(
        codes=tensors["codes"],
        level_sizes=tuple(record["level_sizes"]),
        quantised_levels=record["quantised_levels"],
        codebooks=tuple(tensors[f"codebook.{level}"] for level in range(record["codebooks"])) or None,
        latents=tensors.get("latents"),
        version=record["version"],
        network=network or None,
        tree=None if record["tree"] is None else TreeCodes(**record["tree"]),
    )


def from_index(codes: CodeArray, level_sizes: Sequence[int] | None = None) -> SidTable:
    """Make a table without codebooks from codes [N, L]; -1 pads behind the last level of a shorter SID.

    Each level has ``level_sizes`` codes (largest code plus one where they are not given), and all are quantised levels:
    MiniOneRec and LETTER keep their collisions.
    """
    sizes = tuple(int(x) for x in (codes.max(axis=0) + 1 if level_sizes is None else level_sizes))
    return SidTable(np.ascontiguousarray(codes, dtype=np.int64), sizes, len(sizes))


def check_items(table: SidTable, items: int) -> None:
    """Raise DataFault unless the table has so many items."""
    if len(table) != items:
        raise DataFault(f"{_OTHER}: {len(table)} of them for {items} items", hint=_HINT)


def check_successor(current: SidTable, table: SidTable) -> None:
    """Raise DataFault unless ``table`` can take the place of ``current``: same items, same levels, none grown."""
    check_items(table, len(current))
    grown = any(new > old for new, old in zip(table.level_sizes, current.level_sizes, strict=False))
    if table.levels != current.levels or grown:
        sizes = f"levels of {table.level_sizes} codes, where the recommender has tokens for {current.level_sizes}"
        raise DataFault(f"{_OTHER}: {sizes}", hint=_HINT)


def prefix_ids(codes: CodeArray) -> CodeArray:
    """[N, L]: entry (i, l) numbers the distinct prefix ``codes[i, :l + 1]`` among those of its length.

    Numbers are dense, from 0, in lexicographic order, so ``ids[:, l].max() + 1`` counts the distinct prefixes. Padding
    (-1) counts as a code of its own. Each level needs one sort, and no key exceeds N times a level's size.
    """
    ids = np.empty(codes.shape, dtype=np.int64)
    current = np.zeros(len(codes), dtype=np.int64)
    for level in range(codes.shape[1]):
        column = codes[:, level] + 1
        width = int(column.max()) + 1 if len(column) else 1
        current = np.unique(current * width + column, return_inverse=True)[1].astype(np.int64)
        ids[:, level] = current
    return ids


def colliding_groups(codes: CodeArray) -> list[CodeArray]:
    """Item ids of every group of two or more items with the same codes, each ascending."""
    if not codes.size:
        return []
    last = prefix_ids(codes)[:, -1]
    sizes = np.bincount(last)
    # Items that are alone, most of a large catalogue, never become arrays of their own.
    shared = np.flatnonzero(sizes[last] > 1)
    order = shared[np.argsort(last[shared], kind="stable")]
    groups = np.split(order, np.cumsum(sizes[sizes > 1])[:-1])
    return [group.astype(np.int64) for group in groups if len(group)]


def ordinals(codes: CodeArray) -> CodeArray:
    """[N] position of each item among those with its codes, in order of item id; 0 where it is alone (TIGER, GRID)."""
    if not codes.size:
        return np.zeros(len(codes), dtype=np.int64)
    last = prefix_ids(codes)[:, -1]
    sizes = np.bincount(last)
    order = np.argsort(last, kind="stable")
    out = np.empty(len(codes), dtype=np.int64)
    out[order] = np.arange(len(codes)) - (np.cumsum(sizes) - sizes)[last[order]]
    return out


def squared_distances(residual: NDArray[np.float64], words: NDArray[np.float64]) -> FloatArray:
    """``||r_i - c_k||^2`` [n, K] for residuals [n, D] and codewords [K, D]; float64 inside, float32 outside."""
    squared = (residual**2).sum(1)[:, None] - 2 * residual @ words.T + (words**2).sum(1)[None, :]
    result: FloatArray = np.maximum(squared, 0).astype(np.float32)
    return result


def nearest(residual: NDArray[np.float64], words: NDArray[np.float64]) -> CodeArray:
    """[N] the nearest codeword [K, D] of each residual [N, D]; ties go to the lower code."""
    chunks = (residual[start : start + _CHUNK] for start in range(0, len(residual), _CHUNK))
    codes = [squared_distances(chunk, words).argmin(axis=1) for chunk in chunks]
    return np.concatenate([np.empty(0, dtype=np.int64), *codes])


def nearest_codes(latents: FloatArray, codebooks: Sequence[FloatArray]) -> CodeArray:
    """Greedy residual quantisation (TRACER, eq. 2): [N, Q] codes of latents [N, D]."""
    codes = np.empty((len(latents), len(codebooks)), dtype=np.int64)
    residual = latents.astype(np.float64)
    for level, book in enumerate(codebooks):
        words = book.astype(np.float64)
        codes[:, level] = nearest(residual, words)
        residual -= words[codes[:, level]]
    return codes
