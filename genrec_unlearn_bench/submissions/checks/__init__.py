"""Checks of ``bench submission verify``, one subject a file; none stops another."""

from __future__ import annotations
