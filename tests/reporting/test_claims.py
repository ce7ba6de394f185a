"""The paper's claims: every rule on planted records with known answers, verdicts that follow the records, the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.registry import REFERENCE_ROWS, methods
from genrec_unlearn_bench.reporting.claim_report import CheckedClaim, check_claim, find_blocks, version_of
from genrec_unlearn_bench.reporting.claims import Claims, Outcome, paper_claims
from genrec_unlearn_bench.reporting.protocol import statistics_protocol
from tests.reporting.boards import make_records, make_results

PROTOCOL = statistics_protocol()
PAGE = Path(__file__).parents[2] / "docs/claims.md"
HOLDS, FAILS, OPEN = Outcome.HOLDS, Outcome.FAILS, Outcome.OPEN
FORGET, RETAIN = "forget:hr@10", "retain:ndcg@10"
ROWS = {"tracer": (0.30, 0.99), "npo": (0.45, 0.90), "simnpo": (0.45, 0.90), "scrub": (0.80, 0.60), "elm": (0.30, 0.60)}


def claim(rules: Sequence[Mapping[str, Any]], **fields: Any) -> Claims:
    """A claim about one block, which needs no scale."""
    texts = {"title": "t", "words": ["w"], "where": "w", "numbers": "n"}
    place = {"tasks": ["industrial-brand"], "backbones": ["tiger"], "scale": "small", "commands": ["bench grid run g"]}
    rows = {
        "sharp": {"method": ["tracer"], "config": {"tau": 0.1}},
        "flat": {"method": ["tracer"], "config": {"tau": 2}},
    }
    rows["either"] = {"method": ["gone", "npo"]}
    content = {"rows": rows, "claims": [{"number": 1, **texts, **place, "rules": rules, **fields}]}
    return parse(Claims, content, where="planted")


def planted(*, seeds: int = 5, **options: Any) -> list[RunRecord]:
    block = {"tasks": ["industrial-brand"], "backbones": ["tiger"], "methods": ROWS, "seeds": range(seeds)}
    return make_records(**{**block, **options})


def checked(claims: Claims, records: Sequence[RunRecord]) -> CheckedClaim:
    return check_claim(claims.claims[0], find_blocks(make_results(records), PROTOCOL), claims, PROTOCOL)


def compare(row: str, *against: str, on: Sequence[str] = (FORGET,), **fields: Any) -> dict[str, Any]:
    return {"kind": "compare", "row": row, "against": against, "measures": on, **fields}


def ratio(row: str, **fields: Any) -> dict[str, Any]:
    return {"kind": "interval", "row": row, "against": "original", "measures": [RETAIN], **fields}


CASES = {
    "forgets more than both": (compare("tracer", "npo", "scrub"), HOLDS),
    "forgets less": (compare("scrub", "npo"), FAILS),
    "worse is wanted": (compare("scrub", "npo", want="worse"), HOLDS),
    "better where worse is wanted": (compare("npo", "scrub", want="worse"), FAILS),
    "a tie is equivalent": (compare("simnpo", "npo"), FAILS),
    "a tie, and a win, where ties hold": (compare("simnpo", "npo", "scrub", ties="hold"), HOLDS),
    "a loss where ties hold": (compare("scrub", "npo", ties="hold"), FAILS),
    "one of two is a tie": (compare("simnpo", "scrub", "npo"), FAILS),
    "a row that is not there": (compare("tracer", "npo", "gone"), OPEN),
    "refuted without the row that is not there": (compare("scrub", "npo", "gone"), FAILS),
    "its own row is not there": (compare("gone", "npo"), OPEN),
    "a row by another name": (compare("tracer", "either"), HOLDS),
    "without effect, so that nothing is shown": (compare("tracer", "idle"), OPEN),
    "better on both": (compare("npo", "scrub", on=(FORGET, RETAIN)), HOLDS),
    "better on one, not on all": (compare("elm", "npo", on=(FORGET, RETAIN)), FAILS),
    "better on one is any": (compare("elm", "npo", on=(FORGET, RETAIN), require="any"), HOLDS),
    "better on one and worse on the other": (compare("elm", "npo", on=(FORGET, RETAIN), require="pareto"), FAILS),
    "better on one and the same on the other": (compare("elm", "scrub", on=(FORGET, RETAIN), require="pareto"), HOLDS),
    "the same on both": (compare("simnpo", "npo", on=(FORGET, RETAIN), require="pareto"), FAILS),
    "the first measure that there is": (compare("tracer", "npo", on=["forget:ndcg@1 or forget:hr@10"]), HOLDS),
    "not measured": (compare("tracer", "npo", on=["forget:similarity.first"]), OPEN),
    "on another device": (compare("tracer", "npo", device="cuda"), OPEN),
    "as retraining": (compare("elm", "retrain", on=[FORGET], want="equivalent"), HOLDS),
    "not as retraining": (compare("scrub", "retrain", on=[FORGET], want="equivalent"), FAILS),
    "as retraining on one of two": (compare("elm", "retrain", on=[FORGET, RETAIN], want="equivalent"), FAILS),
    "as retraining on what nobody measured": (
        compare("elm", "retrain", on=["forget:similarity.first"], want="equivalent"),
        OPEN,
    ),
    "keeps .99, at least .9": (ratio("tracer", at_least=0.9), HOLDS),
    "keeps .6, at least .9": (ratio("scrub", at_least=0.9), FAILS),
    "the bound is inside": (ratio("npo", at_least=0.9), OPEN),
    "keeps .6, at most .9": (ratio("scrub", at_most=0.9), HOLDS),
    "keeps .99, at most .9": (ratio("tracer", at_most=0.9), FAILS),
    "HR@10 less HR@5 is above 0": (
        {"kind": "interval", "row": "npo", "measures": [FORGET], "minus": "forget:hr@5", "at_least": 0.0},
        HOLDS,
    ),
}


@pytest.mark.parametrize(("rule", "answer"), CASES.values(), ids=CASES.keys())
def test_rules_on_planted_rows(rule: Mapping[str, Any], answer: Outcome) -> None:
    records = planted()
    for record in [record for record in records if record.cell.method == "original"]:
        cell = record.cell.model_copy(update={"method": "idle", "ruleset": "tuned"})
        records.append(record.model_copy(update={"cell": cell, "key": record.key[::-1]}))
    assert checked(claim([rule]), records).verdict is answer


@pytest.mark.parametrize("rule", [compare("tracer", "scrub"), ratio("tracer", at_least=0.9)])
def test_a_new_record_decides(rule: Mapping[str, Any]) -> None:
    few = checked(claim([rule]), planted(seeds=4))
    assert few.verdict is OPEN
    assert "4 of 5 seeds of tracer" in few.evidence[0].short
    assert few.missing[0].startswith("5 seeds of tracer")
    assert checked(claim([rule]), planted(seeds=5)).verdict is HOLDS


def test_a_claim_holds_in_all_of_its_blocks_at_its_scale_or_not() -> None:
    """One block that fails decides at any scale; blocks that hold decide together."""
    forgets = [compare("tracer", "npo")]
    both = {"backbones": ["letter", "tiger"]}
    assert checked(claim(forgets, **both), planted()).reason.startswith("holds in 1 of 2 blocks")
    assert checked(claim(forgets, **both), planted(**both)).verdict is HOLDS
    at_paper_scale = claim(forgets, **both, scale="paper")
    small = checked(at_paper_scale, planted(**both))
    assert (small.verdict, small.missing) == (
        OPEN,
        ("2 of 2 blocks at paper scale (industrial-brand on letter and tiger)",),
    )
    assert checked(at_paper_scale, planted(**both, scale="paper")).verdict is HOLDS
    assert checked(claim([compare("scrub", "npo")], **both, scale="paper"), planted()).verdict is FAILS
    assert checked(claim(forgets, needs=["a measure"]), planted()).verdict is OPEN
    assert checked(claim([], needs=["a measure"]), planted()).missing[-1] == "a measure"


def test_a_larger_block_speaks_for_a_task_once_it_has_the_seeds() -> None:
    small = planted()
    reversed_rows = {"tracer": (0.80, 0.99), "npo": (0.45, 0.90)}
    for seeds, answer in ((1, HOLDS), (5, FAILS)):
        large = planted(seeds=seeds, scale="paper", methods=reversed_rows)
        assert checked(claim([compare("tracer", "npo")]), small + large).verdict is answer


def test_without_its_premise_nothing_refutes() -> None:
    fails = compare("scrub", "npo")
    assert checked(claim([compare("tracer", "npo", premise=True), fails]), planted()).verdict is FAILS
    assert checked(claim([compare("scrub", "elm", premise=True), fails]), planted()).verdict is OPEN


def test_rows_are_told_apart_by_their_configuration() -> None:
    records = []
    for tau, kept in ((0.1, 0.3), (2.0, 0.7)):
        for record in planted(methods={"tracer": (kept, 0.9)}, references={}):
            key = f"{tau:g}{record.key}"[:64]
            records.append(record.model_copy(update={"method_config": {"tau": tau}, "key": key}))
    assert checked(claim([compare("sharp", "flat")]), records).verdict is HOLDS
    assert checked(claim([compare("tracer", "flat")]), records).verdict is OPEN  # Which of both is not said.
    assert checked(claim([compare("sharp", "flat")]), planted()).missing[0].startswith("5 seeds of sharp and flat")


def test_protocols_are_kept_apart() -> None:
    records = planted()
    newer = [record.model_copy(update={"protocol_version": 99}) for record in planted(seeds=2)]
    found = find_blocks(make_results(records + newer), PROTOCOL)
    version = records[0].protocol_version
    counts = sorted((version_of(block), len(block.seeds)) for block in found)
    assert counts == [(version, 5), (99, 2)]


def test_the_claims_are_well_formed() -> None:
    """Every measure is declared, every row exists, and a claim without a bound is refused."""
    content = paper_claims()
    assert [each.number for each in content.claims] == list(range(1, 24))
    known = {*methods(), *REFERENCE_ROWS, *content.rows}
    for each in content.claims:
        for rule in each.rules:
            assert rule.choices
            assert rule.row in known
            assert {*getattr(rule, "against", ()), ""} <= known | {""} or rule.against in known  # type: ignore[union-attr]
    with pytest.raises(ConfigError, match="one bound"):
        claim([ratio("tracer")])


def test_the_page_is_what_the_command_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a meant change: ``bench results claims --out docs/claims.md`` in a folder without results."""
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(app, ["results", "claims", "--out", "claims.md"])
    assert done.exit_code == 0, done.output
    assert Path("claims.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    # A page from another clone says what made it; one of the user's own is kept.
    for text, code in (("# Claims\n\n<!-- Made by `bench results claims` -->", 0), ("mine", 2)):
        Path("claims.md").write_text(text, encoding="utf-8")
        done = CliRunner().invoke(app, ["results", "claims", "1", "--out", "claims.md"])
        assert (done.exit_code, Path("claims.md").read_text(encoding="utf-8") == text) == (code, bool(code))
    assert "--out bench/claims.md" in done.stderr


def test_the_command_fits_a_terminal_and_names_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    done = CliRunner().invoke(app, ["results", "claims"])
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines() if line.startswith(" ")) <= 80
    in_full = CliRunner().invoke(app, ["results", "claims", "1", "17"]).stdout
    assert in_full.startswith("1. ")
    assert "\n17. " in in_full
    document = json.loads(CliRunner().invoke(app, ["results", "claims", "5", "--json"]).stdout)
    evidence = document["claims"][0]["evidence"]
    assert any("industrial-brand/tiger/tracer/" in place for each in evidence for place in each["records"])
    wrong = CliRunner().invoke(app, ["results", "claims", "24"])
    assert wrong.exit_code == 2
    assert "24" in wrong.stderr
