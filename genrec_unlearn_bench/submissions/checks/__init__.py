"""Checks of ``bench verify``, one subject a file; none stops another."""

from __future__ import annotations
