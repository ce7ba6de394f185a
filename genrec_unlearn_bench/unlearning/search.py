"""Declarations of what ``bench tune`` may try: ``search = Search(gamma=(0.1, 0.3, 1.0))`` in a method's configuration.

Learning rates and lengths of training are the same for every method (protocol, sec. 5), so they are named here once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from genrec_unlearn_bench.config import parse
from genrec_unlearn_bench.errors import ConfigError

LEARNING_RATES = (3e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
"""The one grid of learning rates, in half decades."""

EPOCHS = (2, 5, 10)
"""The one grid of passes over the forget set."""

SHARED = {"lr": LEARNING_RATES, "epochs": EPOCHS}
"""Fields that are searched over the same values in every method."""

Value = float | int | str | bool | None


class Search:
    """The values that may be tried of each field, and the configurations that are tried in any case.

    A configuration class adds its declaration to that of the class it extends. A variant's declaration adds to its
    method's, and the fields in it are searched although the variant changes them.

    Args:
        always: Configurations besides the default that no draw leaves out, such as a paper's official values, each as
            the fields in which it differs from the default.
        values: Field -> the values to try; None leaves an inherited field out.
    """

    def __init__(self, *always: Mapping[str, Value], **values: Sequence[Value] | None) -> None:
        self.always = always
        self.values = values

    @property
    def fields(self) -> dict[str, tuple[Value, ...]]:
        """Field -> its values, in the order of declaration."""
        return {name: tuple(values) for name, values in self.values.items() if values is not None}

    def over(self, base: Search) -> Search:
        """This declaration added to an inherited one."""
        return Search(*base.always, *self.always, **{**base.values, **self.values})


def check_search(search: Search, config: type[BaseModel], *, where: str) -> None:
    """Check a complete declaration against a configuration class. Raises ConfigError with every fault at once."""
    hint = "search = Search(gamma=(0.1, 1.0)), each a field with a tuple of values"
    if not isinstance(search, Search):
        raise ConfigError([f"search: a Search is expected, not {search!r}"], where=where, hint=hint)
    faults: list[str] = []
    tried: list[Mapping[str, Value]] = [*search.always]
    for name, values in search.values.items():
        if values is None:
            continue
        shared = SHARED.get(name, values)
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            faults.append(f"search: {name} is to be a tuple of values, not {values!r}")
        elif tuple(values) != tuple(shared):
            constant = "LEARNING_RATES" if name == "lr" else "EPOCHS"
            faults.append(f"search: every method searches {name} over the same values: write {name}={constant}")
        else:
            tried += [{name: value} for value in values]
    for fields in tried:
        try:
            parse(config, fields, where=where)
        except ConfigError as fault:
            faults += [f"search: {each}" for each in fault.faults]
    if faults:
        raise ConfigError(faults, where=where, hint=hint)
