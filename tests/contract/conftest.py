"""A method that keeps its contract, from which every test breaks one rule."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genrec_unlearn_bench.contract.check import check_method
from genrec_unlearn_bench.contract.rules import CheckReport, RuleResult
from genrec_unlearn_bench.progress import Progress

GOOD = '''"""Toy (Example 2026, arXiv 0000.00000): noise on the weights.

Updates all parameters.
"""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from pydantic import Field

from genrec_unlearn_bench.backbones.recommender import Capability
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.seeding import numpy_generator, torch_generator
from genrec_unlearn_bench.unlearning.method import MethodConfig, UnlearningMethod
from genrec_unlearn_bench.unlearning.search import Search


class ToyConfig(MethodConfig):
    """How much noise."""

    search = Search(size=(0.01, 0.1))

    size: float = Field(default=0.01, ge=0)
    """Standard deviation of the noise."""


class Toy(UnlearningMethod[ToyConfig]):
    """Noise on the weights."""

    name = "toy"
    Config = ToyConfig
    kinds = frozenset({ConceptKind.BRAND})
    variants: ClassVar[dict[str, Any]] = {"toy-loud": {"size": 0.1}}

    def unlearn(self, recommender, request, progress):
        model = recommender.clone()
        generator = torch_generator(request.seed, "toy")
        with torch.no_grad():
            for parameter in model.module.parameters():
                parameter += self.config.size * torch.randn(parameter.shape, generator=generator)
        progress.log("noise", 0, {"size": self.config.size})
        # here
        return model
'''

Check = Callable[..., CheckReport]


def broken(checked: CheckReport) -> dict[str, RuleResult]:
    """The broken rules by name."""
    return {finding.rule: finding for finding in checked.findings if finding.status == "broken"}


@pytest.fixture(scope="session")
def toy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small recommenders, made once."""
    return tmp_path_factory.mktemp("contract")


@pytest.fixture
def check(tmp_path: Path, toy_cache: Path) -> Check:
    """``check(("old", "new"), …)``: the good method with some of its text replaced."""

    def run(*changes: tuple[str, str], on: tuple[str, ...] = ()) -> CheckReport:
        text = GOOD
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new)
        path = tmp_path / "toy.py"
        path.write_text(text, encoding="utf-8")
        return check_method(str(path), cache_dir=toy_cache, progress=Progress(), on=on)

    return run
