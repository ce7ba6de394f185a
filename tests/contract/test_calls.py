"""Every rule about calls is broken by the method that violates it, with a message for its author, and no other rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from genrec_unlearn_bench.contract.check import check_method, shortened
from genrec_unlearn_bench.errors import UnknownName, UsageError
from genrec_unlearn_bench.progress import Progress
from tests.contract.conftest import GOOD, Check, broken

HERE = "        # here\n"
NAME = '    name = "toy"\n'
CLONE = "model = recommender.clone()"


def at_end(text: str) -> tuple[str, str]:
    return HERE, f"        {text}\n"


def test_a_good_method_keeps_every_rule(check: Check) -> None:
    checked = check()
    assert broken(checked) == {}
    assert checked.sound
    left = {finding.rule: finding.reasons[0] for finding in checked.findings if finding.status == "left out"}
    assert left == {f"kind-{kind}": "not in `kinds`: refused" for kind in ("attribute", "interaction", "item", "price")}


BAD_CALLS = {
    "an error": (
        at_end("raise RuntimeError('no such layer')"),
        "runs",
        "toy.py:48 in unlearn: RuntimeError: no such layer",
    ),
    "an exit": (at_end("raise SystemExit(0)"), "runs", "toy.py:48 in unlearn: SystemExit: 0"),
    "an error in the constructor": (
        ("    def unlearn(", "    def __init__(self, config):\n        raise KeyError('lr')\n\n    def unlearn("),
        "runs",
        "toy.py:42 in __init__: KeyError: 'lr'",
    ),
    "no recommender": (at_end("return model.module"), "runs", "returned"),
    "no copy": ((CLONE, "model = recommender"), "original-untouched", "original's weights changed"),
    "a mode": (
        at_end("recommender.module.train(not recommender.module.training)"),
        "original-untouched",
        "original's training changed",
    ),
    "a frozen original": (
        at_end("recommender.module.requires_grad_(False)"),
        "original-untouched",
        "original's trainable changed",
    ),
    "a hook on the original": (
        at_end("recommender.module.register_forward_hook(lambda *given: None)"),
        "original-untouched",
        "original's hooks changed",
    ),
    "serving rules": (
        at_end("recommender.serving = replace(recommender.serving, blocked=request.items)"),
        "original-untouched",
        "original's serving changed",
    ),
    "the request": (at_end("request.items[:] = ~request.items"), "request-untouched", "changed in place"),
    "nothing": (("+= self.config.size *", "+= 0.0 *"), "changed", "equals the original to the bit"),
    "weights that are not finite": (
        at_end("next(model.module.parameters()).data.fill_(math.nan)"),
        "result-whole",
        "weights that are not finite: ",
    ),
    "no weight that is finite": (
        at_end("[weight.data.fill_(math.inf) for weight in model.module.parameters()]"),
        "result-whole",
        "holds NaN or infinity",
    ),
    "a frozen result": (at_end("model.module.requires_grad_(False)"), "result-whole", "no longer require gradients"),
    "a hook": (
        at_end("model.module.register_forward_hook(lambda *given: None)"),
        "result-whole",
        "1 hooks were left behind",
    ),
    "a hook on gradients": (
        at_end("model.module.register_full_backward_hook(lambda *given: None)"),
        "result-whole",
        "1 hooks were left behind",
    ),
    "no losses": (
        ('        progress.log("noise", 0, {"size": self.config.size})\n', ""),
        "losses",
        "no step was reported",
    ),
    "infinite losses": (('{"size": self.config.size})', '{"size": math.inf})'), "losses", "size = inf"),
    "Python's generator": (
        ('"toy")', '"toy")\n        generator.manual_seed(random.getrandbits(32))'),
        "deterministic",
        "two calls with one seed gave two results",
    ),
    "NumPy's generator": (
        ('"toy")', '"toy")\n        generator.manual_seed(int(np.random.randint(2**31)))'),
        "deterministic",
        "two calls with one seed gave two results",
    ),
    "a clock": (
        ('torch_generator(request.seed, "toy")', "torch_generator(__import__('time').perf_counter_ns())"),
        "deterministic",
        "two calls with one seed gave two results",
    ),
    "memory": (
        ("self.config.size * torch", "self.__dict__.setdefault('seen', []).append(1) or len(self.seen) * torch"),
        "deterministic",
        "two calls with one seed",
    ),
    "talk": (at_end("print('step 1')"), "quiet", "it prints 'step 1'"),
    "threads": (at_end("torch.set_num_threads(2)"), "settings", "the number of threads was 1 and is 2"),
    "gradients": (at_end("torch.set_grad_enabled(False)"), "settings", "gradients"),
    "a full disk": (at_end("raise OSError(28, 'No space left')"), "runs", "No space left"),
}


@pytest.mark.parametrize(("change", "rule", "words"), BAD_CALLS.values(), ids=BAD_CALLS)
def test_a_bad_call_breaks_its_rule(check: Check, change: tuple[str, str], rule: str, words: str) -> None:
    found = broken(check(change))
    assert rule in found
    assert words in " ".join(found[rule].reasons)
    assert found[rule].hint
    # Consequences may be reported as well; unrelated rules may not.
    follows = {
        "original-untouched": {"changed", "result-whole"},
        "request-untouched": {"deterministic"},
        "settings": {"deterministic"},
    }
    assert set(found) <= {rule} | follows.get(rule, set())


def test_an_exception_below_the_authors_file_is_located_in_it(check: Check) -> None:
    reason = broken(check(at_end("numpy_generator(request.seed).choice(0)")))["runs"].reasons[0]
    assert reason.startswith("toy.py:48 in unlearn: ValueError: ")


def test_weights_that_are_not_finite_on_another_backbone_are_reported(check: Check) -> None:
    line = "type(model).__name__ == 'T5Recommender' or next(model.module.parameters()).data.fill_(math.nan)"
    found = broken(check(at_end(line), on=("mor",)))
    assert set(found) == {"backbone-mor"}
    assert "not finite" in found["backbone-mor"].reasons[0]


@pytest.mark.slow
def test_other_kinds_and_backbones_are_tried_and_refusals_are_no_fault(check: Check) -> None:
    every = ("kinds = frozenset({ConceptKind.BRAND})", "kinds = frozenset(ConceptKind)")
    needy = (NAME, NAME + "    requires = frozenset({Capability.TEXT_TASKS})\n")
    narrow = at_end(
        "assert request.items.any(), 'no items'\n        assert type(model).__name__ == 'T5Recommender', 'T5 alone'"
    )
    found = broken(check(every, narrow, on=("mor",)))
    assert set(found) == {"kind-interaction", "backbone-mor"}
    assert "no items" in found["kind-interaction"].reasons[0]
    assert "leave interaction out of `kinds`" in found["kind-interaction"].hint
    assert "T5 alone" in found["backbone-mor"].reasons[0]
    assert "text_tasks" in broken(check(needy))["runs"].reasons[0]
    assert check(("ConceptKind.BRAND", "ConceptKind.ITEM")).sound


def test_what_is_no_method_is_a_wrong_call(tmp_path: Path) -> None:
    path = tmp_path / "toy.py"
    path.write_text(GOOD, encoding="utf-8")
    wrong = {"retrain": UsageError, "trcaer": UnknownName, f"{path}:Tyo": UnknownName, f"{path}.py": UsageError}
    for text, kind in wrong.items():
        with pytest.raises(kind):
            check_method(text, cache_dir=tmp_path, progress=Progress())


@pytest.mark.slow
def test_a_variant_is_checked_as_what_it_is(toy_cache: Path) -> None:
    checked = check_method("grad-diff-kl", cache_dir=toy_cache, progress=Progress(), on=())
    assert checked.sound
    assert {finding.rule for finding in checked.findings if finding.status == "left out"} == {"variants"}


def test_lengths_are_cut_and_nothing_else() -> None:
    long = {"lr": 0.1, "epochs": 40, "max_steps": None, "training": {"epochs": 1, "valid_rows": 5000, "dropout": 0.1}}
    assert shortened(long) == {
        "lr": 0.1,
        "epochs": 2,
        "max_steps": 15,
        "training": {"epochs": 1, "valid_rows": 64, "dropout": 0.1},
    }
