"""A measure's text, group and direction; nothing but the metric's declaration says which way is better."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.evaluation.catalogue import metric_specs
from genrec_unlearn_bench.evaluation.metric import Better, Group
from genrec_unlearn_bench.reporting.measure import Measure


def test_every_declared_measure_reads_back_from_its_text() -> None:
    for spec in metric_specs().values():
        for group in spec.better:
            parsed = [Measure.parse(text, beam=10) for text in (f"{group.value}:{spec.name}",)]
            for found in parsed:
                assert Measure.parse(found.text, beam=50) == found
                assert found.group is group


def test_groups_may_be_left_out_where_there_is_one() -> None:
    assert Measure.parse("cost.steps", beam=10) == Measure("cost.steps", Group.ALL, None)
    with pytest.raises(UsageError, match="which group"):
        Measure.parse("hr@10", beam=10)
    with pytest.raises(UsageError, match="which group"):
        Measure.parse("sideways:hr@10", beam=10)


def test_the_beam_is_the_texts_else_the_calls_and_none_for_what_has_no_lists() -> None:
    assert Measure.parse("forget:hr@10/50", beam=10).beam == 50
    assert Measure.parse("forget:hr@10", beam=10).beam == 10
    assert Measure.parse("cost.unlearn-seconds", beam=10).beam is None
    with pytest.raises(UsageError, match="beam"):
        Measure.parse("forget:hr@10/wide", beam=10)


def test_an_unknown_metric_gets_the_nearest_names() -> None:
    with pytest.raises(UnknownName) as fault:
        Measure.parse("forget:hr@11", beam=10)
    assert "hr@10" in str(fault.value.hint)


@pytest.mark.parametrize(
    ("text", "better", "arrow", "scores"),
    [
        ("forget:hr@10", Better.LOWER, "↓", (-0.2, 0.1)),
        ("retain:hr@10", Better.HIGHER, "↑", (0.2, -0.1)),
        ("forget:gap.hr@10", Better.ORACLE, "→0", (-0.2, -0.1)),
    ],
)
def test_direction_comes_from_the_group(text: str, better: Better, arrow: str, scores: tuple[float, float]) -> None:
    found = Measure.parse(text, beam=10)
    assert found.better is better
    assert found.arrow == arrow
    assert (found.score(0.2), found.score(-0.1)) == scores
