from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genrec_unlearn_bench.errors import StorageError
from genrec_unlearn_bench.sids.table import SidTable, load_table, save_table


def table() -> SidTable:
    rng = np.random.default_rng(0)
    books = tuple(rng.standard_normal((4, 3)).astype(np.float32) for _ in range(2))
    codes = rng.integers(0, 4, (9, 3))
    return SidTable(codes, (4, 4, 5), 2, books, rng.standard_normal((9, 3)).astype(np.float32), version=3)


def test_a_table_comes_back_as_it_was(tmp_path: Path) -> None:
    one = table()
    save_table(one, tmp_path / "new" / "folder")
    two = load_table(tmp_path / "new" / "folder")
    assert two.digest == one.digest
    assert (two.level_sizes, two.quantised_levels, two.version) == ((4, 4, 5), 2, 3)
    assert two.codes.dtype == np.int64
    np.testing.assert_array_equal(two.codes, one.codes)
    assert one.codebooks is not None
    assert two.codebooks is not None
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one.codebooks, two.codebooks, strict=True))
    assert one.latents is not None
    assert two.latents is not None
    assert one.latents.tobytes() == two.latents.tobytes()


def test_a_bare_table_stays_bare_and_views_are_stored_whole(tmp_path: Path) -> None:
    one = table()
    bare = SidTable(one.codes[::-1], one.level_sizes, 3)
    save_table(bare, tmp_path)
    two = load_table(tmp_path)
    assert two.codebooks is None
    assert two.latents is None
    np.testing.assert_array_equal(two.codes, bare.codes)


def test_saving_twice_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    save_table(table(), tmp_path)
    moved = table().reassigned(np.array([0]), np.array([[1, 1, 1]]))
    save_table(moved, tmp_path)
    assert load_table(tmp_path).digest == moved.digest
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sids.json", "sids.safetensors"]


def test_a_refusing_file_system_is_a_storage_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StorageError):
        save_table(table(), tmp_path / "file")
