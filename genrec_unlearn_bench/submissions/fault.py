"""One thing that is wrong with a submission, in the words of whoever has to mend it."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.submissions.words import printable

__all__ = ["Fault", "Refused"]


Told = Annotated[str, AfterValidator(printable)]
"""A message may quote what a stranger wrote, and must not do to a terminal what that was meant to do."""


class Fault(StrictModel):
    """What is wrong, where, and how to mend it."""

    what: Told
    where: Told
    """Path inside the submission, with the field where there is one."""
    hint: Told

    def text(self) -> str:
        """All three, one a line."""
        return f"{self.what}\n  where: {self.where}\n  hint:  {self.hint}"


class Refused(BenchError):
    """Something of a submission cannot be read at all, or is not safe to read."""

    def __init__(self, what: str, *, where: str, hint: str) -> None:
        self.fault = Fault(what=what, where=where, hint=hint)
        super().__init__(self.fault.what, where=self.fault.where, hint=self.fault.hint)
