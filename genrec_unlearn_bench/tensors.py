"""Arrays in safetensors files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def write_tensors(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write the arrays by name."""
    from safetensors.numpy import save_file

    # The package writes memory as it lies there, whatever the strides.
    save_file({name: np.asarray(array, order="C") for name, array in arrays.items()}, path)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a file by name. Raises ValueError for anything else than such a file as a whole."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        found: dict[str, NDArray[Any]] = load_file(path)
    except SafetensorError as fault:
        raise ValueError(str(fault)) from None
    return found
