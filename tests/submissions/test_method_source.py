"""What a look at a method's source shows, without importing it."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.submissions.method_checks import lint
from tests.submissions.honest import METHOD

FORBIDDEN = {
    "from genrec_unlearn_bench.evaluation.suite import evaluate": "imports genrec_unlearn_bench.evaluation.suite",
    "from genrec_unlearn_bench import pipeline": "imports genrec_unlearn_bench.pipeline",
    "import genrec_unlearn_bench.data.prepare as p": "imports genrec_unlearn_bench.data.prepare",
    "import genrec_unlearn_bench": "imports genrec_unlearn_bench:",
    "from . import tracer": "imports ..tracer",
    "import os": "imports os: it is not on the list",
    "from urllib.request import urlopen": "imports urllib.request.urlopen",
    "import subprocess": "imports subprocess",
    "import pickle": "imports pickle",
    "import gc": "imports gc",
    "import safetensors.torch": "imports safetensors.torch",
    "import _io": "imports _io",
    "rows = open('x')": "uses open: it reaches files",
    "import torch\nweights = torch.load('x')": "uses load: it reaches files",
    "import torch as t\nx = t.serialization.io.FileIO('x')": "uses serialization: it reaches files",
    "from transformers import T5ForConditionalGeneration as T\nt = T.from_pretrained('x')": "uses from_pretrained",
    "eval('1')": "uses eval: it reaches files",
    "f = eval\nf('1')": "uses eval: it reaches files",
    "x = __builtins__['open']": "uses __builtins__: it reaches files",
    "x = (1).__class__": "uses __class__: it reaches files",
    "TASK = 'demo-brand'": "names 'demo-brand'",
    "if name == 'industrial': lr = 1": "names 'industrial'",
}


@pytest.mark.parametrize("line", FORBIDDEN)
def test_shows(line: str) -> None:
    source = METHOD.replace("\n\nclass Mine", f"\n\n{line}\n\nclass Mine")
    found = list(lint(source.encode(), "mine"))
    assert [fault for fault in found if FORBIDDEN[line] in fault[1]]
    assert all(fault[0].startswith("method.py, line ") for fault in found)


def test_documentation_may_name_what_it_likes() -> None:
    source = METHOD.replace('"""Does nothing."""', '"""Does nothing. Tried on demo-brand and industrial."""')
    assert not list(lint(source.encode(), "mine"))


def test_a_file_that_is_no_python() -> None:
    assert "no Python" in next(lint(b"def (", "mine"))[1]
    assert "no Python" in next(lint(b"x = '\0'", "mine"))[1]


def test_all_methods_that_ship_keep_the_rules() -> None:
    for path in sorted((Path(__file__).parents[2] / "methods").glob("[!_]*.py")):
        assert not list(lint(path.read_bytes(), path.stem.replace("_", "-"))), path.name


def test_a_variant_is_named_by_its_methods_file() -> None:
    source = METHOD.replace('    name = "mine"\n', '    name = "mine"\n    variants = {"mine+": {"lr": 1.0}}\n')
    assert not list(lint(source.encode(), "mine+"))
    assert list(lint(source.encode(), "mine++"))
