"""Which configurations are tried: the default first, even over the learning rates, and the same everywhere."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest
from pydantic import Field

from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.registry import find_method, load_class, methods
from genrec_unlearn_bench.tuning.space import SearchSpace, search_space
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.search import EPOCHS, LEARNING_RATES, Search

METHODS = [name for name, entry in methods().items() if entry.kind == "method"]


class Two(MethodConfig):
    """Six configurations, the default among them."""

    search = Search(size=(0.01, 0.1, 1.0), on=(False, True))

    size: float = Field(default=0.1, gt=0)
    on: bool = False
    steps: int = 5


class Rates(Two):
    """108, and a default that the grid of rates does not hold."""

    search = Search({"lr": 1e-5, "size": 0.5}, lr=LEARNING_RATES, epochs=EPOCHS)

    lr: float = Field(default=3e-3, gt=0)
    epochs: int = 10


class Nothing(MethodConfig):
    """No declaration."""

    steps: int = 5


class Toy(UnlearningMethod[Rates]):
    """Searches what it is given."""

    name = "toy"
    Config = Rates
    variants: ClassVar[dict[str, Any]] = {"toy-big": {"size": 1.0, "lr": 1e-3}, "toy-own": {"size": 1.0, "lr": 1e-3}}
    variant_search: ClassVar[dict[str, Search]] = {"toy-own": Search(lr=LEARNING_RATES, on=None, steps=(5, 7))}

    def unlearn(self, recommender: Any, request: Any, progress: Any) -> Any:
        return recommender


class Small(Toy):
    """Six configurations."""

    name = "small"
    Config = Two
    variants: ClassVar[dict[str, Any]] = {}
    variant_search: ClassVar[dict[str, Search]] = {}


def space_of(name: str, **given: Any) -> SearchSpace:
    entry = find_method(name)
    method = load_class(entry, UnlearningMethod)  # type: ignore[type-abstract]
    return search_space(method, name, entry.fields, given)


def test_a_small_space_is_tried_whole_with_the_default_first() -> None:
    space = search_space(Small, "small", {}, {})
    made = space.trials(12)
    assert space.size == len(made) == 6
    assert made[0] == Two()
    assert {(one.size, one.on) for one in made} == {(s, on) for s in (0.01, 0.1, 1.0) for on in (False, True)}


def test_what_is_always_tried_comes_after_the_default_and_may_lie_outside_the_lists() -> None:
    space = search_space(Toy, "toy", {}, {})
    made = space.trials(12)
    assert made[:2] == (Rates(), Rates(lr=1e-5, size=0.5))
    assert space.size == 6 * 3 * 3 * 2 + 2
    assert len(space.trials(1000)) == space.size


def test_trials_are_even_over_the_rates_and_over_the_other_values() -> None:
    space = search_space(Toy, "toy", {}, {"lr": 1e-4})
    assert "lr" not in space.values, "what the user sets is not searched"
    made = search_space(Toy, "toy", {}, {}).trials(12)
    rates = Counter(one.lr for one in made)
    assert all(rates[lr] in (1, 2) for lr in LEARNING_RATES)
    assert all(3 <= Counter(one.epochs for one in made)[count] <= 5 for count in EPOCHS)
    assert Counter(one.on for one in made)[True] in (5, 6, 7)


def test_a_draw_depends_on_the_name_alone_and_fewer_trials_are_the_first_of_more() -> None:
    one, other = (search_space(Toy, name, {}, {}) for name in ("toy", "other"))
    assert one.trials(12) == search_space(Toy, "toy", {}, {}).trials(12)
    assert one.trials(12) != other.trials(12)
    for limit in (1, 2, 5, 8):
        assert one.trials(limit) == one.trials(12)[:limit]
    six = Counter(trial.lr for trial in one.trials(7))
    assert all(six[lr] == 1 for lr in LEARNING_RATES if lr != 1e-5), "any number of trials is even"


def test_a_variant_searches_what_it_does_not_change_and_what_it_declares() -> None:
    fixed = search_space(Toy, "toy-big", Toy.variants["toy-big"], {})
    assert set(fixed.values) == {"epochs", "on"}
    assert all((one.size, one.lr) == (1.0, 1e-3) for one in fixed.trials(12))
    own = search_space(Toy, "toy-own", Toy.variants["toy-own"], {})
    assert set(own.values) == {"lr", "epochs", "steps"}
    made = own.trials(12)
    assert made[0] == Rates(size=1.0, lr=1e-3)
    assert {one.lr for one in made} == set(LEARNING_RATES)
    assert {one.size for one in made} == {1.0}


def test_without_a_declaration_there_is_one() -> None:
    class Idle(Small):
        """Nothing to tune."""

        Config = Nothing

    space = search_space(Idle, "idle", {}, {})
    assert (space.size, space.trials(12)) == (1, (Nothing(),))


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (Search(sise=(1.0, 2.0)), "did you mean 'size'"),
        (Search(size=(0.1, -1.0)), "size.*greater than 0"),
        (Search(size=(0.1, "big")), "size.*valid number"),
        (Search(size="0.1"), "size is to be a tuple of values, not '0.1'"),
        (Search(size=0.1), "size is to be a tuple of values, not 0.1"),
        (Search(size=()), "size is to be a tuple of values"),
        (Search({"sise": 1.0}), "did you mean 'size'"),
        (Search({"size": -1.0}), "size.*greater than 0"),
        (Search(lr=(1e-5, 1e-2)), "every method searches lr over the same values.*: write lr=LEARNING_RATES"),
        (Search(epochs=(1, 20)), "write epochs=EPOCHS"),
        ({"size": (0.1, 1.0)}, "a Search is expected"),
    ],
)
def test_a_wrong_declaration_is_refused_when_the_class_is_made(search: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words) as told:
        type("Wrong", (Rates,), {"search": search, "__module__": __name__})
    assert told.value.where == "Wrong"
    assert told.value.hint is not None


def test_every_fault_is_told_at_once() -> None:
    with pytest.raises(ConfigError) as told:
        type("Wrong", (Two,), {"search": Search(sise=(1.0,), on=(1.5,), size=()), "__module__": __name__})
    assert len(told.value.faults) == 3


def test_the_declaration_of_a_variant_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="there is no variant 'toy-bigg'; the variants: toy-big, toy-own"):
        type("Bad", (Toy,), {"variant_search": {"toy-bigg": Search()}, "__module__": __name__})
    with pytest.raises(ConfigError, match="did you mean 'size'"):
        type("Bad", (Toy,), {"variant_search": {"toy-big": Search(sise=(1.0,))}, "__module__": __name__})


def test_values_that_only_together_are_wrong_are_refused_with_the_space() -> None:
    with pytest.raises(ConfigError, match="did you mean 'lr'"):
        search_space(Toy, "toy", {}, {"lrr": 1})


@pytest.mark.parametrize("name", METHODS)
def test_twelve_trials_of_every_method_cover_the_rates_evenly_and_hold_the_default(name: str) -> None:
    entry, space = find_method(name), space_of(name)
    made = space.trials(12)
    assert len(made) == min(12, space.size)
    assert len({one.model_dump_json() for one in made}) == len(made)
    assert made[0] == type(made[0])(**entry.fields)
    fields = type(made[0]).model_fields
    if "lr" in fields and "epochs" in fields:
        rates = Counter(one.model_dump()["lr"] for one in made)
        held = "lr" in entry.fields and "lr" not in space.values
        assert held or all(rates[lr] >= 12 // len(LEARNING_RATES) for lr in LEARNING_RATES)
        assert {one.model_dump()["epochs"] for one in made} >= set(EPOCHS)


def test_rates_lengths_and_forget_weights_are_searched_by_all_who_have_them() -> None:
    for name in METHODS:
        if find_method(name).variant_of:
            continue
        space = space_of(name)
        fields = set(type(space.default).model_fields)
        # Dictionaries and the linear system have none; SCRUB's rounds and the others' passes have one name.
        for field in ({"lr", "epochs"} if "epochs" in fields else set()) | {"gamma", "lambda_forget", "erase_weight"}:
            assert field not in fields or field in space.values or name == "scrub", (name, field)


def test_the_papers_own_values_of_simnpo_are_always_tried() -> None:
    official = space_of("simnpo").trials(12)[1].model_dump()
    assert (official["beta"], official["delta"], official["gamma"]) == (4.5, 0.0, 0.125)
