"""Every rule about a method's file and its configuration catches the file that breaks it, in its author's words."""

from __future__ import annotations

import pytest

from tests.contract.conftest import Check, broken

HERE = "        # here\n"
NAME = '    name = "toy"\n'
LINE = "    def unlearn(self, recommender, request, progress):\n"

BAD_DEFAULT = "    size: float = Field(default=0.01, ge=1, validate_default=True"

BAD_FILES = {
    "syntax": ((LINE, "    def unlearn(self, recommender:\n"), "file", "cannot be read"),
    "two classes": (
        ("        return model\n", "        return model\n\n\nclass Other(Toy):\n    name = 'other'\n"),
        "file",
        "expected one method class, found Toy, Other",
    ),
    "no class": ((NAME, ""), "file", "expected one method class, found none"),
    "a name that is taken": ((NAME, '    name = "npo"\n'), "file", "two methods are named 'npo'"),
    "a computed name": ((NAME, '    name = "-".join(["toy"])\n'), "name", "is not a string literal"),
    "a name in another spelling": ((NAME, '    name = "Toy_1"\n'), "name", "not of the form my-method"),
    "no docstring": (
        ('"""Toy (Example 2026, arXiv 0000.00000): noise on the weights.\n\nUpdates all parameters.\n"""', ""),
        "documentation",
        "the file has no docstring",
    ),
    "no line for tables": (('    """Noise on the weights."""\n', ""), "documentation", "Toy has no docstring"),
    "computed variants": (
        (' = {"toy-loud": {"size": 0.1}}', ' = {f"toy-{n}": {"size": 0.1} for n in "ab"}'),
        "variants",
        "cannot be read without importing",
    ),
    "a variant of another name": (("toy-loud", "loud"), "variants", "does not begin with the name of its method"),
    "test data": (
        ("import numpy as np", "import numpy as np\nfrom genrec_unlearn_bench.data.dataset import load_dataset"),
        "imports",
        "which methods may not see",
    ),
    "the runner": (
        ("import numpy as np", "import numpy as np\nfrom genrec_unlearn_bench.pipeline.run import run_cell"),
        "imports",
        "toy.py:14 imports genrec_unlearn_bench.pipeline.run.run_cell",
    ),
    "a missing package": (("import numpy as np", "import nothing_of_that_name"), "import", "cannot be imported"),
    "no base class": (("(UnlearningMethod[ToyConfig])", ""), "import", "is not a subclass of UnlearningMethod"),
    "nothing to call": ((LINE, LINE.replace("unlearn", "forget")), "import", "Toy does not define unlearn"),
    "a config of its own": (("(MethodConfig)", ""), "import", "Config of Toy is no subclass of MethodConfig"),
    "a bare field": (
        ('    """Standard deviation of the noise."""\n', ""),
        "config-documented",
        "ToyConfig.size has no line of documentation",
    ),
    "a default out of range": (
        ("    search = Search(size=(0.01, 0.1))\n\n    size: float = Field(default=0.01, ge=0", BAD_DEFAULT),
        "config-default",
        "size",
    ),
    "no default": (("default=0.01, ge=0", "ge=0"), "config-default", "size: Field required"),
    "a default without JSON": (("default=0.01, ge=0", "default=math.inf, ge=0"), "config-default", "no canonical form"),
    "a trial it does not take": (("size=(0.01, 0.1)", "size=(-1.0,)"), "search-space", "size: Input should be greater"),
    "a trial of no field": (("size=(0.01, 0.1)", "sise=(0.1,)"), "search-space", "did you mean 'size'"),
    "a variant of no field": (('{"size": 0.1}}', '{"sise": 0.1}}'), "variants", "did you mean 'size'"),
    "a list of needs": (
        (NAME, NAME + "    requires = [Capability.HAS_CODEBOOKS]\n"),
        "declarations",
        "not a frozenset of Capability",
    ),
    "computed needs": (
        (NAME, NAME + "    requires = frozenset(list(Capability)[:1])\n"),
        "declarations",
        "`requires` is computed",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("change", "rule", "words"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_breaks_its_rule(check: Check, change: tuple[str, str], rule: str, words: str) -> None:
    found = broken(check(change))
    assert rule in found
    text = " ".join(found[rule].reasons)
    assert words in text
    assert found[rule].hint
    assert "Traceback" not in text
    # A variant's name begins with the method's, so it breaks with it.
    assert set(found) <= {rule} | ({"variants"} if rule == "name" else set())
