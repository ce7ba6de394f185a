"""A figure's files: the same bytes everywhere, no metadata, names that do nothing."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from genrec_unlearn_bench.reporting.board import Block
from genrec_unlearn_bench.reporting.figures.catalogue import draw_kind
from genrec_unlearn_bench.reporting.figures.drawing import FORMATS, figure_files
from genrec_unlearn_bench.reporting.figures.model import WIDTHS, Figure, FigureRequest
from tests.reporting.figures.conftest import block_of
from tests.reporting.figures.synthetic import full_records, write_full
from tests.reporting.planting import board_of, rows


@pytest.fixture(scope="module")
def figure(measured: Block) -> Figure:
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    (found,) = draw_kind("probing", measured, FigureRequest(statistics_protocol(1)))
    return found


def files(figure: Figure, formats: Sequence[str] = FORMATS, width: str = "column") -> dict[str, bytes]:
    return {name.rpartition(".")[2]: content for name, content in figure_files(figure, formats, width).items()}


@pytest.fixture(scope="module")
def found(figure: Figure) -> dict[str, bytes]:
    return files(figure)


def test_a_figure_has_its_pictures_its_numbers_and_its_lines(figure: Figure, found: dict[str, bytes]) -> None:
    assert set(found) == {"pdf", "svg", "png", "csv", "txt"}
    assert found["pdf"].startswith(b"%PDF")
    assert b"<svg" in found["svg"]
    with Image.open(io.BytesIO(found["png"])) as image:
        assert image.size[0] == pytest.approx(3.33 * 300, abs=1)
    records = list(csv.DictReader(io.StringIO(found["csv"].decode())))
    assert len(records) == len(figure.rows)
    assert float(records[0]["mean"]) == pytest.approx(float(str(figure.rows[0][4])), abs=1e-5)


def test_the_same_results_give_the_same_bytes(figure: Figure, found: dict[str, bytes]) -> None:
    assert files(figure) == found


PROGRAM = """
import hashlib, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from tests.reporting.figures.test_writing import digests
print(digests(Path(sys.argv[2])))
"""


def digests(results: Path) -> list[str]:
    """Of the pictures of two kinds."""
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    out = []
    for kind, formats in (("quantisation", ("svg",)), ("pareto", FORMATS)):
        (figure,) = draw_kind(kind, block_of(results), FigureRequest(statistics_protocol(1)))
        out += [hashlib.sha256(content).hexdigest() for content in figure_files(figure, formats, "column").values()]
    return out


@pytest.mark.slow
def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    write_full(tmp_path, full_records(seeds=(0, 1)), kinds=("quantisation",))
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).parents[3]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo", "SOURCE_DATE_EPOCH": "7"},
    ).stdout
    assert said.strip() == str(digests(tmp_path))
    assert len(digests(tmp_path)) == 8


def test_no_date_and_no_program_is_in_a_picture(found: dict[str, bytes]) -> None:
    assert not re.search(rb"/(CreationDate|ModDate|Producer|Creator)", found["pdf"])
    assert not re.search(rb"<dc:(date|creator)>|Matplotlib v", found["svg"])
    with Image.open(io.BytesIO(found["png"])) as image:
        assert "Software" not in image.info


def test_pictures_are_vectors_with_their_letters(found: dict[str, bytes]) -> None:
    assert b"/Subtype /Image" not in found["pdf"]
    assert b"/FontFile2" in found["pdf"]
    assert b"/Type3" not in found["pdf"]
    assert b"<image" not in found["svg"]


def test_a_page_is_wider_than_a_column(figure: Figure) -> None:
    boxes = [re.search(rb"/MediaBox \[ ?([\d. ]+)\]", files(figure, ("pdf",), width)["pdf"]) for width in WIDTHS]
    widths = [float(box[1].split()[2]) for box in boxes if box is not None]
    assert widths == pytest.approx([3.33 * 72, 7.0 * 72], abs=0.5)


ODD = r"$x^2$ \input{/etc/hostname} 50% & _a_ #1"


def odd_figure() -> Figure:
    from genrec_unlearn_bench.reporting.protocol import statistics_protocol

    names = {ODD: [0.1, 0.2], "=cmd()": [0.3, 0.2], "שלום 忘": [0.2, 0.2]}
    results = [
        replace(result, method=name, key=f"{name}-{result.seed}")
        for name, numbers in names.items()
        for result in rows(npo=numbers)
    ]
    (block,) = board_of(rows(retrain=[0.1, 0.1]), results).blocks
    (found,) = draw_kind("pareto", block, FigureRequest(statistics_protocol(1)))
    return replace(found, caption=(ODD, *found.caption))


def test_names_are_text_and_nothing_more() -> None:
    found = files(odd_figure(), ("svg",))
    labels = [record["row"] for record in csv.DictReader(io.StringIO(found["csv"].decode()))]
    assert not [label for label in labels if label.startswith(("=", "+", "@"))]
    assert ODD in labels
    assert ODD in found["txt"].decode()
