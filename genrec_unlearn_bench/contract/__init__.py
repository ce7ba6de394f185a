"""The contract of an unlearning method as checks on the demo (``bench check``), and templates for a new method."""

from __future__ import annotations
