"""Take over results that others have published: a submission, or a tree of results, that passes every check."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from genrec_unlearn_bench.data.download import download
from genrec_unlearn_bench.errors import BenchError
from genrec_unlearn_bench.files import atomic_folder
from genrec_unlearn_bench.pipeline.results import result_folder
from genrec_unlearn_bench.progress import Progress
from genrec_unlearn_bench.submissions.bundle import opened
from genrec_unlearn_bench.submissions.verification import verify


def pull(source: str, results_dir: Path, progress: Progress) -> dict[Path, bool]:
    """Copy the results of a folder, a zip file or the http(s) address of one; what is there is not written over.

    Returns the folder of every result, and whether it is new.

    Raises:
        Refused, UsageError, DataMissing: It cannot be opened or downloaded.
        BenchError: It does not pass ``bench submission verify``; nothing was copied.
        StorageError: The results folder cannot be written.
    """
    with tempfile.TemporaryDirectory(prefix="bench-pull-") as place:
        path, hint = Path(source), f"bench submission verify {source}"
        if source.startswith(("http://", "https://")):
            path, hint = Path(place) / "results.zip", "download the file: `bench submission verify` names all faults"
            download(source, path, progress)
        with opened(path) as bundle:
            if faults := verify(bundle).faults:
                what = f"checks that fail: {len(faults)}, the first: {faults[0].what}"
                raise BenchError(what, where=f"{source}: {faults[0].where}", hint=hint)
            pulled = {}
            for result in bundle.results:
                target = result_folder(results_dir, result.record.cell, result.record.key)
                pulled[target] = not target.exists()
                if pulled[target]:
                    with atomic_folder(target, "--results-dir") as draft:
                        shutil.copytree(bundle.root / result.place, draft, dirs_exist_ok=True)
            return pulled
