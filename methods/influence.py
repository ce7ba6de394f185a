"""Influence functions: one Newton step away from the forget data (IFRU, Zhang et al. 2023, arXiv 2307.02147).

θ = θ0 + s (Ḡ + λI)^-1 g / n_r, n_r being the number of cleaned retain examples. The gradient g sums over D_f the
gradient of the loss, and over retain examples whose history holds something to be forgotten the difference that it
makes there ("spillover"): g = Σ_{D_f} ∇ℓ(x, y) + Σ_{D_r, x'≠x} [∇ℓ(x, y) − ∇ℓ(x', y)], x' being the cleaned
history; an empty x' has no second term, as retraining drops the example. ℓ is the mean over a target's tokens, so that
targets of any length count alike. Ḡ = mean J^T S J with S = diag(p) − pp^T is the Gauss-Newton matrix of the mean loss
over a fixed sample of cleaned retain examples; it is positive semi-definite, so the system is solved by conjugate
gradients. λ = δ λ_max(Ḡ). To first order this is the way to retraining on the cleaned retain data. Updates the last
decoder block or all parameters; the record holds the number of iterations, the residual and the predicted change.

Deviations from the official code, which is for LightGCN and matrix factorisation: it solves with the Hessian by Adam
and stops on validation AUC; here it is Gauss-Newton and conjugate gradients with a fixed tolerance. It moves the
embeddings of affected nodes only; tokens of SIDs are shared by all items, so nothing is selected by rows. A trust
region (ours) shrinks s until the predicted KL on retain data, Δ^T Ḡ Δ / 2, is at most ``max_kl``. IFRU deletes 1 to 2 %
of the data; a first-order step falls short on 10 %. θ0 is assumed to be stationary, and early stopping breaks that. All
in float32 and evaluation mode; for models with adapters only parameters that train are moved. Item-text samples are not
unlearned. Requests for single interactions need no changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.cpu_layers import twice_differentiable
from genrec_unlearn_bench.backbones.recommender import StepOutput, eval_mode
from genrec_unlearn_bench.data.examples import Examples
from genrec_unlearn_bench.seeding import torch_generator
from genrec_unlearn_bench.unlearning.anatomy import anatomy
from genrec_unlearn_bench.unlearning.likelihood import forward, sequence_nll, target_lengths
from genrec_unlearn_bench.unlearning.losses.retain_loss import note_damage
from genrec_unlearn_bench.unlearning.method import ForgetRequest, MethodConfig, Progress, Recommender, UnlearningMethod
from genrec_unlearn_bench.unlearning.sampling import at_most, example_batches
from genrec_unlearn_bench.unlearning.search import Search

Vector = list[Tensor]
"""One tensor per parameter."""
POWER_ITERATIONS = 10


class InfluenceConfig(MethodConfig):
    """The linear system and the length of the step."""

    search = Search(damping=(1e-3, 1e-2, 1e-1), scale=(1.0, 3.0), scope=("last", "all"))

    damping: float = Field(default=1e-2, gt=0)
    """δ, damping λ as a share of the largest eigenvalue."""
    scale: float = Field(default=1.0, ge=0)
    """s, length of the step; 1 is the Newton step."""
    scope: Literal["last", "all"] = "last"
    """Parameters to move: the last decoder block's, or all."""
    spillover: bool = True
    """Include what forgotten items in retain histories add to the gradient."""
    curvature_rows: int = Field(default=2048, ge=1)
    """Retain examples behind the Gauss-Newton matrix."""
    iterations: int = Field(default=30, ge=1)
    """Largest number of conjugate gradient iterations."""
    tolerance: float = Field(default=1e-3, gt=0)
    """Residual, as a share of the right-hand side's norm, at which the iterations end."""
    max_kl: float = Field(default=0.05, gt=0)
    """Largest predicted KL per token on retain data, in nats."""
    batch_size: int = Field(default=128, ge=1)
    """Examples per backward pass; changes memory and rounding only."""


class Influence(UnlearningMethod[InfluenceConfig]):
    """A damped Gauss-Newton step that takes the forget data's gradient back."""

    name = "influence"
    Config = InfluenceConfig

    def unlearn(self, recommender: Recommender, request: ForgetRequest, progress: Progress) -> Recommender:
        config = self.config
        model = recommender.clone()
        module = anatomy(model).decoder[-1].module if config.scope == "last" else model.module
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        retain = request.cleaned(request.train.retain)
        if not len(retain) or not len(request.train.forget):
            return model
        with eval_mode(model.module), twice_differentiable():
            gradient = self._gradient(model, request, parameters, progress)
            sample = at_most(retain, config.curvature_rows, request.seed, self.name, "curvature")

            def curvature(vector: Vector) -> Vector:
                return gauss_newton(model, sample, parameters, vector, config.batch_size)

            largest = largest_eigenvalue(curvature, parameters, request.seed)
            target = [value / len(retain) for value in gradient]
            progress.note("influence.damping", config.damping * largest)

            def damped(vector: Vector) -> Vector:
                shift = config.damping * largest
                return [each + shift * own for each, own in zip(curvature(vector), vector, strict=True)]

            limits = config.iterations, config.tolerance
            step, iterations, residual = conjugate_gradients(damped, target, *limits, progress)
            predicted = 0.5 * dot(step, curvature(step))
        scale = min(config.scale, math.sqrt(config.max_kl / max(predicted, 1e-30)))
        notes = {"iterations": iterations, "residual": residual, "scale": scale, "predicted_kl": scale**2 * predicted}
        for name, value in notes.items():
            progress.note(f"influence.{name}", value)
        with torch.no_grad():
            for parameter, change in zip(parameters, step, strict=True):
                parameter.add_(change.to(parameter.dtype), alpha=scale)
        note_damage(model, recommender, request, progress)
        return model

    def _gradient(
        self, model: Recommender, request: ForgetRequest, parameters: Sequence[nn.Parameter], progress: Progress
    ) -> Vector:
        """g, the right-hand side, in nats."""
        size = self.config.batch_size
        total = summed_gradient(model, request.train.forget, parameters, size)
        if self.config.spillover:
            retain = request.train.retain
            cleaned = retain.drop_events(request.forgotten_events(retain))
            lengths = cleaned.history_lengths()
            changed = lengths < retain.history_lengths()
            progress.note("influence.changed_histories", int(changed.sum()))
            progress.note("influence.emptied_histories", int((changed & (lengths == 0)).sum()))
            for sign, part in ((1.0, retain.subset(changed)), (-1.0, cleaned.subset(changed & (lengths > 0)))):
                part_gradient = summed_gradient(model, part, parameters, size)
                for value, more in zip(total, part_gradient, strict=True):
                    value.add_(more, alpha=sign)
        return total


def dot(one: Vector, other: Vector) -> float:
    return sum(float((a.double() * b.double()).sum()) for a, b in zip(one, other, strict=True))


def summed_gradient(model: Recommender, part: Examples, parameters: Sequence[nn.Parameter], size: int) -> Vector:
    """Σ ∇ℓ(x, y) over the examples; ℓ is the mean NLL of the target's tokens, in nats."""
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for batch in example_batches(part, size):
        output = forward(model, batch)
        loss = (sequence_nll(output) / target_lengths(output)).sum()
        for value, more in zip(total, _gradients(loss, parameters), strict=True):
            value.add_(more)
    return total


def gauss_newton(
    model: Recommender, part: Examples, parameters: Sequence[nn.Parameter], vector: Vector, size: int
) -> Vector:
    """Ḡv: mean over the examples of J^TSJv, in the scale of ``summed_gradient``'s ℓ.

    Jv is the derivative of J^Tu by u in direction v, so that backward passes are enough.
    """
    total = [torch.zeros_like(parameter) for parameter in parameters]
    for batch in example_batches(part, size):
        output = forward(model, batch)
        dual = torch.zeros_like(output.logits, requires_grad=True)
        pulled = torch.autograd.grad(output.logits, parameters, dual, create_graph=True, allow_unused=True)
        used = [(each, own) for each, own in zip(pulled, vector, strict=True) if each is not None]
        inner = torch.stack([(each * own).sum() for each, own in used]).sum()
        (pushed,) = torch.autograd.grad(inner, dual, retain_graph=True)
        weighted = _output_curvature(output, pushed.detach()) / len(part)
        products = torch.autograd.grad(output.logits, parameters, weighted, allow_unused=True)
        for value, more in zip(total, products, strict=True):
            if more is not None:
                value.add_(more)
    return total


def _output_curvature(output: StepOutput, direction: Tensor) -> Tensor:
    """[R, L, V] (diag(p) − pp^T) times ``direction``, divided by the number of real tokens of the row's target."""
    probabilities = output.logits.detach().softmax(-1)
    centred = direction - (probabilities * direction).sum(-1, keepdim=True)
    mask = torch.ones_like(output.labels, dtype=torch.bool) if output.mask is None else output.mask
    return probabilities * centred * (mask / target_lengths(output)[:, None])[..., None]


def largest_eigenvalue(matrix: Callable[[Vector], Vector], like: Sequence[Tensor], seed: int) -> float:
    """λ_max of a positive semi-definite matrix, by ten power iterations."""
    generator = torch_generator(seed, "influence", "power")
    vector = [torch.randn(each.shape, generator=generator).to(each) for each in like]
    value = 0.0
    for _ in range(POWER_ITERATIONS):
        norm = math.sqrt(dot(vector, vector))
        if not norm:
            return 0.0
        vector = [each / norm for each in vector]
        image = matrix(vector)
        value, vector = dot(vector, image), image
    return value


def conjugate_gradients(
    matrix: Callable[[Vector], Vector], target: Vector, iterations: int, tolerance: float, progress: Progress
) -> tuple[Vector, int, float]:
    """Solution for a positive definite matrix, number of iterations, and relative residual, which is logged."""
    solution = [torch.zeros_like(each) for each in target]
    residual, direction = ([each.clone() for each in target] for _ in range(2))
    start = square = dot(residual, residual)
    for done in range(iterations):
        if square <= tolerance**2 * start:
            return solution, done, math.sqrt(square / start) if start else 0.0
        image = matrix(direction)
        length = square / dot(direction, image)
        for known, rest, along, moved in zip(solution, residual, direction, image, strict=True):
            known.add_(along, alpha=length)
            rest.sub_(moved, alpha=length)
        before, square = square, dot(residual, residual)
        progress.log("solve", done + 1, {"residual": math.sqrt(square / start)})
        direction = [rest + (square / before) * along for rest, along in zip(residual, direction, strict=True)]
    return solution, iterations, math.sqrt(square / start)


def _gradients(loss: Tensor, parameters: Sequence[nn.Parameter]) -> Vector:
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(own) if each is None else each for each, own in zip(found, parameters, strict=True)]
