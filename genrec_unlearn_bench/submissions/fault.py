"""One thing that is wrong with a submission, in the words of whoever has to mend it."""

from __future__ import annotations

from genrec_unlearn_bench.config import StrictModel
from genrec_unlearn_bench.errors import BenchError

__all__ = ["Fault", "Refused"]


class Fault(StrictModel):
    """What is wrong, where, and how to mend it."""

    what: str
    where: str
    """Path inside the submission, with the field where there is one."""
    mend: str

    def text(self) -> str:
        """All three, one a line."""
        return f"{self.what}\n  where: {self.where}\n  mend:  {self.mend}"


class Refused(BenchError):
    """Something of a submission cannot be read at all, or is not safe to read."""

    def __init__(self, what: str, *, where: str, mend: str) -> None:
        super().__init__(what, where=where, mend=mend)
        self.fault = Fault(what=what, where=where, mend=mend)
