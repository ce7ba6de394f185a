"""The interface of an unlearning method: a name, a configuration, and one function.

A method imports from here all that its signature names.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.search import Search, check_search

__all__ = ["ForgetRequest", "MethodConfig", "Progress", "Recommender", "Search", "UnlearningMethod", "Variants"]

Variants = Mapping[str, Mapping[str, Any]]
"""By name, the fields of the configuration that a variant changes."""


class MethodConfig(StrictModel):
    """Base of a method's configuration: frozen, strict, a docstring below every field.

    ``search`` declares what ``bench tune`` may try: ``search = Search(gamma=(0.1, 0.3, 1.0))``. It adds to the
    declaration of the class that is extended, and is checked when the class is made (ConfigError).
    """

    search: ClassVar[Search] = Search()
    """Fields and values to try, inherited ones included."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        if "search" in vars(cls):
            own = vars(cls)["search"]
            inherited = next((base.search for base in cls.__mro__[1:] if issubclass(base, MethodConfig)), Search())
            found = own.over(inherited) if isinstance(own, Search) else own
            check_search(found, cls, where=cls.__name__)
            cls.search = found


C = TypeVar("C", bound=MethodConfig)


def lacks(found: type[UnlearningMethod[Any]]) -> str:
    """What keeps a class from being run as a method; empty where nothing does."""
    if not (isinstance(found.Config, type) and issubclass(found.Config, MethodConfig)):
        return "has a Config that is no MethodConfig"
    if found.unlearn is UnlearningMethod.unlearn:
        return "defines no unlearn(self, recommender, request, progress)"
    try:
        inspect.signature(found.unlearn).bind("self", "recommender", "request", "progress")
    except TypeError:
        return "does not take unlearn(self, recommender, request, progress)"
    return ""


class UnlearningMethod(ABC, Generic[C]):
    """Base of unlearning methods: one file in ``methods/``, or anywhere (``--method path/to/file.py:ClassName``)."""

    name: ClassVar[str]
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    requires: ClassVar[frozenset[Capability]] = frozenset()
    kinds: ClassVar[frozenset[ConceptKind]] = frozenset(ConceptKind)
    """Kinds of request it supports. The runner refuses others before anything is trained."""
    variants: ClassVar[Variants] = {}
    """Named configurations (ablations, relatives) with the fields each changes. A plain literal, so that ``bench ls``
    can read it without importing; every name begins with the method's own."""
    variant_search: ClassVar[Mapping[str, Search]] = {}
    """By variant, what to try besides ``Config.search``. Of ``Config.search`` a variant leaves the fields out that it
    changes."""
    without: ClassVar[Mapping[Capability, str]] = {}
    """For a capability in ``requires``, the hint that a refusal gives: how to run without it."""

    def __init__(self, config: C) -> None:
        self.config = config

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for variant, search in cls.variant_search.items():
            where = f"{cls.__name__}.variant_search[{variant!r}]"
            if variant not in cls.variants:
                raise ConfigError(
                    [f"there is no variant {variant!r}; the variants: {', '.join(cls.variants) or 'none'}"], where=where
                )
            check_search(search, cls.Config, where=where)

    @property
    def needs(self) -> frozenset[Capability]:
        """Capabilities that this configuration needs: ``requires``, unless an option makes one unnecessary."""
        return self.requires

    @abstractmethod
    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        """Return an unlearned recommender.

        ``recommender`` must not be changed (``clone`` it). Report losses with ``progress.log`` and facts for the
        result record with ``progress.note``.
        """
