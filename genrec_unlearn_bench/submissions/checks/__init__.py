"""Checks of ``bench verify``, one subject a file. Each check gives faults in the author's terms; none stops another."""
