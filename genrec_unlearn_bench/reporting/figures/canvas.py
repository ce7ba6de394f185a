"""The shipped style of figures, and the canvas that keeps it wherever a figure is shown or written."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

from matplotlib import rc_context, rc_params_from_file, rcParamsDefault
from matplotlib.figure import Figure


@contextmanager
def styled() -> Iterator[None]:
    """The shipped style, for drawing and for writing, whatever the caller's own settings are."""
    sheet = resources.files("genrec_unlearn_bench.leaderboard") / "templates" / "figures" / "paper.mplstyle"
    # Figures are drawn without a backend.
    chosen: dict[Any, Any] = {name: value for name, value in rcParamsDefault.items() if not name.startswith("backend")}
    with resources.as_file(sheet) as path:
        chosen |= rc_params_from_file(path, use_default_template=False)
    with rc_context(chosen):
        yield


class Canvas(Figure):
    """A figure that is written in the shipped style; a notebook shows it as a picture, without a backend."""

    def savefig(self, fname: Any, **options: Any) -> None:
        with styled():
            super().savefig(fname, **options)

    def _repr_png_(self) -> bytes:
        buffer = io.BytesIO()
        self.savefig(buffer, format="png", dpi=150)
        return buffer.getvalue()
