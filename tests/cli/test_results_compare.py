"""``bench results compare``: the test by hand, the claim in words, and two checkpoints apart from two methods."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from typer.testing import CliRunner, Result

from genrec_unlearn_bench.cli.main import app
from genrec_unlearn_bench.evaluation.metric import Group
from genrec_unlearn_bench.evaluation.per_user import block_frame, blocks, recompute, write_per_user
from genrec_unlearn_bench.files import file_digest
from genrec_unlearn_bench.pipeline.record import RunRecord
from genrec_unlearn_bench.reporting.checkpoints import USER_METRICS, user_values
from tests.reporting.boards import write_records
from tests.reporting.planting import planted_record

NUMBERS = {
    "retrain": [0.10, 0.14, 0.12, 0.11, 0.13, 0.12],
    "tracer": [0.11, 0.13, 0.12, 0.12, 0.12, 0.13],
    "npo": [0.30, 0.33, 0.29, 0.31, 0.30, 0.32],
}


def records(numbers: dict[str, list[float]] = NUMBERS, **changes: object) -> list[RunRecord]:
    return [
        planted_record(name, seed, {"forget:hr@10": value, "retain:ndcg@10": 0.2 - value / 7 + 0.001 * seed}, **changes)
        for name, values in numbers.items()
        for seed, value in enumerate(values)
    ]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_records(records(), tmp_path / "results")
    return tmp_path / "results"


def bench(*words: str) -> Result:
    return CliRunner().invoke(app, ["results", "compare", *words])


def read(*words: str) -> dict[str, object]:
    result = bench(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def told(result: Result, code: int) -> str:
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stderr


def test_the_numbers_are_scipys(folder: Path) -> None:
    (block,) = read("tracer", "npo")["blocks"]  # type: ignore[misc]
    forget, retain = block["measures"]
    tested = stats.ttest_rel(NUMBERS["tracer"], NUMBERS["npo"])
    low, high = tested.confidence_interval(0.95)
    assert forget["difference"] == pytest.approx(np.mean(NUMBERS["tracer"]) - np.mean(NUMBERS["npo"]), rel=1e-5)
    assert (forget["low"], forget["high"]) == (pytest.approx(low, rel=1e-4), pytest.approx(high, rel=1e-4))
    assert forget["p"] == pytest.approx(tested.pvalue, rel=1e-4)
    assert forget["p_sign_flip"] == pytest.approx(2 / 64)
    assert (forget["n"], block["family"], block["seeds"]) == (6, 2, [0, 1, 2, 3, 4, 5])
    # Holm over the two measures: the smaller p twice, the larger once but no smaller than that.
    small, large = sorted((forget["p"], retain["p"]))
    assert sorted((forget["p_holm"], retain["p_holm"])) == pytest.approx([2 * small, max(2 * small, large)], rel=1e-4)
    assert (forget["verdict"], retain["verdict"]) == ("better", "better")
    assert forget["first"]["equivalence"] == "equivalent"
    assert forget["second"]["equivalence"] == "different"


def test_turned_around_it_says_the_same(folder: Path) -> None:
    (one,), (two,) = (read(*names)["blocks"] for names in (("tracer", "npo"), ("npo", "tracer")))  # type: ignore[misc]
    for first, second in zip(one["measures"], two["measures"], strict=True):
        assert first["p"] == second["p"]
        assert first["difference"] == -second["difference"]
        assert {first["verdict"], second["verdict"]} == {"better", "worse"}


def test_the_sentences_claim_no_more_than_the_test(folder: Path) -> None:
    text = " ".join(bench("tracer", "npo").stdout.split())
    assert "forget HR@10: tracer is better than npo, over 6 seeds of this task and backbone" in text
    assert "Holm over the 2 tests" in text
    text = " ".join(bench("tracer", "retrain").stdout.split())
    assert "no difference is shown with 6 seeds, which does not show that there is none" in text
    assert "would be found in 80%" in text


def test_the_detectable_difference_has_the_protocols_power(folder: Path) -> None:
    from genrec_unlearn_bench.reporting.statistics.paired import detectable_difference

    (block,) = read("tracer", "retrain")["blocks"]  # type: ignore[misc]
    spread = float(np.std(np.subtract(NUMBERS["tracer"], NUMBERS["retrain"]), ddof=1))
    expected = detectable_difference(spread, 6, 0.05 / 2, power=0.8)
    assert block["measures"][0]["detectable"] == pytest.approx(expected, rel=1e-4)


def test_one_seed_is_underpowered_with_the_least_p(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_records(records({"tracer": [0.1], "npo": [0.3]}), tmp_path / "results")
    (block,) = read("tracer", "npo")["blocks"]  # type: ignore[misc]
    assert block["measures"][0]["verdict"] == "underpowered"
    assert "smallest p there is, before correction, is 1" in block["measures"][0]["sentence"]
    assert block["family"] == 0


def test_a_diverged_run_is_left_out_and_said(folder: Path) -> None:
    write_records([planted_record("npo", 6, {"forget:hr@10": 0.0}, diverged=True)], folder.parent / "more")
    (block,) = read("tracer", "npo", "--results-dir", "results", "--results-dir", "more")["blocks"]  # type: ignore[misc]
    assert block["measures"][0]["n"] == 6
    assert any("diverged at seed 6" in note for note in block["notes"])


def test_every_block_that_has_both_is_compared_and_filters_choose(folder: Path) -> None:
    write_records(records(task="sports-brand"), folder.parent / "more")
    words = ("tracer", "npo", "--results-dir", "results", "--results-dir", "more")
    assert [block["task"] for block in read(*words)["blocks"]] == ["industrial-brand", "sports-brand"]  # type: ignore[attr-defined]
    assert [block["task"] for block in read(*words, "--task", "sports-*")["blocks"]] == ["sports-brand"]  # type: ignore[attr-defined]


def test_gaps_on_both_sides_of_the_oracle_are_equally_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    oracle = [0.30, 0.31, 0.29, 0.30, 0.32]
    jitter = [0.001, -0.002, 0.0015, -0.001, 0.0005]
    above = [x + 0.1 + j for x, j in zip(oracle, jitter, strict=True)]
    below = [x - 0.1 + j for x, j in zip(oracle, jitter, strict=True)]
    write_records(records({"retrain": oracle, "above": above, "below": below}), tmp_path / "results")
    (block,) = read("above", "below", "--metric", "forget:gap.hr@10")["blocks"]  # type: ignore[misc]
    (found,) = block["measures"]
    assert found["difference"] == pytest.approx(0.0, abs=1e-9)
    assert found["verdict"] == "not separable"


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("traser", "npo"), "did you mean tracer"),
        (("tracer", "tracer"), "itself"),
        (("tracer", "npo", "--metric", "forget:hr@12"), "hr@10"),
        (("tracer", "npo", "--metric", "hr@10"), "forget:hr@10"),
        (("tracer", "npo", "--task", "nowhere"), "unknown task"),
        (("tracer", "npo", "--seed", "0"), "--users"),
        (("tracer", "npo", "--users", "--metric", "cost.steps"), "each user"),
        (("tracer", "npo", "--users", "--seed", "77"), "seed 77"),
    ],
)
def test_faults_are_told_in_words(folder: Path, words: tuple[str, ...], part: str) -> None:
    assert part in told(bench(*words), 2)


def test_two_configurations_of_one_name_have_to_be_told_apart(folder: Path) -> None:
    more = [
        planted_record("npo", seed, {"forget:hr@10": 0.2, "retain:ndcg@10": 0.1}, method_config={"lr": 2})
        for seed in range(3)
    ]
    write_records([record.model_copy(update={"key": f"{record.key}-2"}) for record in more], folder.parent / "more")
    words = ("--results-dir", "results", "--results-dir", "more")
    assert "npo (lr=2)" in told(bench("tracer", "npo", *words), 2)
    assert bench("tracer", "npo (lr=2)", *words).exit_code == 0


def users_frame(seed: int, *, kept: float, users: int = 60) -> pd.DataFrame:
    """A per-user table of both groups at both beams: two rows a user, a share of the targets found."""
    generator = np.random.default_rng(seed)
    frames = []
    for group in (Group.FORGET, Group.RETAIN):
        for beam in (10, 50):
            rows = 2 * users
            ranks = np.where(generator.random(rows) < kept, generator.integers(1, 11, rows), 0)
            columns = {
                "example": np.arange(rows),
                "user": np.repeat(np.arange(users), 2),
                "target": np.arange(rows) % 17,
                "rank": ranks,
                "log_prob": np.zeros(rows),
                "concept_in_list": generator.integers(0, 3, rows),
                "n_list": np.full(rows, 10),
                "original_rank": np.full(rows, -1),
                "original_concept_in_list": np.full(rows, -1),
                "original_n_list": np.full(rows, -1),
                "concept_in_history": np.zeros(rows),
                "near_prefix": np.full(rows, -1),
                "near_category": np.full(rows, -1),
                "near_concept": np.full(rows, -1),
            }
            similarity = generator.random(rows)
            similarity[::7] = np.nan
            for name in (
                "first_similarity",
                "mean_similarity",
                "first_similarity_scrubbed",
                "mean_similarity_scrubbed",
            ):
                columns[name] = similarity
            for name in ("js_forget", "js_matched", "change_forget", "change_matched"):
                columns[name] = np.full(rows, np.nan)
            columns |= dict.fromkeys(("exposed_rank", "exposed_concept_in_list", "exposed_n_list"), columns["rank"])
            frames.append(block_frame(group, beam, columns))
    return pd.concat(frames, ignore_index=True)


@pytest.fixture
def with_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results"
    for name, kept in (("tracer", 0.05), ("original", 0.6)):
        for seed in (0, 1):
            table = tmp_path / "table.parquet"
            write_per_user([users_frame(seed + (100 if name == "tracer" else 0), kept=kept)], table)
            record = planted_record(name, seed, {"forget:hr@10": kept}, per_user_digest=file_digest(table))
            write_records([record], folder)
            table.rename(next(folder.rglob(f"*/{name}/*seed{seed}*")) / "per_user.parquet")
    return folder


def test_checkpoints_are_compared_seed_by_seed_and_called_that(with_users: Path) -> None:
    found = read("tracer", "original", "--users", "--metric", "forget:hr@10")
    assert found["claim"] == "these two checkpoints, not these two methods"
    entries = found["comparisons"]
    assert [entry["seed"] for entry in entries] == [0, 1]  # type: ignore[attr-defined]
    for seed, entry in enumerate(entries):  # type: ignore[arg-type]
        tables = [users_frame(seed + shift, kept=kept) for shift, kept in ((100, 0.05), (0, 0.6))]
        rates = [
            float(((table["rank"] > 0) & (table["group"] == "forget") & (table["beam"] == 10)).sum() / 120)
            for table in tables
        ]
        assert entry["difference"] == pytest.approx(rates[0] - rates[1], rel=1e-5)
        assert (entry["rows"], entry["users"]) == (120, 60)
        assert entry["p"] == pytest.approx(1 / 10001, rel=1e-4)
    text = " ".join(bench("tracer", "original", "--users", "--seed", "1").stdout.split())
    assert "these two checkpoints, not these two methods" in text
    assert "for a claim about methods compare over seeds" in text


def test_rows_are_matched_by_example_and_not_by_place(with_users: Path) -> None:
    before = read("tracer", "original", "--users", "--seed", "0", "--metric", "forget:ndcg@10")
    path = next(with_users.rglob("*/tracer/*seed0*")) / "per_user.parquet"
    shuffled = pd.read_parquet(path).sample(frac=1.0, random_state=3)
    write_per_user([shuffled], path)
    record = path.with_name("result.json")
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**content, "per_user_digest": file_digest(path)}), encoding="utf-8")
    assert read("tracer", "original", "--users", "--seed", "0", "--metric", "forget:ndcg@10") == before


def test_a_changed_or_missing_table_is_refused(with_users: Path) -> None:
    path = next(with_users.rglob("*/tracer/*seed0*")) / "per_user.parquet"
    write_per_user([users_frame(5, kept=0.5)], path)
    assert "not the one of its record" in told(bench("tracer", "original", "--users", "--metric", "forget:hr@10"), 1)
    path.unlink()
    assert "no per-user table" in told(bench("tracer", "original", "--users", "--metric", "forget:hr@10"), 2)


def test_tables_of_other_test_examples_are_refused(with_users: Path) -> None:
    path = next(with_users.rglob("*/tracer/*seed0*")) / "per_user.parquet"
    write_per_user([users_frame(5, kept=0.5, users=50)], path)
    record = path.with_name("result.json")
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**content, "per_user_digest": file_digest(path)}), encoding="utf-8")
    text = told(bench("tracer", "original", "--users", "--seed", "0", "--metric", "forget:hr@10"), 1)
    assert "not of the same test examples" in text


def test_a_published_table_without_targets_is_comparable(with_users: Path) -> None:
    before = read("tracer", "original", "--users", "--seed", "0", "--metric", "retain:hr@10")
    path = next(with_users.rglob("*/tracer/*seed0*")) / "per_user.parquet"
    table = pd.read_parquet(path)
    write_per_user([table.assign(target=-1, user=table["user"] + 1000)], path)
    record = path.with_name("result.json")
    content = json.loads(record.read_text(encoding="utf-8"))
    record.write_text(json.dumps({**content, "per_user_digest": file_digest(path)}), encoding="utf-8")
    assert read("tracer", "original", "--users", "--seed", "0", "--metric", "retain:hr@10") == before


def test_user_values_average_to_what_the_suite_reports() -> None:
    frame = users_frame(7, kept=0.4)
    reported = {(value.metric, value.group, value.beam): value.value for value in recompute(frame)}
    for block in blocks(frame):
        for name in USER_METRICS:
            if (name, block.group, block.beam) not in reported:
                continue  # worst-case.* are of the forget group, and exposed lists of retain users of beam 10
            mean = float(np.nanmean(user_values(block, name)))
            assert mean == pytest.approx(reported[name, block.group, block.beam], rel=1e-12)
