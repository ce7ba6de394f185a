"""The figure of docs/does-reassignment-matter.md: what is kept against what is left of the concept, by world."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from genrec_unlearn_bench.reporting.statistics.paired import t_interval

STYLES = {
    "original": ("original", "#000000", "*"),
    "retrain": ("retrain", "#000000", "P"),
    "retain-only": ("retain-only (λ1 = 0, IDs kept)", "#999999", "o"),
    "relabel": ("relabel (λ1 = 0)", "#E69F00", "v"),
    "random-reassign[lambda_forget=0.0]": ("random IDs, λ1 = 0", "#E69F00", "<"),
    "random-reassign[lambda_forget=0.04]": ("random IDs, λ1 = .04", "#E69F00", ">"),
    "random-reassign[lambda_forget=0.4]": ("random IDs", "#E69F00", "^"),
    "tracer-no-reassignment": ("no reassignment", "#0072B2", "s"),
    "tracer-no-reassignment[lambda_forget=0.6]": ("no reassignment, λ1 = .6", "#0072B2", "p"),
    "tracer-no-reassignment[lambda_forget=1.0]": ("no reassignment, λ1 = 1", "#0072B2", "h"),
    "tracer-zero-phi": ("soft tokens, φ = 0", "#56B4E9", "D"),
    "tracer[phi_lr=0.03]": ("TRACER, φ rate .03", "#F0A0B0", "o"),
    "tracer[phi_lr=0.1]": ("TRACER, φ rate .1", "#E06070", "o"),
    "tracer[phi_lr=0.3]": ("TRACER, φ rate .3", "#CC3311", "o"),
    "tracer[phi_lr=1.0]": ("TRACER, φ rate 1", "#701808", "o"),
}
"""Row -> its title, colour and marker; what is not named here is not drawn."""
KEPT = {"retain": "retain NDCG@10", "near": "retain-near NDCG@10"}
Rows = Mapping[str, Mapping[int, Mapping[str, float]]]


def draw(worlds: Mapping[str, Rows], *files: Path) -> None:
    """Draw worlds (row -> seed -> numbers) into each of the files, the same bytes each time."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "planted", "svg.fonttype": "none", "font.size": 8})
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(
        len(KEPT), len(worlds), figsize=(2.5 * len(worlds) + 0.6, 4.6), squeeze=False, layout="constrained"
    )
    for column, (world, rows) in enumerate(worlds.items()):
        for line, (measure, title) in enumerate(KEPT.items()):
            panel = panels[line, column]
            _panel(panel, rows, measure)
            panel.set_title(world if line == 0 else "", fontsize=9, fontweight="bold")
            panel.set_ylabel(title if column == 0 else "")
            panel.set_xlabel("worst-case forget HR" if line else "")
    _legend(figure)
    for file in files:
        metadata = {"Date": None} if file.suffix == ".svg" else {"Software": None}
        figure.savefig(file, dpi=130, metadata=metadata, bbox_inches="tight")
    plt.close(figure)


def _panel(panel: Any, rows: Rows, measure: str) -> None:
    for row, (_, colour, marker) in STYLES.items():
        if row not in rows:
            continue
        values = np.array([[one["worst"], one[measure]] for one in rows[row].values()], dtype=np.float64).T
        found = t_interval(values)
        spread = np.nan_to_num(found.high - found.mean)
        panel.errorbar(
            found.mean[0],
            found.mean[1],
            xerr=spread[0],
            yerr=spread[1],
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=0.6,
            alpha=0.85,
        )
    low, high = panel.get_xlim()
    panel.set_xlim(max(low, -0.05), min(high, 1.05))
    panel.set_ylim(
        *_framed([float(np.mean([one[measure] for one in rows[row].values()])) for row in STYLES if row in rows])
    )
    panel.grid(color="0.92", linewidth=0.6)
    panel.tick_params(labelsize=7, length=2)
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)


def _framed(means: list[float]) -> tuple[float, float]:
    """Limits around the means: long intervals of few seeds leave the panel."""
    edge = 0.12 * (max(means) - min(means)) + 1e-3
    return min(means) - edge, max(means) + edge


def _legend(figure: Any) -> None:
    from matplotlib.lines import Line2D

    entries = [
        Line2D([], [], color=colour, marker=marker, markersize=5, linewidth=0, label=title)
        for title, colour, marker in STYLES.values()
    ]
    figure.legend(handles=entries, loc="outside lower center", ncols=5, frameon=False, fontsize=7.5)
