"""The folders of a leaderboard with who stands behind them: the suite's own results and every submission."""

from __future__ import annotations

from pathlib import Path

from genrec_unlearn_bench.reporting.results import Source
from genrec_unlearn_bench.submissions.spec import SPEC, Submission, read_spec
from genrec_unlearn_bench.submissions.verification import trusted_badge

__all__ = ["RESULTS", "SUBMISSIONS", "published_sources"]

RESULTS = "results"
SUBMISSIONS = "submissions"


def published_sources(root: Path) -> list[tuple[Source, Path]]:
    """Every source below a leaderboard's folder that has results, with the folder to read them from; by name.

    The badge is the verification's if that is of this very content, else self-reported.

    Raises ConfigError for a submission whose ``submission.yaml`` cannot be read.
    """
    found = []
    own = root / RESULTS
    if own.is_dir():
        found.append((Source(badge=trusted_badge(own)), own))
    for path in sorted((root / SUBMISSIONS).glob(f"*/{SPEC}")):
        results, spec = path.parent / RESULTS, read_spec(path.parent)
        if results.is_dir() and spec is not None:
            found.append((_source(spec, path.parent), results))
    return found


def _source(spec: Submission, folder: Path) -> Source:
    paper = spec.paper
    arxiv = f"https://arxiv.org/abs/{paper.arxiv}" if paper is not None and paper.arxiv else ""
    return Source(
        name=spec.name,
        title=spec.title,
        authors=tuple(author.name for author in spec.authors),
        link=(paper.url if paper is not None else None) or arxiv or spec.code or "",
        bibtex=(paper.bibtex if paper is not None else None) or "",
        badge=trusted_badge(folder),
    )
