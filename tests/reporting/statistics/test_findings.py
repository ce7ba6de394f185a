"""What docs/findings.md says, held against the published results: which rows, with which p, and their numbers."""

from __future__ import annotations

import pytest

from genrec_unlearn_bench.api import compare, load_results
from genrec_unlearn_bench.tuning.choice import read_choice
from tests.reporting.statistics.findings_page import (
    EFFICIENCY,
    FLOORS,
    KEPT,
    LEFT,
    MAIN,
    PRIMARY,
    RATE,
    ROOT,
    against,
    bound,
    by_seed,
    mean,
    rates,
    rows,
    says,
    sensitivity,
    short,
    significant,
)

VARIANTS = {"tracer", "tracer-no-reassignment", "tracer-zero-phi"}


@pytest.mark.parametrize("backbone", ["tiger", "mor"])
def test_npo_is_equivalent_to_retrain(backbone: str) -> None:
    says("is equivalent to `retrain` on both primary measures", "on both measures equivalent to `retrain`")
    left, kept = (rows(MAIN, "industrial-brand", backbone, measure) for measure in PRIMARY)
    assert left["equivalence"]["npo"] == kept["equivalence"]["npo"] == "equivalent"
    share = 100 * kept["margin"]["npo"] / kept["mean"]["retrain"]
    margins = {"tiger": f"(margins {short(left['margin']['npo'])}; {share:.1f}, ", "mor": f", {share:.1f} %)."}
    says(margins[backbone])


def test_reassignment_with_mor() -> None:
    results = load_results(ROOT / "leaderboard/results", task="industrial-brand", backbone="mor*", suite="core")
    found = compare("tracer", "tracer-no-reassignment", results).set_index("measure")
    left, kept = (
        "{} [{}, {}]".format(*(short(float(found[column][measure])) for column in ("estimate", "low", "high")))
        for measure in PRIMARY
    )
    says(f"with `mor` they differ by {left} in what is left and {kept} in what is kept")
    table = against("random-reassign")
    left_rows, kept_rows = (rows(table, "industrial-brand", "mor", measure) for measure in PRIMARY)
    p = {row: (left_rows["p_holm"][row], kept_rows["p_holm"][row]) for row in ("tracer", "tracer-no-reassignment")}
    means = [short(table["mean"][row]) for table in (left_rows, kept_rows) for row in ("tracer", "random-reassign")]
    says(
        "IDs beat random ones with `mor` (left {} against {}, kept {} against {}; Holm {} and {})".format(
            *means, *(short(one, 3) for one in p["tracer"])
        ),
        f"so does moving none ({short(p['tracer-no-reassignment'][0], 3)}, < .001)",
    )
    assert p["tracer-no-reassignment"][1] < 0.001


def test_what_forgets_more_than_retain_examples_alone() -> None:
    known = against("retain-only")
    mor = significant(rows(known, "industrial-brand", "mor", LEFT), "p_holm", -1)
    says(
        "With `mor` `npo`, `blur`, `rmu`, `tracer` and its variants, `wga`, `task-vector`, `scrub` and `grad-ascent` "
        f"leave less (Holm over all pairs ≤ {bound(mor.max())}); with TIGER's five seeds none is shown to."
    )
    assert set(mor.index) == {"npo", "blur", "rmu", "wga", "task-vector", "scrub", "grad-ascent", *VARIANTS}
    assert significant(rows(known, "industrial-brand", "tiger", LEFT), "p_holm", -1).empty


def test_the_one_row_that_keeps_less() -> None:
    less = {
        (backbone, row): p
        for backbone in ("tiger", "mor")
        for row, p in significant(rows(MAIN, "industrial-brand", backbone, KEPT), "p_holm", -1).items()
    }
    assert list(less) == [("mor", "rmu")]
    tested = [rows(MAIN, "industrial-brand", backbone, KEPT)["p_holm"].notna().sum() for backbone in ("tiger", "mor")]
    mor = rows(MAIN, "industrial-brand", "mor", KEPT)["mean"]
    says(
        f"Tuned, one of {sum(tested)} rows is significantly below the original: `rmu` with `mor`, by "
        f"{100 * (1 - mor['rmu'] / mor['original']):.1f} % (Holm {short(less['mor', 'rmu'], 3)})"
    )


def test_costs() -> None:
    unlearn, total = (
        {
            (backbone, row): round(mean)
            for backbone in ("tiger", "mor")
            for row, mean in rows(MAIN, "industrial-brand", backbone, measure)["mean"].items()
        }
        for measure in ("cost.unlearn-seconds", "cost.total-share")
    )
    retrain = {backbone: unlearn[backbone, "retrain"] for backbone in ("tiger", "mor")}
    assert unlearn["tiger", "tracer"] == unlearn["mor", "tracer"]
    share = {
        backbone: round(
            100 * rows(EFFICIENCY, "industrial-brand", backbone, "cost.share-of-retraining")["mean"]["tracer"]
        )
        for backbone in retrain
    }
    says(
        f"`tracer` takes {unlearn['tiger', 'tracer']} s with either model, {share['tiger']} and {share['mor']} % of a "
        f"retraining ({retrain['tiger']}, {retrain['mor']} s); with its twelve trials {total['tiger', 'tracer']} and "
        f"{total['mor', 'tracer']} %, `npo` {total['tiger', 'npo']} and {total['mor', 'npo']} %",
        f"in {unlearn['tiger', 'npo']}, {unlearn['mor', 'npo']} s",
    )


def test_concept_rates_against_retain_examples_alone() -> None:
    known, moved = (rates(row, "industrial-brand", "tiger") for row in ("retain-only", "random-reassign"))
    tiger, random = (significant(table, "p_holm", -1) for table in (known, moved))
    assert set(tiger.index) == {"npo", "wga", "tracer"}
    assert set(random.index) == {*("npo", "wga", "task-vector", "tracer-no-reassignment", "tracer-zero-phi")}
    says(
        f"By it TIGER's `npo`, `wga` and `tracer` beat `retain-only` (Holm ≤ {bound(tiger.max())}; "
        f"`tracer-no-reassignment` {short(known['p_holm']['tracer-no-reassignment'], 3)}), and `npo`, `wga`, "
        "`task-vector`, `tracer-no-reassignment` and `tracer-zero-phi` random IDs "
        f"(≤ {bound(random.max())})"
    )
    mor = significant(rates("retain-only", "industrial-entangled", "mor"), "p_holm", -1)
    assert set(mor.index) == {"grad-diff", "tracer-no-reassignment"}
    says(f"With `mor` only `grad-diff` and `tracer-no-reassignment` beat `retain-only` (≤ {bound(mor.max())})")


def test_entangled_brands() -> None:
    of = "industrial-entangled"
    tiger = significant(rows(MAIN, of, "tiger", LEFT), "p_holm", -1)
    assert set(tiger.index) == {"npo", "relabel", "influence"}
    says(f"leave significantly less (Holm ≤ {bound(tiger.max())}), with `mor` none")
    assert significant(rows(MAIN, of, "mor", LEFT), "p_holm", -1).empty
    random = {name: rates("random-reassign", of, name) for name in ("tiger", "mor")}
    tested = {name: table[table["p_holm"].notna()] for name, table in random.items()}
    worse = {name: significant(table, "p_holm", 1) for name, table in tested.items()}
    assert all(significant(table, "p_holm", -1).empty for table in tested.values())
    assert "tracer-no-reassignment" in worse["mor"].index
    more = significant(rows(against("random-reassign", of), of, "mor", KEPT), "p_holm", 1)
    assert list(more.index) == ["tracer"]
    unmoved = [rates("tracer-no-reassignment", of, name).loc["tracer"] for name in ("tiger", "mor")]
    assert all(row["difference"] > 0 for row in unmoved)
    says(
        f"With TIGER none is shown to beat random IDs, which beat {len(worse['tiger'])} of {len(tested['tiger'])} "
        f"(Holm ≤ {bound(worse['tiger'].max())}); with `mor` they beat {len(worse['mor'])}, unmoved tokens included "
        f"(with twice the passes), but keep less than `tracer` (Holm {short(more['tracer'], 3)}). `tracer` leaves more "
        "than `tracer-no-reassignment` ({}, {}).".format(*(bound(row["p_holm"]) for row in unmoved))
    )
    choices = (
        read_choice(ROOT / f"leaderboard/tuned/industrial-entangled/mor/small/{row}.json")
        for row in ("random-reassign", "tracer-no-reassignment")
    )
    passes = [one.trials[one.chosen].config["epochs"] for one in choices]
    assert passes[0] == 2 * passes[1]


def test_without_the_most_frequent_target() -> None:
    without = "retain NDCG@10 without the most frequent target"
    to_original = sensitivity("industrial-brand", "tiger", "original", without)
    to_retrain = sensitivity("industrial-brand", "tiger", "retrain", without)
    less = [f"{-to_original['percent'][row]:.1f} %" for row in ("npo", "tracer", "retain-only")]
    says("`npo` keeps {} less than the original, `tracer` {}, `retain-only` {} (none after Holm".format(*less))
    assert significant(to_original, "p holm", -1).empty
    assert "equivalent" not in set(to_retrain["equivalence"])
    mor = sensitivity("industrial-brand", "mor", "retrain", without)
    assert set(mor["equivalence"]) == {"equivalent"}
    (other,) = to_retrain.index[to_retrain["equivalence"] == "different"]
    assert other == "wga"
    gain = to_retrain["its mean"].iloc[0] / to_original["its mean"].iloc[0] - 1
    assert abs(gain - 0.056) < 0.0014, "of means with four digits"
    says(
        "Then `retrain` gains 5.6 % (in the mean), `wga` is below it (Holm "
        f"{short(to_retrain['p holm']['wga'], 3)}), and none is shown equivalent; with `mor` all are."
    )


def test_each_threat_and_its_answer() -> None:
    of = "industrial-brand"

    def both(measure: str, row: str) -> str:
        return ", ".join(mean(of, backbone, measure, row)[0] for backbone in ("tiger", "mor"))

    for backbone in ("tiger", "mor"):
        served = rows(MAIN, of, backbone, "forget:hr@10/10")
        assert not any(by_seed(served["values"]["filter"]).values())
        assert not any(served["mean"][["filter", "relabel", "random-reassign"]])
    says(
        f"serves .0000 in every seed, untrained; kept {both(KEPT, 'filter')} (`original` {both(KEPT, 'original')})",
        f"left {both(LEFT, 'npo')} (`original` {both(LEFT, 'original')}), kept {both(KEPT, 'npo')}, in",
        f"`retain-only`) lowers forget HR@10 to {both(LEFT, 'retain-only')}.",
    )
    mor = rows(MAIN, of, "mor", LEFT)
    assert not any(by_seed(mor["values"]["blur"]).values())
    says(
        f"`blur` (.0000 in every seed) and `wga` ({short(mor['mean']['wga'])}) leave as little",
        "with `mor` `relabel` leaves {} of the original's {}.".format(*mean(of, "mor", LEFT, "relabel", "original")),
        "with TIGER they leave {} and {} and keep {} and {};".format(
            *mean(of, "tiger", LEFT, "tracer", "tracer-no-reassignment"),
            *mean(of, "tiger", KEPT, "tracer", "tracer-no-reassignment"),
        ),
    )


def test_default_configurations_and_other_floors() -> None:
    default = FLOORS[FLOORS["retain floor"] == "default"].set_index("method")
    assert set(default.groupby("method").size()) == {4}, "two tasks, two backbones"
    worst = default.groupby("method").agg({"forget HR@10": "max", "kept": "min"})
    good = worst[(worst["forget HR@10"] <= 0.013) & (worst["kept"] >= 0.97)]
    assert set(good.index) == {"wga", "tracer-no-reassignment"}
    npo = [short(kept, 2) for kept in (default["kept"]["npo"].min(), default["kept"]["npo"].max())]
    says(
        f"by default they leave at most {short(good['forget HR@10'].max())} on validation (one seed, both Industrial "
        f"tasks) and keep .97 or more; `npo` keeps {npo[0]} to {npo[1]} ("
    )
    floors = FLOORS[FLOORS["task"] == "industrial-brand"].set_index(["backbone", "method"])
    searched = floors[floors["retain floor"] != "default"]
    trials = searched["trial"].groupby(["backbone", "method"]).agg(["nunique", "count", "size"]).astype(int)
    kept_all = (trials["nunique"] == 1) & (trials["count"] == trials["size"])
    same = kept_all.groupby("method").all()
    assert set(same.index[same]) == {"npo", "blur", "grad-diff", "rmu", "pisces", "e2urec", *VARIANTS}
    says("`npo`, `blur`, `grad-diff`, `rmu`, `pisces`, `e2urec`, `tracer` and its variants would have the same")


def test_a_choice_that_hangs_on_few_hits() -> None:
    choice = read_choice(ROOT / "leaderboard/tuned/industrial-brand/tiger/small/influence.json")
    before = {"damping": 0.01, "scale": 3.0, "scope": "last"}
    taken, other = (
        choice.trials[choice.chosen],
        next(one for one in choice.trials if before.items() <= one.config.items()),
    )
    assert {**before, "damping": 0.1}.items() <= taken.config.items()
    assert len(taken.seeds[0].forget_hits) - len(other.seeds[0].forget_hits) == 3
    left = mean("industrial-brand", "tiger", LEFT, "influence")[0]
    says(f"got another damping over three validation hits and leaves {left} (.0033 before).")


def test_hits_and_concept_rates() -> None:
    of = "industrial-brand"
    runs = load_results(ROOT / "leaderboard/results", task=of, backbone=["tiger", "mor*"], suite="core")
    (counted,) = set(runs.query("metric == 'worst-case.hr@10' and group == 'forget' and beam == 10")["n"])
    hits = [round(counted * rows(MAIN, of, backbone, LEFT)["mean"]["original"]) for backbone in ("tiger", "mor")]
    says("among {} forget rows the original has {} with TIGER, {} with `mor`".format(counted, *hits))
    shown = {
        row: ", ".join(mean(of, backbone, RATE, row)[0] for backbone in ("tiger", "mor"))
        for row in ("npo", "tracer-no-reassignment", "tracer", "random-reassign", "retain-only", "original")
    }
    says("separates more: " + ", ".join(f"`{row}` {pair}" for row, pair in shown.items()))
    by_hits = significant(rows(against("retain-only"), of, "tiger", LEFT), "p_holm", -1)
    by_rates = significant(rates("retain-only", of, "tiger"), "p_holm", -1)
    assert set(by_hits.index) < set(by_rates.index), "separates more"
