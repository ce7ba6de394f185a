"""One module per statistical question of protocol sec. 6; arrays in, frozen dataclasses out, no global state.

The questions are kept apart so that the claim about two methods can never be answered by the test for two checkpoints.
"""

from __future__ import annotations
