"""Files of arrays: the safetensors package's bytes, read back whole or mapped, refused when damaged."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from safetensors.numpy import load, save

from genrec_unlearn_bench import tensors
from genrec_unlearn_bench.tensors import read_tensors, write_tensors

_arrays = st.sampled_from(["<i8", "<f8", "<f4", "<i4", "u1", "?"]).flatmap(
    lambda kind: arrays(np.dtype(kind), array_shapes(max_dims=3, min_side=0, max_side=5))
)
_files = st.dictionaries(st.text("ab.\xe9", min_size=1, max_size=5), _arrays, min_size=1, max_size=6)


def written(content: dict[str, np.ndarray]) -> bytes:
    sink = io.BytesIO()
    write_tensors(content, sink)
    return sink.getvalue()


@given(_files)
@settings(max_examples=50, deadline=None)
def test_the_bytes_are_those_of_the_package(content: dict[str, np.ndarray]) -> None:
    assert written(content) == save(content)


@given(_files, st.booleans())
@settings(max_examples=40, deadline=None)
def test_arrays_come_back(tmp_path_factory, content: dict[str, np.ndarray], mapped: bool) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path_factory.mktemp("file") / "arrays"
    path.write_bytes(save(content))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensors, "MAPPED", 0 if mapped else 1 << 28)
        found = read_tensors(path)
    assert found.keys() == content.keys()
    for name, array in content.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()


def test_a_mapped_array_can_be_written_to_without_touching_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tensors, "MAPPED", 0)
    path = tmp_path / "arrays"
    path.write_bytes(save({"a": np.arange(6.0)}))
    before = path.read_bytes()
    found = read_tensors(path)["a"]
    found[0] = 7.0
    assert path.read_bytes() == before
    path.unlink()
    assert found.tolist() == [7.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_columns_out_of_order_and_views_are_written_as_they_read(tmp_path: Path) -> None:
    wide = np.arange(12, dtype=np.int64).reshape(3, 4)
    content = {"t": wide.T, "every": wide[:, ::2]}
    assert all(np.array_equal(load(written(content))[name], array) for name, array in content.items())


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_damage_raises_or_leaves_arrays_of_the_right_size(tmp_path_factory, data: st.DataObject) -> None:  # type: ignore[no-untyped-def]
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


def test_a_type_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="complex"):
        written({"a": np.zeros(2, dtype=np.complex128)})
