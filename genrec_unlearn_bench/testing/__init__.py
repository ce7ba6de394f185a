"""What a method's own tests need: a recommender trained in seconds, with a concept whose tokens are known.

Public, so that a method in a repository of its own is tested on the same thing as those that are shipped. Nothing here
imports pytest.
"""

from __future__ import annotations

from genrec_unlearn_bench.testing.planted import Planted, build, nll

__all__ = ["Planted", "build", "nll"]
