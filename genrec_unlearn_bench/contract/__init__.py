"""The contract of an unlearning method as checks on the demo (``bench method check``), and templates of methods."""

from __future__ import annotations
