"""Training over several processes, as ``accelerate launch`` or ``torchrun`` started them.

Each holds the whole network, or its share of the blocks, and takes its share of every step's samples. The next
operation must be the same everywhere, or they wait for each other for ever: what depends on a measurement is decided by
the first and broadcast.

PyTorch's ``fully_shard`` (FSDP2) splits the weights, gradients and moments of decoder blocks that one GPU cannot train.
Embedding, last norm and head are also read without their ``forward``, so every process keeps them whole (Qwen2.5-7B:
1.1 of 7.6 billion parameters). Decoding does without any ``forward``: the blocks are gathered for a validation."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.errors import UsageError
from genrec_unlearn_bench.progress import launched

T = TypeVar("T")

PATIENCE = timedelta(days=30)
"""How long the others wait while the first prepares data or evaluates. The launcher ends them all when one dies."""


class Processes:
    """This process among those of the launch; a single one without a launcher."""

    def __init__(self, device: str) -> None:
        from accelerate import Accelerator, InitProcessGroupKwargs
        from accelerate.state import AcceleratorState

        place = torch.device(device)
        on_cuda = place.type == "cuda"
        if launched() == 1:
            # accelerate keeps the first device and precision of a process, and takes the current GPU.
            AcceleratorState._reset_state(reset_partial_state=True)
            if on_cuda and place.index is not None:
                torch.cuda.set_device(place)
        waiting = [InitProcessGroupKwargs(timeout=PATIENCE)] if launched() > 1 else []
        self.accelerator = Accelerator(
            cpu=not on_cuda, mixed_precision="bf16" if trains_in_bf16(device) else "no", kwargs_handlers=waiting
        )
        self.number, self.index = int(self.accelerator.num_processes), int(self.accelerator.process_index)
        self.first = self.index == 0

    def agree(self, value: T) -> T:
        from accelerate.utils import broadcast_object_list

        result: T = broadcast_object_list([value])[0]
        return result

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Average over processes. Recommenders call parts of the network, so a DDP wrapper's hooks would not run; FSDP
        has averaged those of the blocks in the backward pass."""
        if self.number == 1:
            return
        for parameter in parameters:
            if parameter.grad is not None and not is_split(parameter):
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad /= self.number


def trains_in_bf16(device: str) -> bool:
    """Whether recommenders are trained under bfloat16 autocast, on float32 weights: on GPUs that have it."""
    return torch.device(device).type == "cuda" and torch.cuda.is_bf16_supported()


def sharding_wanted() -> bool:
    """Whether ``accelerate launch`` was given a configuration with FSDP.

    Raises UsageError where it asks for FSDP1, weights that only the first process reads, or CPU offloading.
    """
    if not _set("ACCELERATE_USE_FSDP"):
        return False
    refused = ("FSDP_CPU_RAM_EFFICIENT_LOADING", "FSDP_OFFLOAD_PARAMS")
    if os.environ.get("FSDP_VERSION") != "2" or any(map(_set, refused)):
        raise UsageError(
            f"sharded training needs FSDP_VERSION 2, and neither {' nor '.join(refused)}",
            where="the configuration of accelerate launch (fsdp_config)",
            hint="start from genrec_unlearn_bench/executors/fsdp.yaml",
        )
    return True


class Shards:
    """The blocks of ``module``, split over all processes from here on to ``undo``.

    Weights must be the same in all processes. Parameters are replaced: make optimizers and copies afterwards.
    """

    def __init__(self, module: nn.Module, blocks: Sequence[nn.Module]) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        self._module = module
        device = next(module.parameters()).device.type
        mesh = init_device_mesh(device, (torch.distributed.get_world_size(),))
        names = {id(part): name for name, part in module.named_modules()}
        self._empty: dict[str, nn.Module] = {}
        self._blocks: list[Any] = []
        for block in blocks:
            # fully_shard changes a module's class for good; ``undo`` puts this copy in its place.
            self._empty[names[id(block)]] = copy.deepcopy(block).to("meta")
            self._blocks.append(fully_shard(block, mesh=mesh, reshard_after_forward=True))

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Whole weights in every process."""
        for block in self._blocks:
            block.unshard()
        try:
            yield
        finally:
            for block in self._blocks:
                block.reshard()

    def undo(self) -> None:
        """Make the module plain again, with its present weights. Optimizers and copies from before are void."""
        for name, empty in self._empty.items():
            block = self._module.get_submodule(name)
            empty.load_state_dict({key: whole(value) for key, value in block.state_dict().items()}, assign=True)
            self._module.set_submodule(name, empty.train(block.training))
        self._blocks = []


def whole(tensor: Tensor) -> Tensor:
    """The whole of a split tensor; every process has to call it."""
    own: Any = tensor.detach()
    result: Tensor = own.full_tensor() if is_split(own) else own
    return result


def is_split(tensor: Tensor) -> bool:
    from torch.distributed.tensor import DTensor

    return isinstance(tensor, DTensor)


def clip_gradients(parameters: Iterable[nn.Parameter], limit: float) -> None:
    """Scale all gradients, split ones and whole ones, so that the norm over all of them is at most ``limit``."""
    gradients: list[Any] = [parameter.grad for parameter in parameters if parameter.grad is not None]
    own = [gradient.to_local() for gradient in gradients if is_split(gradient)]
    common = [gradient for gradient in gradients if not is_split(gradient)]
    device = gradients[0].device
    squares = [torch.nn.utils.get_total_norm(part).to(device).float().square() for part in (own, common)]
    torch.distributed.all_reduce(squares[0])
    factor = torch.clamp(limit / ((squares[0] + squares[1]).sqrt() + 1e-6), max=1.0)
    for gradient in (*own, *common):
        gradient.mul_(factor)


def _set(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")
