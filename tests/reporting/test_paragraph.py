"""The generated paragraph says what the tables hold, with the right numbers and the right grammar."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pytest

from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.reporting.analysis import Verdict
from genrec_unlearn_bench.reporting.measure import Measure
from genrec_unlearn_bench.reporting.paper import bibliography, statistics_paragraph, statistics_sentences
from genrec_unlearn_bench.reporting.protocol import find_layout, statistics_protocol
from genrec_unlearn_bench.reporting.sentences import _CITATION, notes
from genrec_unlearn_bench.reporting.tables import Table, make_tables
from tests.reporting.boards import METHODS, REFERENCES, make_records, make_synthetic_board, make_synthetic_tables


def plain(tables: tuple[Table, ...]) -> str:
    return " ".join(_CITATION.sub("", each) for each in statistics_sentences(tables))


def said(records: list[RunRecord] | None = None, layout: str = "main") -> str:
    return plain(make_synthetic_tables(layout, records))


def test_what_was_compared() -> None:
    text = said()
    assert text.startswith("We compare nine methods (flat, grad-ascent, npo, ")
    assert "on two tasks (industrial-brand and sports-brand) and two backbones (letter and tiger)" in text
    assert "with five reference rows (original, retrain, popularity, filter and random-reassign)" in text
    assert "at scale small and under the ruleset tuned of genrec_unlearn_bench." in text
    assert "One row has fewer: rmu on sports-brand with tiger (4 of 5)." in text
    assert "neither ranked nor tested: grad-ascent on industrial-brand with letter (1 of 5)." in text
    assert text.endswith("statistics were computed with NumPy and SciPy.")


def test_each_method_is_cited_by_its_name() -> None:
    """Controls and variants share the paper of another method, which keeps its own citation."""
    methods = dict.fromkeys(("relabel", "tracer", "tracer-no-reassignment"), METHODS["npo"])
    text = statistics_paragraph(make_synthetic_tables("main", make_records(methods=methods)))
    for name in methods:
        assert rf"{name}~\cite{{chen2026tracer}}" in text


def test_the_numbers_are_those_of_the_tables() -> None:
    tables = make_synthetic_tables("main")
    text = plain(tables)
    verdicts = counted_verdicts(tables)
    total = sum(verdicts.values())
    assert (
        f"Of {total} such tests, {verdicts[Verdict.BETTER]} found the method better, {verdicts[Verdict.WORSE]} found "
        f"the method worse and {verdicts[Verdict.NOT_SEPARABLE]} did not separate the two." in text
    )
    families = [block.against_baseline for table in tables for block in table.blocks]
    assert sum(families) == total
    assert f"({min(families)} to {max(families)} tests) at a family-wise level of α = 0.05" in text
    low, high, median = re.findall(r"lie between ([0-9.]+) and ([0-9.]+) \(median ([0-9.]+)\)", text)[0]
    effects = [abs(d.effect) for d in differences(tables) if d.effect is not None]  # type: ignore[attr-defined]
    assert float(low) == pytest.approx(min(effects), rel=0.05)
    assert float(high) == pytest.approx(max(effects), rel=0.05)
    assert float(median) == pytest.approx(np.median(effects), rel=0.05)


def test_a_baseline_that_is_a_method_is_said_to_be_tested_over_all_pairs() -> None:
    board = make_synthetic_board(make_records())
    tables = make_tables(board, find_layout("main", 1), statistics_protocol(1), baseline="npo")
    text, below = plain(tables), " ".join(notes(tables[0]))
    families = [block.pairs for table in tables for block in table.blocks]
    span = f"{min(families)} to {max(families)} tests"
    assert f"over all pairs of methods and primary measures of a task and backbone ({span})" in text
    assert "come from the same family, all pairs of methods" in text
    assert f"those against npo are part of the {span} among all pairs of methods." in below


def differences(tables: tuple[Table, ...]) -> list[object]:
    return [
        cell.difference
        for table in tables
        for block in table.blocks
        for (_, measure), cell in block.cells.items()
        if measure in block.primary and cell.difference is not None
    ]


def counted_verdicts(tables: tuple[Table, ...]) -> Counter[Verdict]:
    return Counter(difference.verdict for difference in differences(tables))  # type: ignore[attr-defined]


def test_one_of_everything() -> None:
    records = make_records(
        tasks=("industrial-brand",),
        backbones=("tiger",),
        methods={"npo": METHODS["npo"]},
        references={"original": REFERENCES["original"]},
        seeds=(0,),
    )
    text = said(records)
    assert "We compare one method (npo) with one reference row (original) on one task (industrial-brand)" in text
    assert "Every row was run with a single seed (the protocol asks for 5)" in text
    assert "Two comparisons were underpowered" in text
    assert "smallest attainable p 1" in text
    for word in ("Equivalence", "sign-flip", "Best sets", "Effect sizes", "Friedman"):
        assert word not in text
    assert not re.search(r"\b1 (?:tests|methods|tasks|seeds|rows)\b", text)


def test_six_seeds_have_the_exact_test() -> None:
    assert "From 6 seeds up the exact sign-flip test over seeds stands beside the t-test" in said(
        make_records(seeds=range(6))
    )
    assert "The exact sign-flip test is not reported, as with 5 seeds its p-value cannot fall below 0.0625." in said()


def test_friedman_needs_the_protocols_blocks() -> None:
    assert "the protocol asks for 10 such blocks, and there are 4" in said()
    text = said(make_records(tasks=[f"t{n}-brand" for n in range(10)], backbones=("tiger",), seeds=(0, 1)))
    assert "Across 10 tasks and backbones, Friedman's test over the 8 methods that were measured in all of them" in text
    assert re.search(r"χ²\(7\) = \d+\.\d\d, p < \.001 for forget HR@10", text)


def test_without_the_baseline_no_test_is_claimed() -> None:
    text = said(make_records(references={"retrain": REFERENCES["retrain"]}))
    assert "no method could be tested against original" in text
    assert "such tests" not in text


def test_one_outcome_of_all_tests() -> None:
    assert re.search(r"All \d+ such tests found the method better\.", said(layout="attack"))


def test_layouts_that_show_some_methods_say_so() -> None:
    assert "The tables show 3 methods of these; all were tested together." in said(layout="ablation")
    assert "rmu on" not in said(layout="ablation")


def test_margins_are_given() -> None:
    tables = make_synthetic_tables("main")
    measure = Measure.parse("forget:hr@10", beam=10)
    margins = [block.margins[measure] for table in tables for block in table.blocks]
    found = re.findall(r"\(([0-9.]+) to ([0-9.]+) for forget HR@10", said())[0]
    assert [float(value) for value in found] == pytest.approx(
        [min(margin or 0.0 for margin in margins), max(margin or 0.0 for margin in margins)], rel=0.05
    )


def test_citations_are_in_the_bibliography() -> None:
    tables = make_synthetic_tables("main")
    tex = statistics_paragraph(tables)
    cited = {key for group in re.findall(r"\\cite\{([^}]*)\}", tex) for key in group.split(",")}
    assert cited
    assert cited <= {key for keys in bibliography(tables).keys.values() for key in keys}
    assert "genrec\\_unlearn\\_bench" in tex
    assert "$t$-tests" in tex
