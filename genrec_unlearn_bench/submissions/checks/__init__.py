"""Checks of ``bench submission verify``, one subject a file: faults in the author's terms; none stops another."""

from __future__ import annotations
