"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

AsJson = Annotated[bool, Option("--json", help="Print JSON on stdout instead of a table.")]
Debug = Annotated[bool, Option("--debug", help="Show the traceback of an error.")]
DataDir = Annotated[
    Path | None, Option(help="Folder with the dataset's files, or with one folder for each dataset.", metavar="DIR")
]
CacheDir = Annotated[
    Path | None,
    Option(
        help="Where computed stages are kept (default: $GENREC_UNLEARN_BENCH_CACHE, or the user's cache).",
        metavar="DIR",
    ),
]
Sandbox = Annotated[
    bool,
    Option(
        "--sandbox/--no-sandbox",
        help="Run a submitted method inside bubblewrap; without it only code you trust, and the badge says so.",
    ),
]
SharedCache = Annotated[
    Path | None,
    Option(
        help="A store that is read where one's own has nothing, and never written "
        "(default: $GENREC_UNLEARN_BENCH_SHARED_CACHE).",
        metavar="DIR",
    ),
]

# What a run is made of.

Task = Annotated[str, Option(help="Task, or the path of a task's YAML (bench ls tasks).")]
Method = Annotated[
    list[str], Option(help="Method or reference row; several with commas or repeated; path/to/file.py:Class works.")
]
Backbone = Annotated[str, Option(help="Backbone (bench ls backbones).")]
Backbones = Annotated[
    list[str], Option("--backbone", help="Backbone; several with commas or repeated, or all (bench ls backbones).")
]
Seed = Annotated[list[int] | None, Option(help="Training seed; repeat for several (default: 0).", min=0)]
Scale = Annotated[str | None, Option(help="smoke, small, paper or official (default: smoke on demo, small elsewhere).")]
Suite = Annotated[str, Option(help="Which measurements are taken: core or full (bench ls metrics).")]
Measure = Annotated[
    list[str] | None,
    Option(help="Of the suite full, this measurement alone; several with commas or repeated.", metavar="NAME"),
]
SetMeasure = Annotated[
    list[str] | None, Option(help="Change a field of a measurement's configuration: relearning.lr=1e-5.")
]
Encoder = Annotated[
    str | None, Option(help="tfidf, minilm, a sentence-transformers folder or hub id (default: by scale).")
]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[
    int | None, Option(help="CPU threads (default: one at smoke scale, else the physical cores).", min=1)
]
Set = Annotated[list[str] | None, Option("--set", help="Change a field of the method's configuration: key=value.")]
SetBackbone = Annotated[list[str] | None, Option(help="Change a field of the backbone's: training.epochs=20.")]
SetSid = Annotated[list[str] | None, Option(help="Change a field of the tokenizer's: codes=128.")]
Ruleset = Annotated[
    str, Option(help="Method configurations: default, fixed (one for all tasks) or tuned (bench tune).")
]
TunedDir = Annotated[Path, Option(help="Where the choices of bench tune lie.", metavar="DIR")]
OracleSeeds = Annotated[
    int, Option(help="Retrained models that the gap is taken against; 0 trains none.", min=0, max=20)
]
Beam = Annotated[int, Option(help="Beam width shown in the table: 10 (the paper's) or 50.")]
Requests = Annotated[
    int,
    Option(help="Divide the forget set by concept into so many requests, each applied to the last one's model.", min=1),
]
Shadows = Annotated[
    int,
    Option(help="With --suite full: shadow models to train for U-LiRA, an even number (default: none).", min=0, max=64),
]
Trackers = Annotated[
    list[str] | None,
    Option(
        "--tracker", help="Show losses while they come: tensorboard, or another tracker of accelerate.", metavar="NAME"
    ),
]
TrackerDir = Annotated[Path, Option(help="Where trackers that write files put them.", metavar="DIR")]
ResultsDir = Annotated[Path, Option(help="Where results are written.", metavar="DIR")]


def examples(*lines: str) -> str:
    """Epilog of a verb's help: one example a paragraph, so that none is wrapped into the next."""
    return "\n\n".join(["Examples:", *(f"  $ {line}" for line in lines)])
