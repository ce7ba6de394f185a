"""The declared tables: every measure in them exists, and columns without a result go."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.backbones.config import Scale
from genrec_unlearn_bench.errors import DataMissing, UnknownName
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import ColumnGroup, Layout, find_layout, layouts, matching
from genrec_unlearn_bench.reporting.results import SCALES, scale_rank
from tests.reporting.planting import measure

PRESENT = tuple(measure(text) for text in ("forget:hr@10", "forget:ndcg@10", "retain:hr@10", "cost.steps"))


def layout(*texts: str) -> Layout:
    return Layout(name="own", title="Own", caption="", columns=(ColumnGroup(head="Head", measures=texts),))


def shown(found: Layout, present: tuple[Measure, ...] = PRESENT, *, beam: int = 10) -> list[str]:
    return [each.text for _, members in found.groups(present, beam=beam) for each in members]


def test_the_layouts_are_there() -> None:
    assert list(layouts(1)) == ["main", "full", "item", "efficiency", "ablation", "attack", "streams"]
    with pytest.raises(UnknownName, match="mian"):
        find_layout("mian", 1)


def test_every_measure_in_a_layout_is_declared() -> None:
    texts = {text for found in layouts(1).values() for group in found.columns for text in group.measures}
    # A family as a whole would grow with every metric that is declared, and no table has room for that.
    assert not [text for text in texts if "*" in text]
    assert {Measure.parse(text, beam=10).metric for text in texts} <= set(metric_specs())


def test_a_test_has_one_verdict_whatever_layout_shows_it() -> None:
    """A measure that one layout makes primary is tested in no other, where it would be exploratory."""
    for name, own in layouts().items():
        others = (group for other, found in layouts().items() if other != name for group in found.columns)
        tested = {text for group in others if group.tested for text in group.measures}
        assert tested.isdisjoint(own.primary), name


def test_scales_are_those_of_a_run() -> None:
    assert tuple(Scale) == SCALES
    assert [scale_rank(scale) for scale in ("huge", "smoke", "official")] == [-1, 0, 3]


def test_what_is_measured_at_one_beam_has_none() -> None:
    texts = [text for group in find_layout("attack", 1).columns for text in group.measures if "/" not in text]
    assert len(texts) > 10
    assert {Measure.parse(text, beam=50).beam for text in texts} == {None}


def test_columns_that_no_result_has_are_left_out() -> None:
    assert shown(layout("forget:hr@10", "retain:mrr@10", "retain:hr@10")) == ["forget:hr@10/10", "retain:hr@10/10"]
    with pytest.raises(DataMissing, match=r"retain:mrr@10"):
        shown(layout("retain:mrr@10"))


def test_a_star_takes_what_was_measured_of_a_family() -> None:
    assert shown(layout("forget:*@10")) == ["forget:hr@10/10", "forget:ndcg@10/10"]
    assert shown(layout("cost.*")) == ["cost.steps"]


def test_beams_are_never_mixed() -> None:
    wide = measure("forget:hr@10", beam=50)
    assert shown(layout("forget:hr@10"), (*PRESENT, wide), beam=50) == ["forget:hr@10/50"]
    assert shown(layout("forget:hr@10", "forget:hr@10/50"), (*PRESENT, wide)) == ["forget:hr@10/10", "forget:hr@10/50"]


def test_gaps_are_columns_wherever_their_measure_is() -> None:
    assert shown(layout("forget:gap.hr@10")) == ["forget:gap.hr@10/10"]
    assert shown(layout("*")) == [each.text for each in PRESENT]


def test_a_layout_may_have_a_family_of_its_own() -> None:
    assert matching(("cost.steps",), PRESENT, beam=10) == (measure("cost.steps"),)
    assert matching((), PRESENT, beam=10) == ()
