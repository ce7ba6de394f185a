"""A benchmark suite for unlearning in generative recommendation.

The package answers one question with numbers a reviewer can check: can a generative recommender
forget a brand, a price band, an item or a set of interactions, and what does it cost?
"""

from __future__ import annotations

__version__ = "0.1.0"

PROTOCOL_VERSION = 2
"""Version of the measurement protocol (docs/protocol.md). Results of different versions never share a table."""
