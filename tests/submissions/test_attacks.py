"""What strangers tried to get past `bench verify`: names, titles, and tables of somebody else or of another seed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from genrec_unlearn_bench.submissions.bundle import load
from genrec_unlearn_bench.submissions.method_checks import skeleton
from genrec_unlearn_bench.submissions.publish import published_bytes, read_table
from genrec_unlearn_bench.submissions.table_checks import OTHER_SEED, SAME_SEED, hit_ranks, shared
from genrec_unlearn_bench.submissions.verification import DemoRun, published_sources, verify, write_verification
from tests.submissions import forging
from tests.submissions.forging import Record, first, is_refused, places, renewed, words
from tests.submissions.honest import METHOD, other_manifest, per_user

Attack = Callable[[Path, Path], None]
"""Changes the submission (first) and the leaderboard (second)."""


def in_method(old: str, new: str) -> Attack:
    """Edit the method's file and let every record name it."""

    def attack(folder: Path, leaderboard: Path) -> None:
        path = folder / "method.py"
        assert old in METHOD
        path.write_text(METHOD.replace(old, new), encoding="utf-8")
        digest = forging.file_digest(path)
        for place in (*places(folder), *places(folder, "demo-brand")):
            forging.record(place, forging.fields(method_digest=digest))

    return attack


def all_of(*attacks: Attack) -> Attack:
    def attack(folder: Path, leaderboard: Path) -> None:
        for one in attacks:
            one(folder, leaderboard)

    return attack


def named(name: str, *, row: str = "") -> Attack:
    """A method of some name throughout, whose first row may bear another."""

    def attack(folder: Path, leaderboard: Path) -> None:
        in_method('name = "mine"', f'name = "{name}"')(folder, leaderboard)
        words(folder, lambda content: content["method"].update(name=name))
        for number, place in enumerate((*places(folder), *places(folder, "demo-brand"))):
            called = row if row and not number else name
            forging.record(place, forging.fields(cell__method=called))
            place.parent.with_name(called).mkdir(exist_ok=True)
            place.rename(place.parent.with_name(called) / place.name)
        renewed(folder)

    return attack


def titled(title: str) -> Attack:
    return lambda folder, leaderboard: words(folder, lambda content: content.update(title=title))


def published(
    leaderboard: Path, like: Path, method: str, frame: pd.DataFrame, *, seed: int = 0, under: str = ""
) -> None:
    """Put a table on the leaderboard as a result of another method."""
    content: Record = json.loads((like / "result.json").read_text(encoding="utf-8"))
    content["cell"] = {**content["cell"], "method": method, "seed": seed}
    content["method_digest"] = skeleton(method).ljust(64, "0")
    place = leaderboard / under / "results" / "industrial-brand" / "tiger" / method / f"small-seed{seed}-0123456789"
    place.mkdir(parents=True)
    (place / "result.json").write_text(json.dumps(content), encoding="utf-8")
    (place / "per_user.parquet").write_bytes(published_bytes(frame))


def scattered(frame: pd.DataFrame, share: float, *, seed: int = 1) -> pd.DataFrame:
    """A copy in which some of the hits are lost, in rows that no other column speaks about."""
    hits = np.flatnonzero((frame["rank"] > 0).to_numpy() & (frame["original_rank"] < 0).to_numpy())
    lost = np.random.default_rng(seed).permutation(hits)[: max(1, int(share * len(hits)))]
    frame = frame.copy()
    frame.loc[lost, ["rank", "log_prob"]] = [0, np.nan]
    return frame


def copied(method: str, *, share: float = 0.0, seed: int = 0, under: str = "") -> Attack:
    """A published table under one's own name, a share of its ranks changed and every aggregate computed again."""

    def attack(folder: Path, leaderboard: Path) -> None:
        frame = per_user(other_manifest(), "theirs", method)
        published(leaderboard, first(folder), "original", per_user(other_manifest(), "before"), seed=seed)
        published(leaderboard, first(folder), method, frame, seed=seed, under=under)
        forging.table(first(folder), lambda own: scattered(frame, share) if share else frame, rescore=True)

    return attack


def copied_seed(share: float) -> Attack:
    """Seed 1 is seed 0 with a share of its ranks changed."""

    def attack(folder: Path, leaderboard: Path) -> None:
        one, other = places(folder)
        frame, _ = read_table((one / "per_user.parquet").read_bytes(), "table")
        forging.table(other, lambda own: scattered(frame, share), rescore=True)

    return attack


LOOKS = "looks like the name of the suite's own"
ATTACKS: dict[str, tuple[str, str, Attack]] = {
    "a row called retrain by retr": ("declared", "the result is of the method 'retrain'", named("retr", row="retrain")),
    "a row called original by orig": ("declared", "of the method 'original'", named("orig", row="original")),
    "a row called tracer by trac": ("declared", "of the method 'tracer'", named("trac", row="tracer")),
    "a row called mine-too, undeclared": ("declared", "of the method 'mine-too'", named("mine", row="mine-too")),
    "retrain as a declared variant": (
        "names",
        "looks like the name of the suite's own 'retrain'",
        in_method('name = "mine"', 'name = "mine"\n    variants = {"retrain": {}}'),
    ),
    "a digit for a letter": ("names", "'retra1n' looks like the name of the suite's own", named("retra1n")),
    "a hyphen more": ("names", "'grad--diff' looks like the name of the suite's own", named("grad--diff")),
    "a hyphen behind": ("names", "'tracer-' looks like the name of the suite's own", named("tracer-")),
    "two letters for one": ("names", "'sirnnpo' looks like the name of the suite's own", named("sirnnpo")),
    "the title TRACER": ("names", LOOKS, titled("TRACER")),
    "a title with an accent": ("names", LOOKS, titled("Trácer")),
    "a title in full width": ("names", LOOKS, titled("ＴＲＡＣＥＲ")),
    "a title in mathematical letters": ("names", LOOKS, titled("𝐑𝐞𝐭𝐫𝐚𝐢𝐧")),
    "a title of digits": ("names", LOOKS, titled("0r1g1nal")),
    "a title with Cyrillic letters": ("submission", "mixes the alphabets", titled("TRАСER")),
    "a title with a Greek letter": ("submission", "mixes the alphabets", titled("Rεtrain")),
    "a title with a zero-width space": ("submission", "invisible character U+200B", titled("TRA\u200bCER")),
    "a title with a joiner": ("submission", "invisible character U+200D", titled("TRA\u200dCER")),
    "a title with a soft hyphen": ("submission", "invisible character U+00AD", titled("TRA\u00adCER")),
    "a title that runs backwards": ("submission", "invisible character U+202E", titled("\u202eRECART")),
    "retrain's table, relabelled": ("copies", "the table is that of results/industrial-brand", copied("retrain")),
    "tracer's table, relabelled": ("copies", "tiger/tracer/small-seed0-0123456789: 100%", copied("tracer")),
    "retrain's table with one rank changed": ("copies", "the table is that of", copied("retrain", share=1e-9)),
    "tracer's table, one rank in twenty changed": ("copies", "the table is that of", copied("tracer", share=0.05)),
    "retrain's other seed": ("copies", "tiger/retrain/small-seed7", copied("retrain", seed=7, share=0.2)),
    "another submission's table": (
        "copies",
        "the table is that of submissions/theirs/results",
        copied("hers", under="submissions/theirs"),
    ),
    "a seed copied, one rank changed": ("twins", "the seeds 0 and 1 have the same lists: 99%", copied_seed(1e-9)),
    "a seed copied, a third of it changed": ("twins", "the seeds 0 and 1 have the same lists", copied_seed(0.33)),
    "a lint's way around: an alias": (
        "method-file",
        "uses serialization",
        in_method("from __future__ import annotations\n", "import torch as t\n\nX = t.serialization.io.FileIO\n"),
    ),
    "a lint's way around: builtins": (
        "method-file",
        "uses __builtins__",
        in_method("return recommender", 'return __builtins__["open"]("x")'),
    ),
}


@pytest.mark.parametrize("what", ATTACKS)
def test_is_refused(what: str, folder: Path, home: Path, tmp_path: Path) -> None:
    check, message, attack = ATTACKS[what]
    leaderboard = Path(shutil.copytree(home / "leaderboard", tmp_path / "leaderboard"))
    attack(folder, leaderboard)
    is_refused(folder, leaderboard, check=check, message=message)


def test_a_declared_variant_is_welcome(folder: Path, leaderboard: Path) -> None:
    in_method('name = "mine"', 'name = "mine"\n    variants = {"mine-too": {}}')(folder, leaderboard)
    for place in places(folder):
        forging.record(place, forging.fields(cell__method="mine-too"))
        place.parent.with_name("mine-too").mkdir(exist_ok=True)
        place.rename(place.parent.with_name("mine-too") / place.name)
    renewed(folder)
    found = verify(load(folder, leaderboard))
    assert found.passed, [fault.text() for fault in found.faults]


def test_a_method_without_effect_is_no_copy(folder: Path, home: Path, tmp_path: Path) -> None:
    """It gives the original's lists, as do other methods without effect."""
    leaderboard = Path(shutil.copytree(home / "leaderboard", tmp_path / "leaderboard"))
    frame, _ = read_table((first(folder) / "per_user.parquet").read_bytes(), "table")
    for method in ("original", "pisces"):
        published(leaderboard, first(folder), method, frame)
    found = verify(load(folder, leaderboard))
    assert found.passed, [fault.text() for fault in found.faults]


@pytest.mark.parametrize("known", [True, False], ids=["originals published", "originals unknown"])
def test_favouring_the_same_few_items_is_no_copy(folder: Path, home: Path, tmp_path: Path, known: bool) -> None:
    """Where all models favour the same items, only what changes from the originals tells one table from another."""
    leaderboard = Path(shutil.copytree(home / "leaderboard", tmp_path / "leaderboard"))
    popular = per_user(other_manifest(), "popular")
    ranks = [hit_ranks(scattered(popular, 0.2, seed=seed)) for seed in range(3)]
    assert all(shared(*pair) > OTHER_SEED for pair in combinations(ranks, 2))
    for seed, place in enumerate(places(folder)):
        forging.table(place, lambda own, seed=seed: scattered(popular, 0.2, seed=seed), rescore=True)
    published(leaderboard, first(folder), "npo", scattered(popular, 0.2, seed=2), seed=7)
    for seed in (0, 1, 7) if known else ():
        published(leaderboard, first(folder), "original", popular, seed=seed)
    found = verify(load(folder, leaderboard))
    assert {name for name in ("twins", "copies") if found.checks[name]} == (set() if known else {"twins", "copies"})


@pytest.mark.slow
def test_no_honest_pair_of_the_published_tables_comes_near() -> None:
    """Ablations of one method aside, which belong to one submission."""
    root = Path(__file__).parents[2] / "leaderboard" / "results"
    tables: dict[tuple[Any, ...], Any] = {}
    for path in sorted(root.rglob("per_user.parquet")):
        task, backbone, method, run = path.relative_to(root).parts[:4]
        frame, _ = read_table(path.read_bytes(), path.name)
        tables[task, backbone, method, run.split("-")[1]] = hit_ranks(frame)
    originals, seeds, methods = [0.0], [0.0], [0.0]
    for (task, backbone, method, seed), ranks in tables.items():
        for (*place, theirs, other), others in tables.items():
            if place != [task, backbone] or "popularity" in {method, theirs}:
                continue
            pair = (tables[task, backbone, "original", seed], tables[task, backbone, "original", other])
            related = theirs.startswith("tracer") and method.startswith("tracer")
            if other > seed and "original" in {method, theirs}:
                originals.append(shared(ranks, others))
            elif other > seed:
                seeds.append(shared(ranks, others, pair))
            elif other == seed and theirs > method and not related and "original" not in {method, theirs}:
                methods.append(shared(ranks, others, pair))
    assert 0.2 < max(seeds) < OTHER_SEED - 0.1
    assert 0.2 < max(originals) < OTHER_SEED - 0.1
    assert 0.35 < max(methods) < SAME_SEED - 0.1


def test_the_badge_names_what_was_run_again(folder: Path, leaderboard: Path, tmp_path: Path) -> None:
    found = verify(load(folder, leaderboard))
    run = DemoRun(place="results/demo-brand/tiger/mine/smoke-seed0", matches=True, sandboxed=True)
    assert found.with_demo(run).badge_text == "reproduced: 1 of 4 cells"
    trusting = found.with_demo(run.model_copy(update={"sandboxed": False}))
    assert trusting.badge_text == "reproduced: 1 of 4 cells, re-run without a sandbox"
    slow = run.model_copy(update={"time_fault": "unlearning took 90 s, and the record says 2.5 s"})
    assert "unlearning took 90 s" in found.with_demo(slow).notices[-1]
    assert found.badge_text == "re-scored"
    board = tmp_path / "board" / "submissions"
    shutil.copytree(folder, board / "mine")
    write_verification(board / "mine", trusting)
    ((source, _),) = published_sources(board.parent)
    assert source.badge_text == trusting.badge_text


@pytest.mark.parametrize("text", ["TRACER", "tracer", "tr-acer", "trасеr", "ＴＲＡＣＥＲ", "TRÁCER", "tra\u200bcer"])
def test_what_looks_alike_has_one_skeleton(text: str) -> None:
    assert skeleton(text) == skeleton("tracer")
    assert skeleton(text) != skeleton("tracker")
