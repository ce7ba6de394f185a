"""Low-rank adapters (Hu et al. 2021, arXiv 2106.09685) that can be trained, switched off and merged into the weights.

They are injected in place through peft under a separate adapter name. Switched off, the network is the original bit for
bit, so no second copy is needed. Adapters that a recommender already has (MiniOneRec) are part of the model: they stay
active, are not trained, and remain after ``merge``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.recommender import Recommender
from genrec_unlearn_bench.seeding import torch_seeded
from genrec_unlearn_bench.unlearning.anatomy import Block, anatomy


def early_blocks(recommender: Recommender) -> tuple[Block, ...]:
    """The blocks between an eighth and a quarter of each stack's depth: ELM's 4 to 7 of 32.

    At least one, and never the last of its stack unless that has no other: of two blocks, the first.
    """
    found = anatomy(recommender)

    def early(stack: Sequence[Block]) -> tuple[Block, ...]:
        first = min(math.ceil(len(stack) / 8), max(len(stack) - 2, 0))
        return tuple(stack[first : max(first + 1, len(stack) // 4)])

    return tuple(block for stack in (found.encoder, found.decoder) if stack for block in early(stack))


def linear_names(blocks: Iterable[Block]) -> tuple[str, ...]:
    """Names of all linear layers of the blocks, adapted ones included."""
    names = []
    for block in blocks:
        wrapped = "\n"
        for name, part in block.module.named_modules():
            if name.startswith(wrapped):
                continue
            if _adapted(part):
                # Layers inside belong to an existing adapter.
                wrapped = f"{name}."
            if _adapted(part) or isinstance(part, nn.Linear):
                names.append(f"{block.name}.{name}")
    return tuple(names)


def adapted_layers(module: nn.Module) -> list[Any]:
    """The layers that have low-rank adapters."""
    return [part for part in module.modules() if _adapted(part)]


class LowRank:
    """Adapters in the linear layers ``names`` of ``module``; until merged, only they require gradients.

    The product of the two matrices is added times ``scale`` (alpha / rank). ``seed`` draws the first ones; the second
    start at 0, so the network is unchanged at first. ``parameters`` are float32 whatever the dtype of the weights.
    """

    def __init__(
        self,
        module: nn.Module,
        names: Sequence[str],
        *,
        rank: int,
        scale: float,
        seed: int,
        dropout: float = 0.0,
        adapter: str = "unlearning",
    ) -> None:
        from peft import LoraConfig, inject_adapter_in_model

        self._module, self._adapter = module, adapter
        self._required = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
        self._before: dict[Any, list[str]] = {part: list(part.active_adapters) for part in adapted_layers(module)}
        self._settings = vars(module).pop("peft_config", None)
        settings = LoraConfig(r=rank, lora_alpha=rank * scale, lora_dropout=dropout, target_modules=list(names))  # type: ignore[arg-type]
        mode = module.training
        # peft draws on the CPU, whatever the device.
        with torch_seeded(seed):
            inject_adapter_in_model(settings, module, adapter_name=adapter)
        module.train(mode)
        parts: list[Any] = [module.get_submodule(name) for name in names]
        self._layers = dict(zip(names, parts, strict=True))
        for parameter, _ in self._required:
            parameter.requires_grad_(False)
        self.parameters = tuple(side[adapter].weight for part in parts for side in (part.lora_A, part.lora_B))
        for parameter in self.parameters:
            parameter.data = parameter.data.float()
            parameter.requires_grad_(True)
        self._switch(on=True)

    @contextmanager
    def off(self) -> Iterator[None]:
        self._switch(on=False)
        try:
            yield
        finally:
            self._switch(on=True)

    @torch.no_grad()
    def merge(self) -> None:
        """Add the adapters to the weights and remove them, restoring names and ``requires_grad``."""
        for name, layer in self._layers.items():
            weight: Tensor = layer.get_base_layer().weight
            delta: Tensor = layer.get_delta_weight(self._adapter)
            weight.copy_(weight.float() + delta.float())
            if layer in self._before:
                layer.delete_adapter(self._adapter)
            else:
                parent, _, child = name.rpartition(".")
                setattr(self._module.get_submodule(parent), child, layer.get_base_layer())
        for layer, active in self._before.items():
            layer.set_adapter(active)
        for parameter, required in self._required:
            parameter.requires_grad_(required)
        vars(self._module).pop("peft_config", None)
        if self._settings is not None:
            vars(self._module)["peft_config"] = self._settings

    def _switch(self, *, on: bool) -> None:
        own = set(self._layers.values())
        for layer in own | set(self._before):
            active = [*self._before.get(layer, []), *([self._adapter] if on and layer in own else [])]
            # peft changes requires_grad when it changes the active adapters.
            flags = [(parameter, parameter.requires_grad) for parameter in layer.parameters()]
            layer.set_adapter(active)
            for parameter, required in flags:
                parameter.requires_grad_(required)


def _adapted(part: nn.Module) -> bool:
    return hasattr(part, "get_delta_weight")
