"""A step of training and of TRACER: with the layers and groups of the bench against without, and against a naive loop.

Same gradients, same run; run with ``-s`` to see the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import numpy as np
import pytest
import torch

from genrec_unlearn_bench.backbones import cpu_layers, t5
from genrec_unlearn_bench.backbones.config import T5Shape
from genrec_unlearn_bench.backbones.cpu_kernels import bfloat16_products
from genrec_unlearn_bench.backbones.minionerec import recommender as minionerec
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.prompts import PromptBatch
from genrec_unlearn_bench.backbones.minionerec.recommender import CausalRecommender
from genrec_unlearn_bench.backbones.minionerec.training import PrefixChains
from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.backbones.t5 import T5Recommender
from genrec_unlearn_bench.backbones.training import NextItem, TrainingTask, training_batches
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.data.forget import ConceptKind
from genrec_unlearn_bench.seeding import numpy_generator
from genrec_unlearn_bench.unlearning.descent import backward
from genrec_unlearn_bench.unlearning.losses.suppression import Objective, UnlearningLossConfig
from genrec_unlearn_bench.unlearning.request import ForgetRequest
from genrec_unlearn_bench.unlearning.sampling import PairedBatch, paired_batches, positive_set
from tests import planted
from tests.benchmarks.timing import duel

pytestmark = pytest.mark.speed

HISTORY, ROWS = 10, 64
FAMILIES = ["t5", "causal"]
SHARES = (0.3, 0.2, 0.1, 0.1, 0.08, 0.06, 0.05, 0.04, 0.04, 0.03)
"""Of histories of one item, of two ... of ten: about those of Industrial."""


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """One, so that processor time is measured."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def made(family: str, dropout: float = 0.0) -> Recommender:
    """Of the size of scale ``small``."""
    if family == "t5":
        shape = T5Shape(d_model=128, d_kv=32, d_ff=512, layers=2, heads=4, history_limit=HISTORY, dropout=dropout)
        return T5Recommender.fresh(shape, planted.sids(), seed=0)
    network = NetworkShape(hidden=128, ffn=384, layers=3, heads=4, groups=2)
    return CausalRecommender.fresh(
        CausalShape(network=network, history_limit=HISTORY, dropout=dropout), planted.sids(), seed=0
    )


def module_of(family: str) -> ModuleType:
    return t5 if family == "t5" else minionerec


def examples() -> Examples:
    """Histories of as many lengths as real ones."""
    every = planted.examples(planted.sequences(900, HISTORY + 1, 1))
    lengths = every.history_lengths(HISTORY)
    rows = [np.flatnonzero(lengths == n)[: int(900 * share)] for n, share in enumerate(SHARES, start=1)]
    return every.subset(np.sort(np.concatenate(rows)))


def request() -> ForgetRequest:
    marked, valid = planted.concept(), planted.examples(planted.sequences(6, 7, 2))
    return ForgetRequest(
        catalogue=planted.catalogue(),
        kind=ConceptKind.BRAND,
        items=marked,
        pairs=np.zeros((0, 2), dtype=np.int64),
        train=planted.groups(examples(), marked),
        valid=planted.groups(valid, marked),
        features=planted.features(planted.sids()),
        seed=0,
    )


def gradient(model: Recommender) -> torch.Tensor:
    return torch.cat([p.grad.flatten() for p in model.module.parameters() if p.grad is not None])


@pytest.mark.parametrize(
    ("peer", "precision", "floors"),
    [
        ("PyTorch's layers", "float32", (1.25, 1.25)),
        ("a layer in parts", "float32", (1.1, 1.2)),
        ("a layer in parts", "bfloat16", (1.3, 1.4)),
    ],
)
@pytest.mark.parametrize("family", FAMILIES)
def test_training_step(
    family: str, peer: str, precision: str, floors: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step as scale ``small`` takes it, at dropout 0.1, against the layers of PyTorch and transformers, and against
    the way before layers were one step: oneDNN's products, 32 random bits an element, all positions of a chain."""
    if precision == "bfloat16" and not torch.cpu._is_avx512_bf16_supported():
        pytest.skip("the processor has no products in bfloat16")
    quick = made(family, 0.1)
    with monkeypatch.context() as patch:
        if peer == "PyTorch's layers":
            patch.setattr(module_of(family), "use_cpu_kernels", lambda network: None)
        plain = made(family, 0.1)
    part = examples()
    tasks = [NextItem(one, part) if family == "t5" else PrefixChains(one, part) for one in (quick, plain)]  # type: ignore[arg-type]
    size = 256 if family == "t5" else ROWS
    rows = list(training_batches(tasks[0].lengths, size, seed=0, total=3))

    def step(task: TrainingTask, model: Recommender) -> None:
        model.module.train()
        for batch in rows:
            model.module.zero_grad()
            backward(task.loss(batch))

    def before() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(cpu_layers, "_whole", lambda *parts: False)
            patch.setattr(cpu_layers, "dropout_mask", _mask_of_32_bits)
            patch.setattr(PromptBatch, "before", lambda prompts, end: prompts)
            step(tasks[1], plain)

    def ours() -> None:
        with bfloat16_products(precision == "bfloat16"):
            step(tasks[0], quick)

    result, _, _ = duel(ours, before, rounds=3)
    result.report(f"training step ({family}, {precision})", peer=peer)
    assert result.ratio >= floors[FAMILIES.index(family)]


def _mask_of_32_bits(shape: torch.Size, p: float) -> torch.Tensor:
    words = torch.empty((shape.numel() + 1) // 2, dtype=torch.int64).random_(-(1 << 63), None)
    kept = words.view(torch.int32)[: shape.numel()].view(shape) >= round(p * (1 << 32)) - (1 << 31)
    return kept.float().mul_(1 / (1 - p))


@pytest.mark.parametrize("family", FAMILIES)
def test_tracer_step_against_the_same_without(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With and without the layers and the groups of similar length."""
    wanted = request()
    batch = next(iter(paired_batches(wanted.train, ROWS, numpy_generator(0, "speed"))))
    objective = Objective(UnlearningLossConfig(), wanted, planted.sids())
    quick, module = made(family), module_of(family)
    grouped = module.length_groups
    with monkeypatch.context() as patch:
        patch.setattr(module, "use_cpu_kernels", lambda network: None)
        plain = made(family)

    def step(model: Recommender) -> torch.Tensor:
        whole = model is plain
        monkeypatch.setattr(module, "length_groups", _one_group if whole else grouped)
        model.module.eval().zero_grad()
        backward(objective.losses(model, batch.forget, batch.retain).total(objective.config))
        return gradient(model)

    result, one, two = duel(lambda: step(quick), lambda: step(plain), rounds=4)
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)
    result.report(f"TRACER's network step ({family})", peer="whole batches, PyTorch's layers")
    assert result.ratio >= 1.3


@pytest.mark.parametrize("family", FAMILIES)
def test_tracer_step_against_one_pass_a_positive(family: str) -> None:
    """The same losses with the layers on both sides; the naive loop reads a history again for each of its answers."""
    wanted = request()
    batch = next(iter(paired_batches(wanted.train, ROWS, numpy_generator(0, "speed"))))
    objective = Objective(UnlearningLossConfig(), wanted, planted.sids())
    model = made(family)
    model.module.eval()

    def ours() -> torch.Tensor:
        model.module.zero_grad()
        backward(objective.losses(model, batch.forget, batch.retain).total(objective.config))
        return gradient(model)

    def naive() -> torch.Tensor:
        model.module.zero_grad()
        _one_pass_a_positive(model, objective.config, wanted, batch)
        return gradient(model)

    result, one, two = duel(ours, naive, rounds=4)
    torch.testing.assert_close(one, two, rtol=1e-3, atol=1e-5)
    result.report(f"TRACER's network step ({family})", peer="one pass a positive")
    assert result.ratio >= 2.0


def _one_group(lengths: torch.Tensor) -> list[torch.Tensor]:
    return [torch.arange(len(lengths))]


def _one_pass_a_positive(
    model: Recommender, config: UnlearningLossConfig, wanted: ForgetRequest, batch: PairedBatch
) -> None:
    table = model.sids
    histories = batch.forget.histories(HISTORY)
    positives = positive_set(wanted.features, table, batch.forget.targets, wanted.items, config.neighbours)
    tokens = int((positives >= 0).sum()) * table.levels
    for column in positives.T:
        rows = np.flatnonzero(column >= 0)
        if len(rows):
            log_probs = model.forward(histories.rows(rows), column[rows]).token_log_probs()
            backward(-config.lambda_coherence * log_probs.sum() / tokens)
    floor = -torch.tensor(table.quantised_sizes, dtype=torch.float32).log()
    log_probs = model.forward(histories, batch.forget.targets).token_log_probs()
    backward(config.lambda_forget * torch.maximum(log_probs[:, : len(floor)], floor).mean())
    retain = model.forward(batch.retain.histories(HISTORY), batch.retain.targets)
    backward(-retain.token_log_probs().mean())
