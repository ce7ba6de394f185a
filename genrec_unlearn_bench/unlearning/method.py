"""The interface of an unlearning method: a name, a configuration, and one function."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, TypeVar

from genrec_unlearn_bench.backbones.recommender import Capability, Recommender
from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.unlearning.request import ForgetRequest


class MethodConfig(StrictModel):
    """Base of a method's configuration: frozen, strict, a docstring below every field.

    A field that may be tuned lists its values: ``Field(default=1e-4, json_schema_extra={"search": [1e-5, 1e-4]})``.
    """


C = TypeVar("C", bound=MethodConfig)


class UnlearningMethod(ABC, Generic[C]):
    """Base of unlearning methods: one file in ``methods/``, or anywhere (``--method path/to/file.py:ClassName``)."""

    name: ClassVar[str]
    Config: ClassVar[type[MethodConfig]] = MethodConfig
    requires: ClassVar[frozenset[Capability]] = frozenset()
    kinds: ClassVar[frozenset[ConceptKind]] = frozenset(ConceptKind)
    """Kinds of request it supports. The runner refuses others before anything is trained."""
    variants: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """Named configurations (ablations, relatives) with the fields each changes. A plain literal, so that ``bench ls``
    can read it without importing; every name begins with the method's own."""
    without: ClassVar[Mapping[Capability, str]] = {}
    """For a capability in ``requires``, the hint that a refusal gives: how to run without it."""

    def __init__(self, config: C) -> None:
        self.config = config

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
