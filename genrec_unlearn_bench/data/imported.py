"""Where imported datasets lie: a file in the user's data folder with each one's name and folder.

``bench data import`` writes it, so that the dataset and its tasks are known by name wherever a command is called.
"""

from __future__ import annotations

import json
from pathlib import Path

from genrec_unlearn_bench.errors import CorruptArtefact
from genrec_unlearn_bench.files import atomic_text

FILE = "imported.json"


def imported_folders(roots: list[Path]) -> dict[str, Path]:
    """The folder of every imported dataset by name; of two roots the first counts. Raises CorruptArtefact."""
    found: dict[str, Path] = {}
    for root in roots:
        try:
            content = json.loads((root / FILE).read_bytes())
            entries = {str(name): Path(folder) for name, folder in content.items()}
        except FileNotFoundError:
            continue
        except (OSError, ValueError, AttributeError, TypeError) as fault:
            raise CorruptArtefact(
                f"the list of imported datasets cannot be read: {fault}",
                where=str(root / FILE),
                hint="remove the file, and import the datasets again (bench data import)",
            ) from None
        found = entries | found
    return found


def remember_import(name: str, folder: Path, root: Path) -> None:
    """Make a dataset known by name; an earlier one of that name, or in that folder, gives way. Raises StorageError."""
    folder = folder.resolve()
    known = {other: str(place) for other, place in imported_folders([root]).items() if place != folder}
    text = json.dumps({**known, name: str(folder)}, indent=2, ensure_ascii=False)
    atomic_text(root / FILE, f"{text}\n", "the data folder")
