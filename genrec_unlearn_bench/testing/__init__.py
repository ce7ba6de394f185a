"""Test data for unlearning methods: a recommender trained in seconds, with a concept whose tokens are known.

Public API for methods in other repositories. Does not import pytest.
"""

from __future__ import annotations

from genrec_unlearn_bench.testing.planted import Planted, build, nll

__all__ = ["Planted", "build", "nll"]
