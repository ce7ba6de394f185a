"""What docs/findings.md says of other backbones, shops and attackers, held against the published results."""

from __future__ import annotations

import json
from itertools import combinations

import pandas as pd

from genrec_unlearn_bench.pipeline.results import RECORD, read_record
from tests.reporting.statistics.findings_page import (
    ALL,
    FULL,
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
    short,
    significant,
)

NUMBERS = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
REFERENCES = {"original", "retrain", "popularity", "sasrec", "filter", "filter-history"}


def test_other_backbones() -> None:
    of, others = "industrial-brand", ("letter", "p5sid", "etegrec")

    def three(measure: str, row: str) -> list[str]:
        return [mean(of, backbone, measure, row)[0] for backbone in others]

    assert set(three(LEFT, "npo")) == {".0000"}
    says(
        "`npo` leaves .0000 of {}, {} and {} and keeps {}, {}, {} (`original` {}, {}, {})".format(
            *three(LEFT, "original"), *three(KEPT, "npo"), *three(KEPT, "original")
        ),
        f"`wga` leaves at most {max(three(LEFT, 'wga'))}, "
        f"`blur` {max(three(LEFT, 'blur'))}; `retain-only` {', '.join(three(LEFT, 'retain-only'))}.",
    )
    pairs = [
        [rows(ALL, of, backbone, measure)["mean"][["tracer", "tracer-no-reassignment"]] for backbone in others]
        for measure in (RATE, KEPT)
    ]
    rates, kept = ([means.iloc[0] / means.iloc[1] for means in of_measure] for of_measure in pairs)
    more = [short(100 * (share - 1), 1) for share in (min(kept), max(kept))]
    says(
        f"`tracer` has {min(rates):.1f} to {max(rates):.1f} times `tracer-no-reassignment`'s exposed CR@10, and keeps "
        f"{more[0]} to {more[1]} % more."
    )


SHOPS = ("toys-2014-brand", "sports-2014-brand", "steam-price")


def like_industrial(task: str, measure: str) -> float:
    """Spearman's correlation of methods' means with those on Industrial's random brands, `mor`."""
    tables = [rows(MAIN, name, "mor", measure) for name in (task, "industrial-brand")]
    methods = [row for row in tables[0].index.intersection(tables[1].index) if row not in REFERENCES]
    assert len(methods) == 14
    return tables[0]["mean"][methods].corr(tables[1]["mean"][methods], method="spearman")


def halves(task: str) -> list[float]:
    """The same between all halves of ten seeds, by what is kept and for the methods that Steam has."""
    found = rows(MAIN, task, "mor", KEPT)["values"]
    methods = [row for row in rows(MAIN, "steam-price", "mor", KEPT).index if row not in REFERENCES]
    kept = pd.DataFrame({row: by_seed(found[row]) for row in methods})
    half = [["0", *others] for others in combinations(kept.index[1:], 4)]
    return [kept.loc[one].mean().corr(kept.drop(one).mean(), method="spearman") for one in half]


def test_other_shops() -> None:
    left, kept = ([like_industrial(task, measure) for task in SHOPS] for measure in PRIMARY)
    agree = halves("industrial-brand")
    says(
        f"(Spearman {short(min(left), 2)} to {short(max(left), 2)}, 14 rows), by what is kept hardly "
        f"({short(min(kept), 2)} to {short(max(kept), 2)}; halves of Industrial's seeds {short(min(agree), 2)} to "
        f"{short(max(agree), 2)})"
    )
    toys = "toys-2014-brand"
    shown = ("npo", "tracer", "tracer-no-reassignment", "random-reassign", "retain-only")
    keep = mean(toys, "mor", KEPT, *shown)
    says(
        "On Toys `npo`, `tracer`, `tracer-no-reassignment`, `random-reassign` and `retain-only` leave at most "
        f"{max(mean(toys, 'mor', LEFT, *shown))} of {mean(toys, 'mor', LEFT, 'original')[0]} and keep {min(keep)} to "
        f"{max(keep)} (`retrain` {mean(toys, 'mor', KEPT, 'retrain')[0]}).",
        "on Toys `grad-diff` {} of {} (".format(*mean(toys, "mor", KEPT, "grad-diff", "original"))
        + f"{short(rows(MAIN, toys, 'mor', KEPT)['p_holm']['grad-diff'], 2)}).",
        "(where, as on Toys, primary measures separate nothing)",
        "(kept {}; `popularity` {})".format(*mean("steam-price", "mor", KEPT, "original", "popularity")),
    )
    for measure in PRIMARY:
        for task in ("steam-price", toys):
            table = rows(MAIN, task, "mor", measure)
            assert all(significant(table, "p_holm", sign).empty for sign in (-1, 1))
    places = [path for task in SHOPS[:2] for path in (ROOT / f"leaderboard/results/{task}/mor/original").rglob(RECORD)]
    shares = [read_record(path.parent).original_over_sasrec or 0 for path in places]
    assert len(shares) == 6
    says(f"Originals have {short(min(shares), 2)} to {short(max(shares), 2)} of SASRec's NDCG@10 on Toys and Sports.")


def test_sports() -> None:
    sports = ("sports-2014-brand", "mor")
    known = rows(MAIN, *sports, LEFT)
    methods = [row for row in known.index if row not in {*REFERENCES, "random-reassign"}]
    less = significant(known, "p_holm", -1)
    assert "retain-only" in less.index
    lost = significant(rows(MAIN, *sports, KEPT), "p_holm", -1)
    assert set(lost.index) == {"grad-diff", "repnoise"}
    says(
        "of Sports' {} `grad-diff` keeps {}, `repnoise` {} ".format(
            *mean(*sports, KEPT, "original", "grad-diff", "repnoise")
        )
        + f"(Holm ≤ {bound(lost.max())});",
        f"leaves {mean('steam-price', 'mor', LEFT, 'retain-only')[0]} on Steam** (where, as on Toys, primary measures "
        "separate nothing), **"
        f"{mean(*sports, LEFT, 'retain-only')[0]} of {mean(*sports, LEFT, 'original')[0]} on Sports**, where "
        f"{NUMBERS[len(less)]} of {len(methods)} methods leave significantly less (Holm ≤ "
        f"{bound(less.max())}; `npo` {mean(*sports, LEFT, 'npo')[0]}, keeps {mean(*sports, KEPT, 'npo')[0]})",
    )
    request = json.loads((ROOT / "leaderboard/results/manifests/sports-2014-brand.json").read_text(encoding="utf-8"))
    says(
        f"({len(request['concepts'])} brands, {len(request['forget_items']):,} items): `mor`, three seeds, same "
        "configurations."
    )
    assert set(by_seed(rows(ALL, *sports, KEPT)["values"]["npo"])) == {"0", "1", "2"}


ATTACKED = [
    *("task-vector", "wga", "npo", "tracer-no-reassignment", "random-reassign"),
    *("tracer", "relabel", "retain-only", "pisces"),
]


def unattacked() -> pd.Series:
    """Mean share of the original's lead over retrain that each row has before any attack, in its better kind of IDs."""
    found: dict[str, list[float]] = {}
    for path in FULL.glob("*/*/measurements/relearning.csv"):
        table = pd.read_csv(path).query("step == 0 and part == 'train'")
        score = {model: table[table["model"] == model]["hr@10"].max() for model in ("run", "original", "retrain")}
        lead = (score["run"] - score["retrain"]) / (score["original"] - score["retrain"])
        found.setdefault(path.parts[-4], []).append(lead)
    return pd.DataFrame(found).mean()


def attacked(row: str) -> float:
    """The highest HR@10 of trained forget interactions at any step of any attack on a row, in any seed."""
    tables = [pd.read_csv(path) for path in FULL.glob(f"{row}/*/measurements/relearning.csv")]
    found: float = pd.concat(tables).query("part == 'train' and model == 'run'")["hr@10"].max()
    return found


def test_what_attackers_recover() -> None:
    found = rows(ALL, "industrial-brand", "tiger", "forget:relearning.recoverable", "full")
    before = unattacked()
    written = {
        row: f"{short(found['mean'][row], 2)} ± {short(found['sd'][row], 2)} ({short(before[row], 2)})"
        for row in ATTACKED
    }
    assert set(found.index) == {*ATTACKED, "original", "retrain", "filter"}
    says(
        "share of the original's (in brackets: before any attack): "
        + ", ".join(f"`{row}` {number}" for row, number in written.items())
        + ".",
        f"none of nine methods empties the weights: attackers find {written['task-vector'][:3]} to "
        f"{written['pisces'][:3]} of what TIGER knew",
    )
    says(f"± is the sd; an attacked `retrain` hits at most {short(attacked('retrain'), 3)}.")
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
    of = "toys-2014-entangled"
    known = rows(MAIN, of, "mor", LEFT)
    methods = [row for row in known.index if row not in {*REFERENCES, "random-reassign"}]
    less = significant(known, "p_holm", -1)
    fewer = significant(rows(ALL, of, "mor", RATE), "p_holm", -1)
    left, shares = (mean(of, "mor", measure, "retain-only", "random-reassign") for measure in (LEFT, RATE))
    original = mean(of, "mor", LEFT, "original")[0], mean(of, "mor", RATE, "original")[0]
    p = bound(less.max()), short(known["p_holm"]["npo"], 3)
    says(
        f"{NUMBERS[len(less)]} of {len(methods)} methods leave significantly less of {original[0]} (Holm ≤ {p[0]}; "
        f"`npo` {p[1]}), by exposed CR@10 {NUMBERS[len(fewer)]} (≤ {bound(fewer.max())}); none is shown to beat "
        f"`retain-only` ({left[0]}; exposed CR@10 {shares[0]} of {original[1]}) or random IDs ({left[1]}; {shares[1]})."
    )
    for row in ("retain-only", "random-reassign"):
        assert significant(rates(row, of, "mor"), "p_holm", -1).empty
        table = against(row, of)
        assert significant(rows(table, of, "mor", LEFT), "p_holm", -1).empty
        assert significant(rows(table, of, "mor", KEPT), "p_holm", 1).empty
