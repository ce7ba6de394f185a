"""Keys: the same on every machine, changed by every single field, indifferent to order."""

from __future__ import annotations

import copy
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.store import manifest
from genrec_unlearn_bench.store.manifest import canonical, content_key, differences, plain

RECIPE: dict[str, Any] = {
    "stage": "original",
    "version": 1,
    "config": {
        "task": {"name": "demo-brand", "version": 1},
        "training": {"lr": 1e-4, "epochs": 10, "mask": "on", "codes": [256, 256], "clip": None, "bf16": False},
        "seed": 0,
    },
    "files": {"dataset": "3f2a"},
    "inputs": {"sids": "aa" * 32},
}


class Config(StrictModel):
    codes: tuple[int, ...] = (256, 256)
    lr: float = 0.1


def test_a_known_recipe_has_a_known_key() -> None:
    """If this fails, every stored stage of every user is recomputed: raise KEY_VERSION."""
    assert manifest.KEY_VERSION == 3
    assert content_key(RECIPE) == "cb70fbdaf7c1f80f6bb3b0fe2b90632d6f6b2fa573b4c19d5fe677bfaf39a0d5"


def test_order_of_names_does_not_change_the_key() -> None:
    turned = dict(reversed(list(RECIPE.items())))
    turned["config"] = dict(reversed(list(RECIPE["config"].items())))
    assert content_key(turned) == content_key(RECIPE)


def test_tuples_are_lists_and_models_are_their_fields() -> None:
    assert plain({"sid": Config(), "codes": (1, 2)}) == {"sid": {"codes": [256, 256], "lr": 0.1}, "codes": [1, 2]}
    assert canonical({"sid": Config(codes=(32,))}) == '{"sid":{"codes":[32],"lr":0.1}}'


FIELDS = [
    ("stage", "retrain"),
    ("version", 2),
    ("config.task.name", "demo-price"),
    ("config.task.version", 2),
    ("config.training.lr", 1.0000000000000002e-4),
    ("config.training.epochs", 10.0),
    ("config.training.mask", "off"),
    ("config.training.codes", [256, 255]),
    ("config.training.clip", 0),
    ("config.training.bf16", True),
    ("config.seed", 1),
    ("config.seed", "0"),
    ("config.extra", None),
    ("files.dataset", "3f2b"),
    ("inputs.sids", "bb" * 32),
    ("inputs.original", "aa" * 32),
]


@pytest.mark.parametrize(("place", "value"), FIELDS, ids=[f"{place}={value}" for place, value in FIELDS])
def test_each_field_alone_changes_the_key(place: str, value: object) -> None:
    changed = copy.deepcopy(RECIPE)
    holder = changed
    *path, last = place.split(".")
    for part in path:
        holder = holder[part]
    holder[last] = value
    assert content_key(changed) != content_key(RECIPE)
    assert list(differences(RECIPE, changed)) == [place]


def test_the_key_version_changes_every_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = content_key(RECIPE)
    monkeypatch.setattr(manifest, "KEY_VERSION", manifest.KEY_VERSION + 1)
    assert content_key(RECIPE) != before


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: "a"}, {"a", "b"}, b"x", np.float64(1.0), object()])
def test_what_has_no_canonical_form_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match=r"value\.bad"):
        canonical({"bad": value})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(min_size=1), json_values, max_size=4))
def test_canonical_form_is_json_that_reads_back(content: dict[str, object]) -> None:
    text = canonical(content)
    assert text.isascii()
    assert json.loads(text) == content
    assert canonical(json.loads(text)) == text


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_floats_that_differ_give_keys_that_differ(one: float, other: float) -> None:
    same = repr(one) == repr(other)
    assert (content_key({"x": one}) == content_key({"x": other})) is same
