"""The paper's numbers: copied as they stand, mapped to our names, with the bounds that they break counted."""

from __future__ import annotations

import csv
from collections import Counter
from importlib import resources

import pytest

from genrec_unlearn_bench.data.tasks import tasks
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.reporting.reported import NOTES, reported, reported_comparisons, reported_notes
from tests.reporting.boards import make_records, make_synthetic_tables
from tests.reporting.planting import measure


def file() -> list[dict[str, str]]:
    place = resources.files("genrec_unlearn_bench.leaderboard") / "published" / "tracer.csv"
    return list(csv.DictReader(place.read_text(encoding="utf-8").splitlines()))


def test_every_number_of_the_file_is_there_once() -> None:
    cells = reported()
    assert len(cells) == len(file()) == 160 * 11 + 28
    assert len({(cell.task, cell.backbone, cell.method, cell.measure) for cell in cells}) == len(cells)
    assert Counter(cell.task for cell in cells if cell.measure == measure("forget:hr@10")) == {
        "industrial-brand": 40,
        "industrial-item": 40,
        "sports-brand": 40,
        "toys-brand": 40,
    }


def test_names_are_the_suites() -> None:
    assert {cell.task for cell in reported()} <= set(tasks())
    assert {cell.backbone for cell in reported()} == {"minionerec", "letter", "tiger", "p5sid", "etegrec"}


def test_one_row_by_hand() -> None:
    found = {
        cell.measure: cell
        for cell in reported()
        if (cell.task, cell.backbone, cell.method) == ("industrial-brand", "minionerec", "original")
    }
    assert found[measure("forget:hr@5")].value == 0.170
    assert found[measure("forget:hr@5")].sd == 0.003
    assert found[measure("forget:hr@10")].value == 0.230
    assert found[measure("forget:hr@10")].sd is None
    # .150 - .110 = .040 is more than (.230 - .170) / log2(7) = .0214.
    assert any(sentence.startswith("NDCG@10 - NDCG@5") for sentence in found[measure("forget:ndcg@10")].broken)
    # (.171 - .126) / log2(11) = .0130 is more than .110 - .100 = .010; MRR .100 is in no broken bound.
    assert any(sentence.startswith("(HR@10 - HR@5)") for sentence in found[measure("retain:ndcg@10")].broken)
    assert found[measure("retain:mrr@10")].broken == ()
    assert found[measure("retain:similarity.first")].broken == ()


def test_minutes_are_seconds_here() -> None:
    (cell,) = (
        cell
        for cell in reported()
        if cell.measure.group is Group.ALL
        and (cell.task, cell.backbone, cell.method) == ("industrial-brand", "letter", "tracer")
    )
    assert (cell.value, cell.sd) == (pytest.approx(20.3 * 60), pytest.approx(0.4 * 60))


def test_broken_rows_are_counted_as_an_oracle_of_its_own_counts_them() -> None:
    """The bounds written out anew, on the file."""
    from math import log2

    def breaks(row: dict[str, float], group: str, *, mrr: bool) -> bool:
        five, ten = row[f"{group}:hr@5"], row[f"{group}:hr@10"]
        n5, n10, m = (row[f"{group}:{name}"] for name in ("ndcg@5", "ndcg@10", "mrr@10"))
        gain, slack = ten - five, 0.0011
        wrong = [
            five > ten + slack,
            n5 > five + slack,
            n10 > ten + slack,
            gain / log2(11) > n10 - n5 + slack,
            n10 - n5 > gain / log2(7) + slack,
        ]
        if mrr:
            wrong += [m > n10 + slack, m > five + gain / 6 + slack]
        return any(wrong)

    rows: dict[tuple[str, ...], dict[str, float]] = {}
    for line in file():
        names = (line["task"], line["backbone"], line["method"])
        rows.setdefault(names, {})[line["measure"]] = float(line["value"])
    for counted, mrr in ((151, True), (147, False)):
        counts = [any(breaks(row, group, mrr=mrr) for group in ("forget", "retain")) for row in rows.values()]
        assert (len(counts), sum(counts)) == (160, counted)
    assert len({cell[:3] for cell in reported() if cell.broken}) == 151


def test_the_notes_say_whose_numbers_these_are_and_what_is_wrong_with_them() -> None:
    text = " ".join(NOTES)
    for part in (
        "another preparation",
        "never a target",
        "151 of 160",
        "147",
        "1 cell",
        "MOR and LETTER alone",
        ".0011",
    ):
        assert part in text


def test_ours_stand_beside_where_we_have_them() -> None:
    tables = make_synthetic_tables("main", make_records(tasks=("industrial-brand",), backbones=("tiger",)))
    found = reported_comparisons(tables)
    # Eight methods in the paper, five columns in the table.
    assert len(found) == 40
    own = {(pair.method, pair.measure): pair for pair in found}
    pair = own["tracer", "forget:hr@10/10"]
    block = tables[0].blocks[0]
    assert pair.ours == block.cells["tracer", measure("forget:hr@10")].mean
    assert pair.reported == 0.087
    assert own["elm", "forget:hr@10/10"].ours is None
    assert own["original", "forget:hr@10/10"].texts[2].endswith(" !")
    assert f"{sum(bool(p.broken) for p in found)} of the 40" in reported_notes(found)[0]


def test_what_the_paper_does_not_report_is_said() -> None:
    tables = make_synthetic_tables("main", make_records(tasks=("steam-brand",), backbones=("tiger",)))
    assert reported_comparisons(tables) == ()
    assert "nothing" in reported_notes(())[0]
