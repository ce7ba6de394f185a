"""Which configurations are tried: the default first, never more than allowed, and the same everywhere."""

from __future__ import annotations

import pytest
from pydantic import Field

from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.tuning.rule import configurations, search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod


class Two(MethodConfig):
    """Six configurations, the default among them."""

    lr: float = Field(default=0.1, gt=0, json_schema_extra={"search": [0.01, 0.1, 1.0]})
    on: bool = Field(default=False, json_schema_extra={"search": [False, True]})
    steps: int = 5


class Wide(Two):
    """Eighteen, and a default that none of the lists holds."""

    lr: float = Field(default=0.5, gt=0, json_schema_extra={"search": [0.01, 0.1, 1.0]})
    width: int = Field(default=1, json_schema_extra={"search": [1, 2, 3]})


class Narrow(Two):
    """A field that is written anew without a list is not searched."""

    lr: float = 0.1


class Nothing(MethodConfig):
    """No list anywhere."""

    steps: int = 5


def test_the_product_with_the_default_first() -> None:
    made = configurations(Two, {}, name="two", limit=12)
    assert made[0] == Two()
    assert [(one.lr, one.on) for one in made[1:]] == [
        (0.01, False),
        (0.01, True),
        (0.1, True),
        (1.0, False),
        (1.0, True),
    ]
    assert len({one.model_dump_json() for one in made}) == len(made) == 6


def test_a_default_outside_the_lists_is_one_more_configuration() -> None:
    made = configurations(Wide, {}, name="wide", limit=100)
    assert len(made) == 19
    assert made[0] == Wide()


def test_fields_that_are_set_are_not_searched() -> None:
    assert search_space(Two, {"lr": 3.0}) == {"on": (False, True)}
    assert configurations(Two, {"lr": 3.0}, name="two", limit=12) == (Two(lr=3.0), Two(lr=3.0, on=True))
    assert search_space(Narrow) == {"on": (False, True)}


def test_a_draw_depends_on_the_name_alone_and_fewer_trials_are_part_of_more() -> None:
    drawn = configurations(Wide, {}, name="wide", limit=12)
    assert len(drawn) == 12
    assert drawn[0] == Wide()
    assert drawn == configurations(Wide, {}, name="wide", limit=12)
    assert drawn != configurations(Wide, {}, name="other", limit=12)
    fewer = configurations(Wide, {}, name="wide", limit=4)
    assert len(fewer) == 4
    assert [one for one in drawn if one in fewer] == list(fewer), "in the same order, too"
    assert configurations(Wide, {}, name="wide", limit=1) == (Wide(),)


def test_without_lists_there_is_one() -> None:
    assert search_space(Nothing) == {}
    assert configurations(Nothing, {}, name="nothing", limit=12) == (Nothing(),)


def test_values_that_the_method_does_not_take_are_refused() -> None:
    class Wrong(MethodConfig):
        lr: float = Field(default=0.1, gt=0, json_schema_extra={"search": [0.1, -1.0]})

    class NoList(MethodConfig):
        lr: float = Field(default=0.1, json_schema_extra={"search": 3})

    with pytest.raises(ConfigError, match="greater than 0"):
        configurations(Wrong, {}, name="wrong", limit=12)
    with pytest.raises(ConfigError, match="a list of values"):
        configurations(NoList, {}, name="no-list", limit=12)
    with pytest.raises(ConfigError, match="did you mean 'lr'"):
        configurations(Two, {"lrr": 1}, name="two", limit=12)


@pytest.mark.parametrize("name", [name for name, entry in methods().items() if entry.kind == "method"])
def test_every_method_can_be_tuned_within_the_budget(name: str) -> None:
    entry = find_method(name)
    config = load_class(entry, UnlearningMethod).Config  # type: ignore[type-abstract]
    made = configurations(config, entry.fields, name=name, limit=12)
    assert 1 <= len(made) <= 12
    assert made[0] == config(**entry.fields)
