"""Fetch files of a dataset repository of the Hugging Face Hub, at a pinned commit, into a dataset's own folder.

Loading scripts are not run: ``datasets`` knows none any more, and the files behind them can be read as they are. Once
fetched, the files are found, digested and read like any others.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path

from genrec_unlearn_bench.data.catalogue import FileSpec, HubSource
from genrec_unlearn_bench.progress import Progress


def fetch_from_hub(hub: HubSource, missing: list[FileSpec], target: Path, progress: Progress) -> str | None:
    """Fetch the missing files into ``target``; returns the reason where that cannot be done.

    Of a file's names (wild cards allowed) the first that the repository has is taken.
    """
    from huggingface_hub import HfApi, hf_hub_download

    try:
        there = HfApi().list_repo_files(hub.repo, repo_type="dataset", revision=hub.revision)
        for file in missing:
            chosen = next((found for name in file.names if (found := _matching(name, there))), None)
            if chosen is None:
                return f"{hub.repo} has no file {' or '.join(file.names)} at {hub.revision[:12]}"
            for name in chosen:
                progress.info(f"fetching {name} of {hub.repo} into {target}")
                hf_hub_download(hub.repo, name, repo_type="dataset", revision=hub.revision, local_dir=target)
    except Exception as fault:
        # Its errors have many bases (requests, httpx, OSError, ValueError) that change between releases.
        return f"{hub.repo} on the Hugging Face Hub: {' '.join(str(fault).split())[:300] or type(fault).__name__}"
    return None


def _matching(name: str, there: list[str]) -> list[str]:
    """The files that a name means, in order; a wild card stands for no slash, as in a folder."""
    return sorted(one for one in there if one.count("/") == name.count("/") and fnmatchcase(one, name))
