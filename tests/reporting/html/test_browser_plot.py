"""The plot: every point can be told by its label or its number, and what is outside of the frame says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.reporting.boards import REFERENCES, make_records, make_synthetic_board
from tests.reporting.html.sites import crowd_page, page, page_of

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
COVERED = """() => {
  const boxes = [...document.querySelectorAll('.block:not([hidden]) text.tag')].map((node) => node.getBBox());
  const meet = (a, b) => a.x < b.x + b.width - 2 && b.x < a.x + a.width - 2
    && a.y < b.y + b.height - 4 && b.y < a.y + a.height - 4;
  return boxes.flatMap((one, place) => boxes.slice(place + 1).filter((other) => meet(one, other))).length;
}"""


@pytest.mark.parametrize("width", [390, 1400])
def test_every_point_has_its_name_or_a_number_that_is_explained(opened: Open, width: int) -> None:
    for html in (page(), crowd_page()):
        with opened(html, width=width) as p:
            labels = p.locator("figure:visible a.point").evaluate_all(
                "found => found.map((one) => [one.ariaLabel.split(':')[0], one.querySelector('text.tag').textContent])"
            )
            numbered = dict(text.split(" ", 1) for text in p.locator(".numbered span").all_inner_texts())
            for name, text in labels:
                assert numbered.get(text, text).split(" ")[0] == name
            assert {"original", "retrain"} <= {text for _, text in labels}
            assert html == crowd_page() or "tracer" in [text for _, text in labels]
            assert p.evaluate(COVERED) == 0


def test_references_outside_of_the_frame_say_where_they_are(opened: Open) -> None:
    references = {**REFERENCES, "sasrec": (1.3, 1.4)}
    methods = {"npo": (0.45, 0.90), "tracer": (0.28, 0.98)}
    records = make_records(tasks=("sports-brand",), backbones=("tiger",), methods=methods, references=references)
    with opened(page_of(make_synthetic_board(records))) as p:
        tags = p.locator("figure:visible text.tag").all_text_contents()
        shown = {text.split(" ")[0]: text.split(" ")[1:] for text in tags if "↑" in text or "↓" in text}
        assert set(shown) == {"sasrec", "popularity"}
        for name, sign in (("sasrec", "↑"), ("popularity", "↓")):
            kept = p.inner_text(f".verdicts:visible tr[data-row={name}] td:nth-of-type(2)").removeprefix("NDCG@10 ")
            assert shown[name][0] == sign
            assert float(shown[name][1]) == pytest.approx(float(kept), abs=0.0006)
