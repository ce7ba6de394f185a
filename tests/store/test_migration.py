"""Stages of key version 1 come to the keys that runs ask for, with nothing computed and nothing lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from genrec_unlearn_bench.files import write_json
from genrec_unlearn_bench.pipeline.cache import migration
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.store.inventory import entries
from genrec_unlearn_bench.store.migration import migrate
from genrec_unlearn_bench.store.stage_manifest import KEY_FILE, MANIFEST, verified
from genrec_unlearn_bench.store.store import StageStore
from genrec_unlearn_bench.store.version1 import Code, beginnings, key_of_version_1
from tests.pipeline.conftest import Bench

CODE = Code()


def written_by_version_1(root: Path, name: str, told: dict[str, Any], beginning: tuple[str, ...] | None) -> Path:
    """A stage as the code of version 1 stored it."""
    if beginning is not None:
        told = {**told, "code": CODE.listings(beginning)[0]}
    key = key_of_version_1(name, told)
    stored = StageStore(root / "scratch").stage(name, {"told": json.dumps(told)}, compute_of(name))
    folder = root / name / key[:2] / key
    folder.parent.mkdir(parents=True, exist_ok=True)
    manifest = json.loads((stored.path / MANIFEST).read_text())
    old = {field: manifest[field] for field in ("stage", "digest", "seconds", "files", "account")}
    stored.path.rename(folder)
    write_json(folder / MANIFEST, {"key": key, **old})
    write_json(folder / KEY_FILE, {"content": told, "key_version": 1, "stage": name})
    return folder


def compute_of(name: str) -> Callable[[Path], dict[str, Any]]:
    def work(folder: Path) -> dict[str, Any]:
        (folder / "model").mkdir()
        (folder / "model" / "weights.bin").write_text(name * 100)
        return {"seconds": 3.0, "peak_memory_mib": 1.0}

    return work


CONTENTS: list[tuple[str, dict[str, Any], tuple[str, ...] | None]] = [
    ("task", {"task": "demo-brand", "version": 1, "dataset": "ab"}, None),
    ("popularity", {"dataset": "ab"}, next(beginnings("popularity", {}))),
    ("features", {"dataset": "ab", "encoder": "tfidf"}, next(beginnings("features", {}))),
    ("sasrec", {"dataset": "ab", "seed": 0}, next(beginnings("sasrec", {}))),
]


@pytest.fixture
def old_store(tmp_path: Path) -> Path:
    root = tmp_path / "cache"
    for name, told, beginning in CONTENTS:
        written_by_version_1(root, name, told, beginning)
    shutil.rmtree(root / "scratch")
    return root


def asked(name: str, told: dict[str, Any], beginning: tuple[str, ...] | None) -> dict[str, Any]:
    """What today's code asks for."""
    return told if beginning is None else {**told, "code": CODE.listings(beginning)[1]}


def test_every_stage_is_found_under_its_new_key_in_the_same_files(old_store: Path) -> None:
    found = migrate(old_store, Progress())
    assert found.counts == {"same key": 1, "carried": 3}
    assert found.left == {}
    for name, told, beginning in CONTENTS:
        stage = StageStore(old_store).find(name, asked(name, told, beginning))
        assert stage is not None, name
        assert stage.seconds > 0
        assert stage.account["seconds"] == 3.0
        if beginning is not None:
            first = StageStore(old_store).known(name, stage.was)
            assert first is not None, "records know it by its old key"
            assert first.digest == stage.digest
            assert stage.identity == first.key
            files = [one.path / "model" / "weights.bin" for one in (first, stage)]
            assert files[0].samefile(files[1])


def test_it_may_be_given_again_and_only_said(old_store: Path) -> None:
    before = sorted(old_store.rglob("*"))
    assert migrate(old_store, Progress(), dry_run=True).counts == {"same key": 1, "carried": 3}
    assert sorted(old_store.rglob("*")) == before
    migrate(old_store, Progress())
    assert migrate(old_store, Progress()).counts == {"same key": 1, "already there": 3}


def test_it_goes_on_after_a_kill(old_store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    links = 0
    real = migration.os.link

    def dying(*arguments: Any) -> None:
        nonlocal links
        links += 1
        if links == 2:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(migration.os, "link", dying)
    with pytest.raises(KeyboardInterrupt):
        migrate(old_store, Progress())
    assert migrate(old_store, Progress()).counts == {"same key": 1, "already there": 1, "carried": 2}
    for entry in entries(old_store):
        verified(entry.path, entry.name, entry.key)


def test_what_cannot_be_carried_stays_and_is_counted_with_its_reason(old_store: Path) -> None:
    listing = {**CODE.listings(next(beginnings("features", {})))[0]}
    changed = next(module for module in listing if module.endswith("encode_items"))
    for told in (
        {"dataset": "1", "code": {**listing, changed: "00"}},
        {"dataset": "2", "code": {"mine": "00"}},
        {"dataset": "3", "code": listing | {"genrec_unlearn_bench.seeding": "00"}},
    ):
        written_by_version_1(old_store, "features", told, None)
    broken = written_by_version_1(old_store, "features", {"dataset": "4", "code": listing}, None)
    (broken / "model" / "weights.bin").write_text("damaged")
    shutil.rmtree(old_store / "scratch")
    found = migrate(old_store, Progress())
    assert found.counts["left"] == 4
    assert found.left["features", "its code has changed since: features.encode_items"] == 1
    assert found.left["features", "it is of a method outside the package"] == 1
    assert found.left["features", "a file does not match its digest"] == 1
    assert len(list(entries(old_store))) == len(CONTENTS) + 4 + 3, "nothing was removed"


def test_random_models_are_known_by_the_code_that_draws_them(tmp_path: Path) -> None:
    old, new = CODE.listings(["genrec_unlearn_bench.evaluation.untrained"])
    begun = next(beginnings("stream", {}))
    name = f"untrained {'ab' * 32} {json.dumps(old)}"
    written_by_version_1(tmp_path, "stream", {"ranker": name, "part": ""}, begun)
    shutil.rmtree(tmp_path / "scratch")
    assert migrate(tmp_path, Progress()).counts == {"carried": 1}
    from genrec_unlearn_bench.store.equal_code import code_digest

    told = {"ranker": f"untrained {'ab' * 32} {code_digest(new)}", "part": "", "code": CODE.listings(begun)[1]}
    assert StageStore(tmp_path).find("stream", told) is not None


def test_an_older_checkout_says_what_the_code_was(old_store: Path, tmp_path: Path) -> None:
    package = tmp_path / "older" / "genrec_unlearn_bench" / "backbones"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "popularity.py").write_text("from __future__ import annotations\n\nX = 1\n")
    old = Code(tmp_path / "older")
    told = {"dataset": "zz", "code": old.listings(["genrec_unlearn_bench.backbones.popularity"])[0]}
    written_by_version_1(old_store, "popularity", told, None)
    shutil.rmtree(old_store / "scratch")
    found = migrate(old_store, Progress(), source=tmp_path / "older")
    assert found.counts["carried"] == 1
    new = old.listings(["genrec_unlearn_bench.backbones.popularity"])[1]
    assert StageStore(old_store).find("popularity", {**told, "code": new}) is not None


@pytest.mark.slow
def test_a_run_finds_every_migrated_stage_and_measures_anew_alone(trained: Bench, tmp_path: Path) -> None:
    """The whole cache of a cell is put back to version 1 first, as far as listings tell."""
    own = Bench(tmp_path)
    for entry in entries(trained.root / "cache"):
        told = entry.content()
        listing = told.pop("code", None)
        for beginning in beginnings(entry.name, told) if listing is not None else [None]:
            if beginning is not None and CODE.listings(beginning)[1] != listing:
                continue
            plain = {**told, "code": CODE.listings(beginning)[0]} if beginning is not None else told
            key = key_of_version_1(entry.name, plain)
            folder = own.root / "cache" / entry.name / key[:2] / key
            shutil.copytree(entry.path, folder, dirs_exist_ok=True)
            manifest = json.loads((folder / MANIFEST).read_text())
            kept = {field: manifest[field] for field in ("stage", "digest", "seconds", "files", "account")}
            write_json(folder / MANIFEST, {"key": key, **kept})
            write_json(folder / KEY_FILE, {"content": plain, "key_version": 1, "stage": entry.name})
    assert migrate(own.root / "cache", Progress()).left == {}
    first = own.run("tracer")
    # Evaluation begins at another module than it did under version 1: what was measured then is stale.
    assert {name.partition(" ")[0] for name in own.told.computed} == {"evaluation"}
    again = own.run("tracer")
    assert again.folder == first.folder


@pytest.mark.slow
def test_a_refactor_that_changes_no_outcome_is_proven_and_keeps_its_keys(
    trained: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from genrec_unlearn_bench.pipeline import equal_code, sources
    from genrec_unlearn_bench.store.proof import prove, proven

    def renamed(module: str, real: Any = sources.module_digest) -> str | None:
        digest = real(module)
        return f"renamed-{digest}" if digest is not None and ".decoding." in module else digest

    monkeypatch.setattr(sources, "module_digest", renamed)
    sources._closure.cache_clear()
    try:
        compared = prove(trained.root / "cache", [trained.results], Progress())
        found = proven(compared)
        assert {one.same for one in compared} == {True}
        assert {"original", "retrain", "unlearned", "evaluation"} <= {stage for one in found for stage in one.stages}
        trained.run("tracer")
        monkeypatch.setattr(equal_code, "_known", lambda: {one.code: one.equals for one in found})
        trained.run("tracer")
        assert trained.told.computed == []
    finally:
        sources._closure.cache_clear()
