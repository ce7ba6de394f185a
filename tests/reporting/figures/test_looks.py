"""What a reader needs of every figure: type that can be read, nothing cut off or covered, colours that stay apart."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.text import Annotation, Text

from genrec_unlearn_bench.reporting.board import Block, Board, make_board
from genrec_unlearn_bench.reporting.figures.catalogue import draw_all, draw_kind, kinds
from genrec_unlearn_bench.reporting.figures.drawing import draw, styled
from genrec_unlearn_bench.reporting.figures.model import ORACLE, ORIGINAL, PALETTE, WIDTHS, FigureRequest
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import load_results
from tests.reporting.figures.test_overlap import BEFORE
from tests.reporting.figures.test_overlap import block_of as moved
from tests.reporting.figures.test_overlap import row as overlapping

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

PUBLISHED = Path(__file__).parents[3] / "leaderboard" / "results"
SMALLEST = 7.0


def blocks(kind: str, measured: Block) -> Block:
    if kind == "overlap":
        return moved(
            overlapping("original", BEFORE, 0.0),
            *(overlapping(f"a-method-with-a-long-name-{n}", BEFORE, -0.1) for n in range(6)),
        )
    return measured


def canvas(kind: str, block: Block, asked: FigureRequest, width: str) -> Canvas:
    (figure,) = draw_kind(kind, block, asked)
    with styled():
        made = draw(figure, width)
        FigureCanvasAgg(made)
        made.canvas.draw()
    return made


def notes(made: Canvas) -> list[Annotation]:
    """Names at marks, without the lines that lead to them."""
    return [one for one in made.findobj(Annotation) if isinstance(one, Annotation) and one.get_text()]


def texts(made: Canvas) -> list[Text]:
    found = [one for one in made.findobj(Text) if isinstance(one, Text) and one.get_text().strip()]
    hidden = {id(label) for axes in made.axes for label in beyond(axes)}
    return [one for one in found if one.get_visible() and id(one) not in hidden]


def beyond(axes: Axes) -> Iterator[Text]:
    """Labels of ticks out of sight, which are not drawn; and all of axes that are switched off."""
    for axis in (axes.xaxis, axes.yaxis):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not (axes.axison and low <= tick.get_loc() <= high):
                yield from (tick.label1, tick.label2)


@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("kind", kinds())
def test_type_is_readable_and_nothing_is_cut_off(kind: str, width: str, measured: Block, asked: FigureRequest) -> None:
    made = canvas(kind, blocks(kind, measured), asked, width)
    assert made.get_size_inches()[0] == pytest.approx(WIDTHS[width])
    shown = texts(made)
    assert min(one.get_fontsize() for one in shown) >= SMALLEST
    whole = made.bbox
    for one in shown:
        box = one.get_window_extent()
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= whole.x1 + 1 and box.y1 <= whole.y1 + 1
        assert inside, (one.get_text(), box, whole)


@pytest.mark.parametrize("width", list(WIDTHS))
@pytest.mark.parametrize("kind", kinds())
def test_a_legend_covers_no_axes_and_axes_no_text_of_others(
    kind: str, width: str, measured: Block, asked: FigureRequest
) -> None:
    made = canvas(kind, blocks(kind, measured), asked, width)
    panels = [axes for axes in made.axes if axes.axison]
    for legend in made.legends:
        box = legend.get_window_extent()
        assert not [axes for axes in panels if box.overlaps(axes.get_tightbbox())]
    for one, other in itertools.combinations(panels, 2):
        assert not one.get_tightbbox().padded(-1.5).overlaps(other.get_tightbbox().padded(-1.5))


@pytest.mark.parametrize("kind", kinds())
def test_axes_say_what_they_show(kind: str, measured: Block, asked: FigureRequest) -> None:
    made = canvas(kind, blocks(kind, measured), asked, "column")
    panels = [axes for axes in made.axes if axes.axison]
    assert all(axes.get_xlabel() for axes in panels)
    assert any(axes.get_ylabel() for axes in panels) or kind == "membership"


@pytest.fixture(scope="module")
def published() -> Block:
    """The published block with the most rows."""
    board = make_board(load_results([PUBLISHED]).results, statistics_protocol())
    return max(board.blocks, key=lambda block: len(block.rows))


def test_names_in_the_published_trades_cover_no_other_name(published: Block) -> None:
    for width in WIDTHS:
        made = canvas("pareto", published, FigureRequest(statistics_protocol()), width)
        names = notes(made)
        assert len(names) >= 14
        # Not with their leading lines, which may cross.
        boxes = [Text.get_window_extent(one) for one in names]
        for one, other in itertools.combinations(boxes, 2):
            assert not one.padded(-1.5).overlaps(other.padded(-1.5))


def test_every_name_is_beside_its_mark(published: Block) -> None:
    asked = FigureRequest(statistics_protocol())
    (figure,) = draw_kind("pareto", published, asked)
    made = canvas("pareto", published, asked, "column")
    names = {one.get_text(): one for one in notes(made)}
    rows = {str(row[0]): dict(zip(figure.heads, row, strict=True)) for row in figure.rows}
    assert set(names) == set(rows)
    for label, note in names.items():
        assert note.xy[0] == pytest.approx(rows[label]["distance"])


DEUTERANOPIA = ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881))
PROTANOPIA = ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998))
"""Machado, Oliveira and Fernandes 2009, severity 1, for linear RGB."""


def lightness(colour: np.ndarray) -> np.ndarray:
    """CIE Lab of an sRGB colour."""
    white = np.array([0.95047, 1.0, 1.08883])
    matrix = np.array(
        [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.072175], [0.0193339, 0.119192, 0.9503041]]
    )
    xyz = matrix @ colour / white
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def linear(name: str) -> np.ndarray:
    srgb = np.array(to_rgb(name))
    return np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("blindness", [np.eye(3), np.array(DEUTERANOPIA), np.array(PROTANOPIA)])
def test_colours_stay_apart_for_the_colour_blind(blindness: np.ndarray) -> None:
    colours = [*(colour for colour, _ in PALETTE), ORIGINAL.colour, ORACLE.colour]
    seen = [lightness(np.clip(blindness @ linear(colour), 0.0, 1.0)) for colour in colours]
    distances = [float(np.linalg.norm(a - b)) for a, b in itertools.combinations(seen, 2)]
    # 2.3 can just be noticed.
    assert min(distances) > 11.0


def test_a_print_in_grey_has_the_markers() -> None:
    markers = [marker for _, marker in PALETTE]
    assert len({*markers, ORIGINAL.marker, ORACLE.marker}) == len(PALETTE) + 2
    # None is lost on white.
    assert all(lightness(linear(colour))[0] < 75.0 for colour, _ in PALETTE)


def test_settings_of_the_caller_neither_come_in_nor_change(measured: Block, asked: FigureRequest) -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    matplotlib.rcParams["font.size"] = 31.0
    try:
        made = canvas("probing", measured, asked, "column")
        assert max(one.get_fontsize() for one in texts(made)) < 10.0
        assert matplotlib.rcParams["font.size"] == 31.0
    finally:
        matplotlib.rcParams["font.size"] = before["font.size"]


def test_all_kinds_are_looked_at_here(measured: Block, asked: FigureRequest) -> None:
    drawn = {figure.kind for figure in draw_all(Board((measured,)), (), asked)[0]}
    assert drawn | {"overlap"} == set(kinds())
