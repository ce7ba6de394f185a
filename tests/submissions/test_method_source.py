"""What a look at a method's source shows, without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.submissions.checks.methods import source_faults
from tests.submissions.honest import METHOD

FORBIDDEN = {
    "from genrec_unlearn_bench.evaluation.suite import evaluate": "imports genrec_unlearn_bench.evaluation.suite",
    "from genrec_unlearn_bench import pipeline": "imports genrec_unlearn_bench.pipeline",
    "import genrec_unlearn_bench.data.prepare as p": "imports genrec_unlearn_bench.data.prepare",
    "import os": "imports os: it reaches files",
    "from urllib.request import urlopen": "imports urllib.request: it reaches the network",
    "import subprocess": "imports subprocess: it leaves the process",
    "import pickle": "imports pickle: it unpickles",
    "import gc": "imports gc: it looks into other code",
    "rows = open('x')": "calls open: it reaches files",
    "import torch\nweights = torch.load('x')": "calls torch.load: it reaches files",
    "from transformers import T5ForConditionalGeneration as T\nt = T.from_pretrained('x')": "calls from_pretrained",
    "eval('1')": "calls eval: it reaches code that is made at run time",
    "x = (1).__class__": "uses __class__: it looks into other code",
    "TASK = 'demo-brand'": "names 'demo-brand'",
    "if name == 'industrial': lr = 1": "names 'industrial'",
}


@pytest.mark.parametrize("line", FORBIDDEN)
def test_shows(line: str) -> None:
    source = METHOD.replace("\n\nclass Mine", f"\n\n{line}\n\nclass Mine")
    found = list(source_faults(source.encode(), "mine"))
    assert [fault for fault in found if FORBIDDEN[line] in fault.what]
    assert all(fault.where.startswith("method.py, line ") and "RULES.md" in fault.hint for fault in found)


def test_documentation_may_name_what_it_likes() -> None:
    source = METHOD.replace('"""Does nothing."""', '"""Does nothing. Tried on demo-brand and industrial."""')
    assert not list(source_faults(source.encode(), "mine"))


def test_a_file_that_is_no_python() -> None:
    assert "no Python" in next(source_faults(b"def (", "mine")).what
    assert "no Python" in next(source_faults(b"x = '\0'", "mine")).what


def test_all_methods_that_ship_keep_the_rules() -> None:
    for path in sorted((Path(__file__).parents[2] / "methods").glob("[!_]*.py")):
        assert not list(source_faults(path.read_bytes(), path.stem.replace("_", "-"))), path.name


def test_a_variant_is_named_by_its_methods_file() -> None:
    source = METHOD.replace('    name = "mine"\n', '    name = "mine"\n    variants = {"mine+": {"lr": 1.0}}\n')
    assert not list(source_faults(source.encode(), "mine+"))
    assert list(source_faults(source.encode(), "mine++"))
