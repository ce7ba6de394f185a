"""Arrays in safetensors files without a second copy in memory: written as they lie there, read by mapping the file.

The layout is that of the safetensors package, to the byte. The package itself turns every array into bytes before it
writes the first of them, and copies each one that it reads; for the features of a million items that is three times
their size.
"""

from __future__ import annotations

import json
import math
import mmap
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

MAPPED = 1 << 28
"""Bytes. Larger files are mapped: their pages are read when they are looked at, and given back when memory is short."""

_HEADER_LIMIT = 1 << 26
_TYPES: dict[np.dtype[Any], str] = {
    np.dtype("<i8"): "I64",
    np.dtype("<f8"): "F64",
    np.dtype("<f4"): "F32",
    np.dtype("<i4"): "I32",
    np.dtype("u1"): "U8",
    np.dtype("bool"): "BOOL",
}
"""In the order in which the package writes them: wide ones first, which keeps every array aligned."""

_NAMES: dict[str, np.dtype[Any]] = {name: dtype for dtype, name in _TYPES.items()}


def write_tensors(arrays: Mapping[str, NDArray[Any]], sink: IO[bytes]) -> None:
    """Write the arrays by name. Raises ValueError for a type of number that has no name here."""
    rank = {name: place for place, name in enumerate(_TYPES.values())}
    header: dict[str, object] = {}
    end = 0
    ordered = sorted(arrays.items(), key=lambda entry: (rank[_type(entry[1].dtype)], entry[0]))
    for name, array in ordered:
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _type(array.dtype), "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    sink.write(len(text).to_bytes(8, "little") + text)
    for _, array in ordered:
        sink.write(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(-1).data)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Those of a file above ``MAPPED`` are backed by it (writing to them changes a
    private copy), so it must not be cut short while they are in use; replacing it is fine.

    Raises ValueError for anything else than such a file as a whole.
    """
    with path.open("rb") as stream:
        size = path.stat().st_size
        header, start = _header(stream, size)
        if size >= MAPPED:
            body: Any = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
        else:
            stream.seek(0)
            body = bytearray(stream.read())
    return {name: _array(body, start, size, entry) for name, entry in header.items()}


def _type(dtype: np.dtype[Any]) -> str:
    if (found := _TYPES.get(dtype.newbyteorder("<"))) is None:
        raise ValueError(f"arrays of {dtype} are not stored")
    return found


def _header(stream: IO[bytes], size: int) -> tuple[dict[str, Any], int]:
    """The header, and where the first array begins."""
    length = int.from_bytes(stream.read(8), "little")
    if size < 8 or length > min(size - 8, _HEADER_LIMIT):
        raise ValueError("the header is cut off")
    try:
        header = json.loads(stream.read(length))
    except (UnicodeDecodeError, RecursionError) as fault:
        raise ValueError(f"the header is damaged: {fault}") from None
    if not isinstance(header, dict):
        raise ValueError("the header is no object")
    header.pop("__metadata__", None)
    return header, 8 + length


def _array(body: Any, start: int, size: int, entry: Any) -> NDArray[Any]:
    try:
        dtype, shape = _NAMES[entry["dtype"]], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        if not all(isinstance(number, int) and number >= 0 for number in (*shape, begin, end)):
            raise ValueError("a shape or an offset is no whole number")
    except (KeyError, TypeError) as fault:
        raise ValueError(f"the header is damaged: {fault!r}") from None
    count = math.prod(shape)
    if end - begin != count * dtype.itemsize or start + end > size:
        raise ValueError("an array does not fit its place")
    if not count:
        return np.zeros(shape, dtype=dtype)
    flat: NDArray[Any] = np.frombuffer(body, dtype=dtype, count=count, offset=start + begin)
    return flat.reshape(shape)
