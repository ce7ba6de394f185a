"""Originals far below SASRec are flagged in every format, and no claim is decided on them."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from genrec_unlearn_bench.cli.run import _draw
from genrec_unlearn_bench.pipeline.record import RunRecord, weak_original
from genrec_unlearn_bench.pipeline.results import FinishedRun
from genrec_unlearn_bench.reporting.claim_report import check_claim, claims_markdown, find_blocks
from genrec_unlearn_bench.reporting.claims import Outcome
from genrec_unlearn_bench.reporting.document import document
from genrec_unlearn_bench.reporting.formats.markdown import render_markdown
from genrec_unlearn_bench.reporting.formats.terminal import draw
from genrec_unlearn_bench.reporting.html_page import render_html
from genrec_unlearn_bench.reporting.latex_tables import render_latex
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from genrec_unlearn_bench.reporting.results import Source
from tests.reporting.boards import make_records, make_results, make_synthetic_board, make_synthetic_tables
from tests.reporting.test_claims import claim, compare, planted

WEAK = "the original has 0.42 of SASRec's retain NDCG@10, less than 0.5"
SHARES = (0.40, 0.43, 0.43)


def records(shares: Sequence[float | None] = SHARES) -> list[RunRecord]:
    """Two blocks: on Sports the original has these shares of SASRec by seed, on Industrial nobody knows."""
    found = make_records(backbones=["tiger"], seeds=range(len(shares)))
    return [
        one.model_copy(update={"original_over_sasrec": shares[one.cell.seed]})
        if one.cell.task == "sports-brand"
        else one
        for one in found
    ]


def formats(found: list[RunRecord]) -> dict[str, str]:
    tables, screen = make_synthetic_tables("main", found), io.StringIO()
    draw(Console(file=screen, width=400), tables)
    return {
        "terminal": screen.getvalue(),
        "markdown": render_markdown(tables),
        "latex": render_latex(tables),
        "html": render_html(make_synthetic_board(found), statistics_protocol()),
    }


@pytest.mark.parametrize("format_", ["terminal", "markdown", "latex", "html"])
def test_every_format_flags_the_weak_block_alone(format_: str) -> None:
    text = " ".join(formats(records())[format_].split())
    assert "Weak original" in text
    assert WEAK in text.replace("’", "'")
    places = re.findall("Weak original, ([^:]*):", text)
    assert places
    assert all(place.casefold().startswith("sports") for place in places)
    for shares in ((0.5, 0.5, 0.51), (None, None, None)):
        assert "Weak original" not in formats(records(shares))[format_], "at the limit, or not known"


def test_the_limit_is_a_half_and_the_unknown_is_no_weakness() -> None:
    assert weak_original(0.4999)
    assert not weak_original(0.5)
    assert not weak_original(None)


def test_the_document_has_the_mean_over_seeds_where_it_is_known() -> None:
    sports, industrial = sorted(document(make_synthetic_tables("main", records()))["blocks"], key=lambda b: -len(b))
    assert (sports["task"], sports["original_over_sasrec"]) == ("sports-brand", 0.42)
    assert sports["summary"].startswith(f"Weak original: {WEAK}. ")
    assert "original_over_sasrec" not in industrial


def test_a_submission_does_not_say_how_good_the_original_is() -> None:
    ours = make_results(records((0.6, None, None)))
    theirs = make_results(records((0.1, 0.1, 0.1)), source=Source("theirs"))
    blocks = find_blocks([*ours, *theirs], statistics_protocol())
    assert {block.original_over_sasrec for block in blocks} == {0.6, None}


def test_a_finished_run_says_so_below_its_table() -> None:
    (one,) = (each for each in records((0.4,)) if (each.cell.task, each.cell.method) == ("sports-brand", "original"))
    screen = io.StringIO()
    _draw([FinishedRun(one, make_results([one])[0].folder)], Console(file=screen, width=200))
    assert "weak original: the original has 0.40 of SASRec's retain NDCG@10" in screen.getvalue()


def test_claims_do_without_blocks_of_weak_originals_and_say_why() -> None:
    asked, protocol = claim([compare("tracer", "npo", "scrub")]), statistics_protocol()

    def found(share: float | None) -> tuple[Outcome, str]:
        runs = [one.model_copy(update={"original_over_sasrec": share}) for one in planted()]
        checked = check_claim(asked.claims[0], find_blocks(make_results(runs), protocol), asked, protocol)
        return checked.verdict, claims_markdown([checked], protocol)

    for share in (None, 0.5, 1.2):
        verdict, page = found(share)
        assert verdict is Outcome.HOLDS
        assert "is not used" not in page
    verdict, page = found(0.42)
    assert verdict is Outcome.OPEN
    assert f"- industrial-brand · tiger · small · tuned is not used, a weak original: {WEAK}\n" in page
    assert "have less than 0.5" not in page
