"""What docs/findings.md says, held against the published results: which rows, with which p, and their numbers."""

from __future__ import annotations

import math
from pathlib import Path

import pandas as pd
import pytest

from genrec_unlearn_bench.api import compare, load_results
from genrec_unlearn_bench.reporting.formats.csv_tables import LONG_COLUMNS, long_rows
from genrec_unlearn_bench.submissions.result_set import load_result_set

ROOT = Path(__file__).parents[3]
PAGE = " ".join((ROOT / "docs/findings.md").read_text(encoding="utf-8").split())
MAIN, ATTACK, EFFICIENCY = (
    pd.read_csv(ROOT / f"leaderboard/site/tables/{name}-long.csv", keep_default_na=False, na_values=[""])
    for name in ("main", "attack", "efficiency")
)
ALL = pd.concat([MAIN, ATTACK]).drop_duplicates(["task", "backbone", "setup", "row", "measure"])
FULL = ROOT / "leaderboard/results/industrial-brand/tiger"
SENSITIVITY = pd.read_csv(ROOT / "docs/statistics/sensitivity.csv")
FLOORS = pd.read_csv(ROOT / "docs/statistics/floors.csv")
LEFT, KEPT, EXPOSED = "forget:worst-case.hr@10/10", "retain:ndcg@10/10", "exposed CR@10"
RATE = "forget:exposed.concept-rate@10/10"
PRIMARY = [LEFT, KEPT]


def says(*fragments: str) -> None:
    for fragment in fragments:
        assert fragment in PAGE, fragment


def bound(p: float) -> str:
    """The least p of three digits that is not below it."""
    return short(math.ceil(1000 * p) / 1000, 3)


def short(number: float, digits: int = 4) -> str:
    """As the page writes it: .0123, −.0012."""
    return f"{number:.{digits}f}".replace("0.", ".").replace("-", "−")


def rows(table: pd.DataFrame, task: str, backbone: str, measure: str, suite: str = "core") -> pd.DataFrame:
    of_suite = table["setup"].isna() if suite == "core" else table["setup"] == f"suite {suite}"
    found = table[(table["task"] == task) & table["backbone"].str.startswith(backbone) & of_suite]
    return found[found["measure"] == measure].set_index("row")


def exposed(task: str, backbone: str, against: str, measure: str = EXPOSED) -> pd.DataFrame:
    blocks = SENSITIVITY[SENSITIVITY["block"] == f"{task} {backbone}"]
    return blocks[(blocks["measure"] == measure) & (blocks["against"] == against)].set_index("row")


def significant(table: pd.DataFrame, column: str, sign: int) -> pd.Series:
    """Holm's p of the rows whose difference has this sign and whose p is below .05, by row."""
    found = table[(table[column] < 0.05) & (sign * table["difference"] > 0)]
    return found[column]


def by_seed(values: str) -> dict[str, float]:
    """The column ``values``: 0=0.315 1=0.369."""
    return {seed: float(value) for seed, value in (pair.split("=") for pair in values.split())}


def against(baseline: str, task: str = "industrial-brand") -> pd.DataFrame:
    """The rows of ``bench leaderboard --baseline`` of a task, by default Industrial's random brands."""
    results = load_result_set([ROOT / "leaderboard/results" / task], published=False, skip_broken=False)
    report = results.report({"suite": ("core",)}, "main", baseline=baseline)
    found = pd.DataFrame(long_rows(report.tables), columns=list(LONG_COLUMNS))
    return found.assign(setup=found["setup"].where(found["setup"] != ""))


REFERENCES = {"original", "retrain", "popularity", "sasrec", "filter", "filter-history"}
VARIANTS = {"tracer", "tracer-no-reassignment", "tracer-zero-phi"}


@pytest.mark.parametrize("backbone", ["tiger", "mor"])
def test_npo_is_equivalent_to_retrain(backbone: str) -> None:
    says("is equivalent to `retrain` on both primary measures", "on both measures equivalent to `retrain`")
    for measure in PRIMARY:
        assert rows(MAIN, "industrial-brand", backbone, measure).loc["npo", "equivalence"] == "equivalent"


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
        "With `mor` `npo`, `blur`, `rmu`, `tracer` and its variants, `wga`, `task-vector`, `scrub`, `grad-ascent` "
        f"(Holm ≤ {bound(mor.drop('undial').max())}) and `undial` ({short(mor['undial'], 3)}) leave less"
    )
    assert set(mor.index) == {"npo", "blur", "rmu", "wga", "task-vector", "scrub", "grad-ascent", "undial", *VARIANTS}
    table = rows(known, "industrial-brand", "tiger", LEFT)
    tiger = significant(table, "p_holm", -1)
    assert set(tiger.index) == {"influence", "task-vector"}
    says(
        f"only `influence` ({short(tiger['influence'], 3)}) and `task-vector` ({short(tiger['task-vector'], 3)}) are "
        f"shown to; `npo` ({short(table['p_holm']['npo'], 3)}), `wga`, `blur`, `simnpo`, `tracer` and its variants do "
        "in every seed"
    )
    values = {row: by_seed(text) for row, text in rows(MAIN, "industrial-brand", "tiger", LEFT)["values"].items()}
    for row in ("npo", "wga", "blur", "simnpo", *VARIANTS):
        assert all(value < values["retain-only"][seed] for seed, value in values[row].items()), row


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
        f"in {unlearn['tiger', 'npo']} and {unlearn['mor', 'npo']} s",
    )


def test_concept_rates_against_retain_examples_alone() -> None:
    tiger = significant(exposed("industrial-brand", "tiger", "retain-only"), "p holm", -1)
    listed = ["npo", "blur", "grad-diff", "wga", "influence", "task-vector", *VARIANTS]
    assert set(tiger.index) == {*listed, "simnpo", "relabel"}
    says(
        "By it TIGER's `npo`, `blur`, `grad-diff`, `wga`, `influence`, `task-vector`, `tracer` and its variants beat "
        f"`retain-only` (Holm ≤ {bound(tiger[listed].max())}), and `simnpo` and `relabel` "
        f"(≤ {bound(tiger.max())})"
    )
    mor = significant(exposed("industrial-entangled", "mor", "retain-only"), "p holm", -1)
    assert set(mor.index) == {"npo", "tracer-no-reassignment", "grad-diff", "undial", "wga"}
    says(
        "There `npo`, `tracer-no-reassignment`, `grad-diff`, `undial` and `wga` beat `retain-only` "
        f"(≤ {bound(mor.max())})"
    )


def test_entangled_brands() -> None:
    tiger = significant(rows(MAIN, "industrial-entangled", "tiger", LEFT), "p_holm", -1)
    assert set(tiger.index) == {"npo", "relabel", "influence"}
    says(f"leave significantly less (Holm ≤ {bound(tiger.max())}), with `mor` none")
    assert significant(rows(MAIN, "industrial-entangled", "mor", LEFT), "p_holm", -1).empty
    random = {name: exposed("industrial-entangled", name, "random-reassign") for name in ("tiger", "mor")}
    better = significant(random["tiger"], "p holm", -1)
    worse = {name: len(significant(table, "p holm", 1)) for name, table in random.items()}
    assert list(better.index) == ["npo"]
    assert worse["mor"] == len(random["mor"])
    says(
        f"only `npo` is shown to beat random IDs (Holm {short(better['npo'], 3)}), which beat {worse['tiger']} of "
        f"{len(random['tiger'])}; with `mor` they beat all"
    )
    kept = rows(MAIN, "industrial-entangled", "mor", KEPT)["mean"][random["mor"].index]
    own = rows(MAIN, "industrial-entangled", "mor", KEPT)["mean"]["random-reassign"]
    says(f"but keep less than {(kept > own).sum()}.")


def test_without_the_most_frequent_target() -> None:
    without = "retain NDCG@10 without the most frequent target"
    to_original = exposed("industrial-brand", "tiger", "original", without)
    to_retrain = exposed("industrial-brand", "tiger", "retrain", without)
    less = [f"{-to_original['percent'][row]:.1f} %" for row in ("npo", "tracer", "retain-only")]
    says("`npo` keeps {} less than the original, `tracer` {}, `retain-only` {} (none after Holm".format(*less))
    assert significant(to_original, "p holm", -1).empty
    assert "equivalent" not in set(to_retrain["equivalence"])
    mor = exposed("industrial-brand", "mor", "retrain", without)
    assert set(mor["equivalence"]) == {"equivalent"}
    says("no method is equivalent to it; with `mor` every method is")


def mean(task: str, backbone: str, measure: str, *names: str, suite: str = "core") -> list[str]:
    """Means of rows in a task's tables as the page writes them."""
    found = rows(ALL, task, backbone, measure, suite)["mean"]
    return [short(found[name]) for name in names]


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
        f"`blur` (.0000 in every seed) and `wga` ({short(mor['mean']['wga'])}) do as well",
        "with `mor` `relabel` leaves {} of the original's {}.".format(*mean(of, "mor", LEFT, "relabel", "original")),
        "with TIGER they leave {} and {} and keep {} and {};".format(
            *mean(of, "tiger", LEFT, "tracer", "tracer-no-reassignment"),
            *mean(of, "tiger", KEPT, "tracer", "tracer-no-reassignment"),
        ),
    )


def test_default_configurations_and_other_floors() -> None:
    floors = FLOORS[FLOORS["task"] == "industrial-brand"].set_index(["backbone", "method"])
    default = floors[floors["retain floor"] == "default"]
    safe = default.loc[[(b, m) for b in ("tiger", "mor") for m in ("tracer-no-reassignment", "tracer", "wga")]]
    assert (safe["kept"] >= 0.97).all()
    says(f"they leave at most {short(safe['forget HR@10'].max())} on validation and keep .97 or more")
    kept = {(b, m): short(default["kept"][b, m], 2) for b in ("tiger", "mor") for m in ("npo", "grad-diff")}
    says(
        f"`npo` keeps {kept['tiger', 'npo']}, {kept['mor', 'npo']}, "
        f"`grad-diff` {kept['tiger', 'grad-diff']}, {kept['mor', 'grad-diff']}"
    )
    searched = floors[floors["retain floor"] != "default"]
    trials = searched["trial"].groupby(["backbone", "method"]).agg(["nunique", "count", "size"]).astype(int)
    kept_all = (trials["nunique"] == 1) & (trials["count"] == trials["size"])
    same = kept_all.groupby("method").all()
    assert set(same.index[same]) == {"npo", "blur", "grad-diff", "rmu", "pisces", "e2urec", *VARIANTS}
    says("`npo`, `blur`, `grad-diff`, `rmu`, `pisces`, `e2urec`, `tracer` and its variants would have the same")


def test_hits_and_concept_rates() -> None:
    of = "industrial-brand"
    runs = load_results(ROOT / "leaderboard/results", task=of, backbone=["tiger", "mor*"], suite="core")
    (counted,) = set(runs.query("metric == 'worst-case.hr@10' and group == 'forget' and beam == 10")["n"])
    hits = [round(counted * rows(MAIN, of, backbone, LEFT)["mean"]["original"]) for backbone in ("tiger", "mor")]
    says("among {} forget rows the original has {} with TIGER, {} with `mor`".format(counted, *hits))
    rates = {
        row: ", ".join(mean(of, backbone, RATE, row)[0] for backbone in ("tiger", "mor"))
        for row in ("npo", "tracer-no-reassignment", "tracer", "random-reassign", "retain-only", "original")
    }
    says("separates more: " + ", ".join(f"`{row}` {pair}" for row, pair in rates.items()))
    by_hits = significant(rows(against("retain-only"), of, "tiger", LEFT), "p_holm", -1)
    by_rates = significant(exposed(of, "tiger", "retain-only"), "p holm", -1)
    assert set(by_hits.index) < set(by_rates.index), "separates more"


def test_other_backbones() -> None:
    of, others = "industrial-brand", ("letter", "p5sid", "etegrec")

    def three(measure: str, row: str) -> list[str]:
        return [mean(of, backbone, measure, row)[0] for backbone in others]

    assert set(three(LEFT, "npo")) == {".0000"}
    says(
        "`npo` leaves .0000 of {}, {} and {} and keeps {}, {}, {} (`original` {}, {}, {})".format(
            *three(LEFT, "original"), *three(KEPT, "npo"), *three(KEPT, "original")
        ),
        f"`wga` and `influence` leave at most {max(three(LEFT, 'wga') + three(LEFT, 'influence'))}, "
        f"`blur` {max(three(LEFT, 'blur'))}; `retain-only` {', '.join(three(LEFT, 'retain-only'))}.",
        "leaves more exposed (CR@10 {}, {}, {}; {}, {}, {})".format(
            *three(RATE, "tracer"), *three(RATE, "tracer-no-reassignment")
        ),
    )
    idle = ["flat", "repnoise", "grad-ascent", "e2urec", "pisces"]
    share = {}
    for backbone in ("tiger", *others):
        left = rows(MAIN, of, backbone, LEFT)["mean"]
        share[backbone] = left[idle].min() / left["original"]
    least = short(share["tiger"], 2), short(min(share[backbone] for backbone in others), 2)
    says("{} or more of the original's is left) hardly does here: {} or more.".format(*least))


def test_other_shops() -> None:
    toys, of = "toys-2014-brand", "industrial-brand"
    for measure, rank in ((LEFT, "(Spearman {}, {} rows)"), (KEPT, "not by what is kept ({})")):
        tables = [rows(MAIN, task, "mor", measure) for task in (toys, of)]
        methods = [row for row in tables[0].index.intersection(tables[1].index) if row not in REFERENCES]
        rho = tables[0]["mean"][methods].corr(tables[1]["mean"][methods], method="spearman")
        says(rank.format(short(rho, 2), len(methods)))
    left = dict(
        zip(
            names := ("original", "npo", "tracer", "tracer-no-reassignment", "random-reassign", "retain-only"),
            mean(toys, "mor", LEFT, *names),
            strict=True,
        )
    )
    assert left["tracer"] == left["tracer-no-reassignment"]
    kept = mean(toys, "mor", KEPT, *names[1:])
    says(
        f"Of {left['original']} `npo` leaves {left['npo']}, `tracer` and `tracer-no-reassignment` {left['tracer']}, "
        f"`random-reassign` {left['random-reassign']}, `retain-only` {left['retain-only']}; all keep {min(kept)} to "
        f"{max(kept)} (`original` {mean(toys, 'mor', KEPT, 'original')[0]}, `retrain` "
        f"{mean(toys, 'mor', KEPT, 'retrain')[0]}).",
        "on Toys `grad-diff` keeps only {}, `blur` {};".format(*mean(toys, "mor", KEPT, "grad-diff", "blur")),
    )
    for measure in PRIMARY:
        assert mean(toys, "mor", measure, "pisces") == mean(toys, "mor", measure, "original")
    assert set(mean("steam-price", "mor", LEFT, "retain-only", "npo", "blur", "tracer")) == {".0000"}
    says("(kept {}; `popularity` {})".format(*mean("steam-price", "mor", KEPT, "original", "popularity")))


ATTACKED = [
    *("task-vector", "wga", "npo", "tracer-no-reassignment", "random-reassign"),
    *("tracer", "relabel", "retain-only", "pisces"),
]


def test_what_attackers_recover() -> None:
    found = rows(ALL, "industrial-brand", "tiger", "forget:relearning.recoverable", "full")
    written = {row: f"{short(found['mean'][row], 2)} ± {short(found['sd'][row], 2)}" for row in ATTACKED}
    assert set(found.index) == {*ATTACKED, "original", "retrain", "filter"}
    says(
        "share of the original's: " + ", ".join(f"`{row}` {number}" for row, number in written.items()) + ".",
        f"none of nine methods empties the weights: attackers find {written['task-vector'][:3]} to "
        f"{written['pisces'][:3]} of what TIGER knew",
    )
    auc = rows(ALL, "industrial-brand", "tiger", "forget:membership.auc.loss", "full")["mean"]
    probes = rows(ALL, "industrial-brand", "tiger", "probing.auroc.pooled", "full")["mean"]
    says(
        "LOSS AUC is {} for `original` and {} for `retrain`, but {} for `npo`, {} for `wga`, {} for `retain-only`. "
        "`random-reassign` has {} in new IDs".format(
            *(short(auc[row], 3) for row in ("original", "retrain", "npo", "wga", "retain-only", "random-reassign"))
        ),
        f"the original's (AUROC {short(probes['original'], 2)}) included",
    )
    back = rows(ALL, "industrial-brand", "tiger", "forget:quantisation.recovery.int4", "full")["mean"]
    assert 0.05 < back.max() <= 0.06
    test_rows = rows(MAIN, "industrial-brand", "tiger", LEFT, "full")["mean"]
    tables = (pd.read_csv(path).assign(row=path.parts[-4]) for path in FULL.glob("*/*/measurements/relearning.csv"))
    steps = pd.concat(tables).query("model == 'run' and step == 0 and part == 'train'")
    spaces = steps.groupby(["row", "space"])["hr@10"].mean().unstack()
    shared = spaces["original"].fillna(spaces["served"])
    shown = ("original", "retain-only", "tracer", "npo")
    says(
        "in the original IDs, before any attack, is {} (`original`), {} (`retain-only`), {} (`tracer`) and {} (`npo`); "
        "of test rows {}, {}, {} and {}.".format(
            *(short(shared[row], 3) for row in shown), *(short(test_rows[row]) for row in shown)
        )
    )


def test_entangled_brands_of_toys() -> None:
    of, methods = "toys-2014-entangled", {"npo", "relabel", "retain-only", "tracer", "tracer-no-reassignment"}
    known = rows(MAIN, of, "mor", LEFT)
    less = significant(known, "p_holm", -1)
    assert set(less.index) == methods
    assert set(known.index) == {*methods, "original", "retrain", "filter", "random-reassign"}
    left, rates = (mean(of, "mor", measure, "retain-only", "random-reassign") for measure in (LEFT, RATE))
    original = mean(of, "mor", LEFT, "original")[0], mean(of, "mor", RATE, "original")[0]
    p = bound(less.max())
    says(
        f"all five methods leave significantly less of {original[0]} (Holm ≤ {p}); none is shown to beat "
        f"`retain-only` ({left[0]}; exposed CR@10 {rates[0]} of {original[1]}) or random IDs ({left[1]}; {rates[1]})."
    )
    for row in ("retain-only", "random-reassign"):
        assert significant(exposed(of, "mor", row), "p holm", -1).empty
        table = against(row, of)
        assert significant(rows(table, of, "mor", LEFT), "p_holm", -1).empty
        assert significant(rows(table, of, "mor", KEPT), "p_holm", 1).empty
