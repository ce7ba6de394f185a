"""The contract of an unlearning method as tests on the demo, for an author rather than for the suite.

Every rule gives one finding in the author's terms; a rule that finds nothing wrong says so in one line.
"""

from __future__ import annotations
