"""A block of the full suite with its tables on disk, read once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genrec_unlearn_bench.reporting.board import Block, make_board
from genrec_unlearn_bench.reporting.figures.model import FigureRequest
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import load_results
from tests.reporting.figures.synthetic import full_records, write_full

Reader = Callable[[Path], Block]


def block_of(folder: Path) -> Block:
    """The one block of the results below a folder."""
    (block,) = make_board(load_results([folder]).results, statistics_protocol(1)).blocks
    return block


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Block:
    """Three seeds of three reference rows and three methods, everything measured."""
    folder = tmp_path_factory.mktemp("measured")
    write_full(folder, full_records())
    return block_of(folder)


@pytest.fixture(scope="session")
def lone(tmp_path_factory: pytest.TempPathFactory) -> Block:
    """The same at one seed."""
    folder = tmp_path_factory.mktemp("lone")
    write_full(folder, full_records(seeds=(0,)))
    return block_of(folder)


@pytest.fixture
def asked() -> FigureRequest:
    """Everything, as the protocol has it."""
    return FigureRequest(statistics_protocol(1))
