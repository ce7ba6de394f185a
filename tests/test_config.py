from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
import pytest
from pydantic import Field

from genrec_unlearn_bench.config import StrictModel, overrides, parse, several
from genrec_unlearn_bench.errors import ConfigError, UsageError


class _Tall(StrictModel):
    kind: Literal["tall"] = "tall"
    height: int = 1


class _Wide(StrictModel):
    kind: Literal["wide"] = "wide"
    width: int = 1


class _Inner(StrictModel):
    learning_rate: float = 0.1


class _Listed(StrictModel):
    names: Annotated[tuple[str, ...], Field(min_length=1)]


class _Outer(StrictModel):
    shape: Annotated[_Tall | _Wide, Field(discriminator="kind")] = _Tall()
    inner: _Inner = _Inner()
    many: tuple[_Inner, ...] = ()
    seed: int = 0


@pytest.mark.parametrize(
    ("content", "place", "hint"),
    [
        ({"sed": 1}, "sed", "did you mean 'seed'"),
        ({"inner": {"learning_rat": 1}}, "inner.learning_rat", "did you mean 'learning_rate'"),
        ({"many": [{}, {"learning_rat": 1}]}, "many.1.learning_rat", "did you mean 'learning_rate'"),
        ({"shape": {"kind": "wide", "widht": 1}}, "shape.wide.widht", "did you mean 'width'"),
        ({"shape": {"kind": "wide", "zzz": 1}}, "shape.wide.zzz", "known keys: kind, width"),
        ({"inner": {"seed": 1}}, "inner.seed", "known keys: learning_rate"),
        ({"learning_rate": 0.1}, "learning_rate", "known keys: shape, inner, many, seed"),
    ],
)
def test_unknown_keys_are_compared_with_those_of_the_model_they_stand_in(
    content: dict[str, object], place: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(_Outer, content, where="here")
    assert caught.value.faults == (f"{place}: unknown key; {hint}{'?' if 'mean' in hint else ''}",)


class _Named(StrictModel):
    lower: Annotated[str, Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")] = "a"
    mixed: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")] = "a"
    attribute: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,38}$")] = "a"
    variant: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9+-]*$")] = "a"
    url: Annotated[str, Field(pattern=r"^https://\S+$")] = "https://a"
    needed: int


def test_faults_say_what_a_name_may_hold_and_dump_no_file() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(_Named, {"lower": "A b", "mixed": "a b", "attribute": "A", "variant": "A", "url": "a"}, where="file")
    assert list(caught.value.faults) == [
        "lower: use lower-case letters, digits and hyphens only, beginning with a letter or digit (got 'A b')",
        "mixed: use letters, digits, underscores, dots and hyphens only, beginning with a letter or digit (got 'a b')",
        "attribute: use lower-case letters, digits and underscores only, beginning with a letter (got 'A')",
        "variant: use lower-case letters, digits, plus signs and hyphens only, beginning with a letter or digit "
        "(got 'A')",
        "url: String should match pattern '^https://\\S+$' (got 'a')",
        "needed: Field required",
    ]


def test_a_list_of_faulty_entries_is_one_fault() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(_Listed, {"names": [1990]}, where="here")
    assert len(caught.value.faults) == 1
    assert "names.0: Input should be a valid string" in caught.value.faults[0]
    with pytest.raises(ConfigError, match="names: Tuple should have at least 1 item"):
        parse(_Listed, {"names": []}, where="here")


@pytest.mark.parametrize("content", [{"seed": True}, {"inner": {"learning_rate": False}}])
def test_true_and_false_are_no_numbers(content: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="a number is expected"):
        parse(_Outer, content, where="here")


def test_one_value_or_several() -> None:
    assert several("tracer") == ["tracer"]
    assert several(range(2)) == several(np.arange(2)) == [0, 1]
    assert several(np.int64(3)) == [3]
    for odd in ({"npo": {}}, b"npo"):
        with pytest.raises(UsageError, match="one value or a list"):
            several(odd)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("3", 3),
        ("off", "off"),
        ("True", True),
        ("[off, on, 1e-4]", ["off", "on", 1e-4]),
        ("{a: off}", {"a": "off"}),
        ('{"a":[1,null]}', {"a": [1, None]}),
        ("1:30", "1:30"),
        ("2020-01-01", "2020-01-01"),
        ("a: b: c", "a: b: c"),
        ("", None),
    ],
)
def test_values_of_set_are_read_by_yaml_1_2(text: str, value: object) -> None:
    assert overrides([f"x={text}"]) == {"x": value}
