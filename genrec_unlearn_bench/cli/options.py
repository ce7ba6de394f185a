"""Options that several verbs share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

DataDir = Annotated[
    Path | None, Option(help="Folder of the dataset's files, or of folders of datasets.", metavar="DIR")
]
CacheDir = Annotated[
    Path | None,
    Option(
        help="Where computed stages are kept (default: $GENREC_UNLEARN_BENCH_CACHE).",
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
        help="A cache that is only read (default: $GENREC_UNLEARN_BENCH_SHARED_CACHE).",
        metavar="DIR",
    ),
]

# What a run is made of.

Task = Annotated[str, Option(help="Task, or the path of a task's YAML (bench ls tasks).")]
Method = Annotated[list[str], Option(help="Methods or reference rows; path/to/file.py:Class works.")]
Backbone = Annotated[str, Option(help="Backbone (bench ls backbones).")]
Backbones = Annotated[list[str], Option("--backbone", help="Backbones, or all (bench ls backbones).")]
Seed = Annotated[list[int] | None, Option(help="Training seed; repeat for several (default: 0).", min=0)]
Scale = Annotated[str | None, Option(help="smoke, small, paper or official (default: smoke on demo, small elsewhere).")]
Suite = Annotated[str, Option(help="Which measurements are taken: core or full (bench ls metrics).")]
Measure = Annotated[
    list[str] | None,
    Option(help="Of the suite full, only this measurement; several.", metavar="NAME"),
]
SetMeasure = Annotated[list[str] | None, Option(help="Change a measurement's field: relearning.lr=1e-5.")]
Encoder = Annotated[str | None, Option(help="tfidf, minilm, a sentence-transformers folder or hub id.")]
Device = Annotated[str, Option(help="auto, cpu, cuda or cuda:N.")]
Threads = Annotated[int | None, Option(help="CPU threads (default: one at smoke scale, else all cores).", min=1)]
Set = Annotated[list[str] | None, Option("--set", help="Change a field of the method's configuration: key=value.")]
SetBackbone = Annotated[list[str] | None, Option(help="Change a field of the backbone's: training.epochs=20.")]
SetSid = Annotated[list[str] | None, Option(help="Change a field of the tokenizer's: codes=128.")]
Ruleset = Annotated[str, Option(help="Method configurations: default, fixed (one for all tasks) or tuned.")]
TunedDir = Annotated[Path, Option(help="Where the choices of bench tune lie.", metavar="DIR")]
OracleSeeds = Annotated[int, Option(help="Retrained models for the gap; 0 trains none.", min=0, max=20)]
Beam = Annotated[int, Option(help="Beam width shown in the table: 10 (the paper's) or 50.")]
Requests = Annotated[
    int,
    Option(help="So many requests, one after the other, instead of one.", min=1),
]
Shadows = Annotated[
    int,
    Option(help="With --suite full: shadow models for U-LiRA, an even number.", min=0, max=64),
]
Trackers = Annotated[
    list[str] | None,
    Option("--tracker", help="Stream losses: tensorboard, or another tracker of accelerate.", metavar="NAME"),
]
TrackerDir = Annotated[Path, Option(help="Where trackers that write files put them.", metavar="DIR")]
ResultsDir = Annotated[Path, Option(help="Where results are written.", metavar="DIR")]

# Of grids.

Grid = Annotated[str, Argument(help="A grid's file, or the name of one that ships (bench ls grids).", metavar="GRID")]
GridDevice = Annotated[
    str | None, Option("--device", help="auto, cpu, cuda or cuda:N (default: as the grid says).", show_default=False)
]
