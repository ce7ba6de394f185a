"""What docs/findings.md says of other backbones, shops and attackers, held against the published results."""

from __future__ import annotations

import json

import pandas as pd

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
        "has a higher exposed CR@10 than `tracer-no-reassignment` ({}, {}, {}; {}, {}, {})".format(
            *three(RATE, "tracer"), *three(RATE, "tracer-no-reassignment")
        ),
    )


def test_other_shops() -> None:
    toys, of = "toys-2014-brand", "industrial-brand"
    for measure, rank in ((LEFT, "(Spearman {}, {} rows)"), (KEPT, "not by what is kept ({};")):
        tables = [rows(MAIN, task, "mor", measure) for task in (toys, of)]
        methods = [row for row in tables[0].index.intersection(tables[1].index) if row not in REFERENCES]
        rho = tables[0]["mean"][methods].corr(tables[1]["mean"][methods], method="spearman")
        says(rank.format(short(rho, 2), len(methods)))
    kept = pd.DataFrame({row: by_seed(text) for row, text in rows(MAIN, of, "mor", KEPT)["values"][methods].items()})
    halves = kept.loc["0":"4"].mean().corr(kept.loc["5":"9"].mean(), method="spearman")  # type: ignore[misc]
    says(f"Industrial's seeds 0–4 and 5–9 agree at {short(halves, 2)}")
    left = dict(
        zip(
            names := ("original", "npo", "tracer", "tracer-no-reassignment", "random-reassign", "retain-only"),
            mean(toys, "mor", LEFT, *names),
            strict=True,
        )
    )
    assert left["tracer"] == left["tracer-no-reassignment"]
    keep = mean(toys, "mor", KEPT, *names[1:])
    says(
        f"Of {left['original']} `npo` leaves {left['npo']}, `tracer` and `tracer-no-reassignment` {left['tracer']}, "
        f"`random-reassign` {left['random-reassign']}, `retain-only` {left['retain-only']}; all keep {min(keep)} to "
        f"{max(keep)} (`original` {mean(toys, 'mor', KEPT, 'original')[0]}, `retrain` "
        f"{mean(toys, 'mor', KEPT, 'retrain')[0]}).",
        "on Toys `grad-diff` keeps {}, `blur` {};".format(*mean(toys, "mor", KEPT, "grad-diff", "blur")),
    )
    for measure in PRIMARY:
        assert mean(toys, "mor", measure, "pisces") == mean(toys, "mor", measure, "original")
        steam = rows(MAIN, "steam-price", "mor", measure)
        assert all(significant(steam, "p_holm", sign).empty for sign in (-1, 1))
    assert set(mean("steam-price", "mor", LEFT, "retain-only", "npo", "blur", "tracer")) == {".0000"}
    says("(kept {}; `popularity` {})".format(*mean("steam-price", "mor", KEPT, "original", "popularity")))


def test_sports() -> None:
    sports = ("sports-2014-brand", "mor")
    pisces, original = (by_seed(rows(ALL, *sports, KEPT)["values"][row]) for row in ("pisces", "original"))
    assert pisces["1"] == original["1"]
    known = rows(MAIN, *sports, LEFT)
    methods = [row for row in known.index if row not in {*REFERENCES, "random-reassign"}]
    less = significant(known, "p_holm", -1)
    assert "retain-only" in less.index
    says(
        "of Sports' {} `grad-diff` {},".format(*mean(*sports, KEPT, "original", "grad-diff")),
        f"`pisces` {short(pisces['0'])}, all, {short(pisces['2'])} (by seed).",
        "leaves .0000 on Steam** (no test separates methods), **"
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
