"""Keys: stable for ever, changed by every single field, indifferent to order."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.runs import keys
from genrec_unlearn_bench.runs.keys import KeyContent, canonical, content_key, differences
from genrec_unlearn_bench.sids.config import SidConfig

CONTENT: KeyContent = {
    "dataset": "3f2a",
    "task": {"name": "demo-brand", "version": 1},
    "config": {"lr": 1e-4, "epochs": 10, "mask": "on", "codes": (256, 256), "clip": None, "bf16": False},
    "seed": 0,
}


def test_known_content_has_a_known_key() -> None:
    """If this fails, every stored stage of every user is recomputed: raise KEY_VERSION and say so."""
    assert keys.KEY_VERSION == 1
    assert content_key("original", CONTENT) == PINNED


PINNED = "ed4c35f6de6d8b074f9f9666d06173fa98401ce094deed2d63a1bec23b0a76f9"


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
    monkeypatch.setattr(keys, "KEY_VERSION", keys.KEY_VERSION + 1)
    assert content_key("original", CONTENT) != before


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
