"""One protocol a table: each version has its own primary measures and layouts, and results of two never meet."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench import PROTOCOL_VERSION
from genrec_unlearn_bench.errors import DataMissing, ProtocolMismatch
from genrec_unlearn_bench.reporting.board import make_board
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.protocol import PROTOCOLS, layouts, statistics_protocol
from genrec_unlearn_bench.reporting.verdicts import Forgets, verdict_analysis, verdicts
from genrec_unlearn_bench.submissions.result_set import load_result_set
from tests.reporting.boards import write_records
from tests.reporting.planting import plant, planted_record

KEPT = (0.200, 0.210, 0.190, 0.205, 0.195)
KNOWN, LEFT = (0.50, 0.51, 0.49, 0.52, 0.48), (0.10, 0.11, 0.09, 0.105, 0.095)


@pytest.mark.parametrize("version", PROTOCOLS)
def test_every_protocol_has_its_measures_and_tables(version: int) -> None:
    protocol = statistics_protocol(version)
    assert protocol.suite_protocol == version
    assert list(layouts(version)) == list(layouts())
    texts = [text for layout in layouts(version).values() for group in layout.columns for text in group.measures]
    texts += [*protocol.primary, *protocol.forgetting, *protocol.forgetting_parts]
    texts += [text for layout in layouts(version).values() for text in layout.primary]
    for text in texts:
        if "cost.t" not in text:
            assert Measure.parse(text, beam=10)


def test_the_present_protocol_tests_the_worst_case_and_the_former_what_is_served() -> None:
    assert statistics_protocol().primary == ("forget:worst-case.hr@10", "retain:ndcg@10")
    assert statistics_protocol(1).primary == ("forget:hr@10", "retain:ndcg@10")
    main = layouts()["main"].columns[0].measures
    assert main[:3] == ("forget:hr@10", "forget:exposed.hr@10", "forget:worst-case.hr@10")
    with pytest.raises(ProtocolMismatch, match="protocol 9"):
        statistics_protocol(9)


def row(name: str, served: tuple[float, ...], exposed: tuple[float, ...]):  # type: ignore[no-untyped-def]
    worst = tuple(map(max, served, exposed))
    numbers = {"forget:hr@10": served, "forget:exposed.hr@10": exposed, "forget:worst-case.hr@10": worst}
    kept = {"retain:ndcg@10": KEPT, "retain:hr@10": KEPT}
    return plant(name, {**numbers, **kept}, protocol_version=PROTOCOL_VERSION)


def test_a_filter_forgets_nothing_by_the_present_verdict() -> None:
    zero, protocol = (0.0,) * 5, statistics_protocol()
    rows = [
        row("original", KNOWN, KNOWN),
        row("retrain", LEFT, LEFT),
        row("filter", zero, KNOWN),
        row("mine", zero, LEFT),
    ]
    block = make_board([result for each in rows for result in each], protocol).blocks[0]
    found = {each.label: verdicts(verdict_analysis(block, protocol), each, protocol) for each in block.rows}
    assert found["filter"].forgets.outcome is Forgets.NO
    assert "forget HR@10 0.0000; forget HR@10 exposed 0.5000" in found["filter"].forgets.sentence
    assert found["filter"].gap == pytest.approx(0.4)
    assert found["mine"].forgets.outcome is Forgets.YES, "as much as retraining leaves, in the worst case"


def test_results_of_two_protocols_are_shown_one_at_a_time(tmp_path: Path) -> None:
    for version in PROTOCOLS:
        numbers = {"forget:hr@10": 0.1, "retain:ndcg@10": 0.2}
        write_records([planted_record("npo", 0, numbers, protocol_version=version)], tmp_path / str(version))
    found = load_result_set([tmp_path], published=False, skip_broken=False)
    assert {one.protocol_version for one in found.results} == {PROTOCOL_VERSION}
    assert found.protocol == statistics_protocol()
    assert found.board({}).left_out == ("runs of protocol 1 (--protocol 1): 1",)
    former = load_result_set([tmp_path], published=False, skip_broken=False, protocol=1)
    assert former.protocol == statistics_protocol(1)
    assert former.report({}).tables[0].protocol.primary == ("forget:hr@10", "retain:ndcg@10")
    with pytest.raises(DataMissing, match="no result of protocol 7"):
        load_result_set([tmp_path], published=False, skip_broken=False, protocol=7)
