"""Keys: stable for ever, changed by every single field, indifferent to order."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.pipeline import equal_code, keys
from genrec_unlearn_bench.sids.config import SidConfig
from genrec_unlearn_bench.store.equal_code import code_digest, ledger_text, read_ledger
from genrec_unlearn_bench.store.keys import KeyContent, canonical, content_key, differences

CONTENT: KeyContent = {
    "dataset": "3f2a",
    "task": {"name": "demo-brand", "version": 1},
    "config": {"lr": 1e-4, "epochs": 10, "mask": "on", "codes": (256, 256), "clip": None, "bf16": False},
    "seed": 0,
}


LISTING = {"genrec_unlearn_bench.seeding": "de87dd84bb2c03432a8852ee0d5c818e", "genrec_unlearn_bench.launch": "2df6"}


def test_known_contents_have_known_keys() -> None:
    """If this fails, every stored stage of every user is recomputed: raise KEY_VERSION and write a migration."""
    assert keys.KEY_VERSION == 2
    assert content_key("original", {**CONTENT, "code": LISTING}) == PINNED
    assert content_key("result", CONTENT) == PLAIN, "contents without code have the key of version 1 for ever"


PINNED = "bce44e12b38b70a52398b004b28beb261b595cf3977949f29f309cc848101788"
PLAIN = "77bd912f465c2e88b33eb4817541b822acea60a1b6e6663fabd6a20bf883cb7f"


def test_code_counts_as_one_digest_and_is_listed_in_differences() -> None:
    content: KeyContent = {**CONTENT, "code": LISTING}
    edited: KeyContent = {**CONTENT, "code": {**LISTING, "genrec_unlearn_bench.launch": "0000"}}
    assert content_key("original", edited) != content_key("original", content)
    assert differences(content, edited) == ["code.genrec_unlearn_bench.launch"]
    assert content_key("original", {**CONTENT, "code": code_digest(LISTING)}) == content_key("original", content)
    assert differences(content, {**CONTENT, "code": code_digest(LISTING)}) == []


def test_code_of_the_ledger_keeps_its_keys_and_is_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    content: KeyContent = {**CONTENT, "code": LISTING}
    moved = {**LISTING, "genrec_unlearn_bench.launch": "0000"}
    monkeypatch.setattr(equal_code, "_known", lambda: {equal_code.combined(moved): equal_code.combined(LISTING)})
    assert content_key("original", {**CONTENT, "code": moved}) == content_key("original", content)
    assert differences({**CONTENT, "code": moved}, {**content, "seed": 1}) == ["seed"]
    assert content_key("original", {**CONTENT, "code": {**moved, "x": "1"}}) != content_key("original", content)


def test_the_ledger_that_ships_leads_to_the_oldest_code_in_one_step() -> None:
    entries = read_ledger()
    assert not {entry.equals for entry in entries} & {entry.code for entry in entries}
    assert len({entry.code for entry in entries}) == len(entries)
    assert all(entry.compared > 0 and entry.on for entry in entries)
    assert equal_code.LEDGER.read_text(encoding="utf-8") == ledger_text(entries)


def test_order_of_names_does_not_change_the_key() -> None:
    turned = dict(reversed([(name, value) for name, value in CONTENT.items()]))
    turned["config"] = dict(reversed(list(CONTENT["config"].items())))  # type: ignore[union-attr]
    assert content_key("original", turned) == content_key("original", CONTENT)


def test_tuples_are_lists_and_models_are_their_fields() -> None:
    as_list = copy.deepcopy(dict(CONTENT))
    as_list["config"]["codes"] = [256, 256]  # type: ignore[index, call-overload]
    assert content_key("original", as_list) == content_key("original", CONTENT)
    config = SidConfig(codes=32)
    assert canonical({"sid": config}) == canonical({"sid": config.model_dump(mode="json")})


FIELDS = [
    ("dataset", "3f2b"),
    ("task.name", "demo-price"),
    ("task.version", 2),
    ("config.lr", 1.0000000000000002e-4),
    ("config.epochs", 10.0),
    ("config.mask", "off"),
    ("config.codes", (256, 255)),
    ("config.clip", 0),
    ("config.bf16", True),
    ("seed", 1),
    ("seed", "0"),
    ("extra", None),
]


@pytest.mark.parametrize(("place", "value"), FIELDS, ids=[f"{place}={value}" for place, value in FIELDS])
def test_each_field_alone_changes_the_key(place: str, value: object) -> None:
    changed = copy.deepcopy(dict(CONTENT))
    holder: dict[str, object] = changed  # type: ignore[assignment]
    *path, last = place.split(".")
    for part in path:
        holder = holder[part]  # type: ignore[assignment]
    holder[last] = value
    assert content_key("original", changed) != content_key("original", CONTENT)
    assert differences(CONTENT, changed) == [place]


def test_stage_and_key_version_change_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_key("original", CONTENT)
    assert content_key("retrain", CONTENT) != before
    monkeypatch.setattr(keys, "PLAIN_VERSION", keys.PLAIN_VERSION + 1)
    assert content_key("original", CONTENT) != before
    content: KeyContent = {**CONTENT, "code": LISTING}
    before = content_key("original", content)
    monkeypatch.setattr(keys, "KEY_VERSION", keys.KEY_VERSION + 1)
    assert content_key("original", content) != before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a"}, {"a", "b"}, b"x", np.float64(1.0), object()])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"content\.bad"):
        canonical({"bad": value})  # type: ignore[dict-item]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=4))
def test_canonical_form_is_json_that_reads_back(content: dict[str, object]) -> None:
    text = canonical(content)  # type: ignore[arg-type]
    assert text.isascii()
    assert json.loads(text) == content
    assert canonical(json.loads(text)) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_that_differ_give_keys_that_differ(one: float, other: float) -> None:
    same = repr(one) == repr(other)
    assert (content_key("s", {"x": one}) == content_key("s", {"x": other})) is same
