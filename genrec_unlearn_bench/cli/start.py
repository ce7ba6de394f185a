"""Console script ``bench``: handles interrupts before anything else is imported, then starts the command line."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def run() -> None:
    """Entry point. Nothing has been started while the modules are imported, so an interrupt just ends the process."""
    # A shell's background job ignores interrupts from its start, and goes on doing so.
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _end)
    signal.signal(signal.SIGTERM, _end)
    _open_standard_streams()
    from genrec_unlearn_bench.cli.main import run as run_app

    try:
        run_app()
    except SystemExit as end:
        if end.code != INTERRUPTED:
            raise
        # Everything has been cleaned up. While the interpreter shuts down, another Ctrl-C would kill it by the signal.
        sys.stdout.flush()
        os._exit(INTERRUPTED)


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"interrupted\n")
    os._exit(INTERRUPTED)


def _open_standard_streams() -> None:
    """End with a message where stdout is closed (``>&-``), and let text that a stream cannot encode be replaced.

    A closed descriptor would be taken by the next file that is opened, and libraries would print into it.
    """
    opened = []
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:
        opened.append(number)
    os.close(number)
    if 1 in opened:
        os.write(2, b"error: stdout is closed\n  hint:  redirect it to a file, or to /dev/null\n")
        os._exit(2)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
