"""Files of arrays: read back as they were written, refused when damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import save

from genrec_unlearn_bench.tensors import read_tensors, write_tensors

_arrays = st.sampled_from(["<i8", "<f8", "<f4", "<i4", "u1", "?"]).flatmap(
    lambda kind: arrays(np.dtype(kind), array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
)
_files = st.dictionaries(st.text("ab.\xe9", min_size=1, max_size=5), _arrays, min_size=1, max_size=6)


@given(_files)
@settings(max_examples=50, deadline=None)
def test_arrays_come_back(tmp_path_factory: pytest.TempPathFactory, content: dict[str, np.ndarray]) -> None:
    path = tmp_path_factory.mktemp("file") / "arrays"
    write_tensors(content, path)
    assert path.read_bytes() == save(content)
    found = read_tensors(path)
    assert found.keys() == content.keys()
    for name, array in content.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_columns_out_of_order_and_views_are_written_as_they_read(tmp_path: Path) -> None:
    wide = np.arange(12, dtype=np.int64).reshape(3, 4)
    content = {"t": wide.T, "every": wide[:, ::2]}
    write_tensors(content, tmp_path / "arrays")
    found = read_tensors(tmp_path / "arrays")
    assert all(np.array_equal(found[name], array) for name, array in content.items())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damage_raises_or_leaves_arrays_of_the_right_size(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    whole = bytearray(save({"a": np.arange(5), "b": np.ones((2, 3), dtype=np.float32)}))
    if data.draw(st.booleans()):
        del whole[data.draw(st.integers(0, len(whole) - 1)) :]
    else:
        whole[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path = tmp_path_factory.mktemp("file") / "arrays"
    path.write_bytes(whole)
    try:
        found = read_tensors(path)
    except ValueError:
        return
    assert sum(array.nbytes for array in found.values()) <= len(whole)
