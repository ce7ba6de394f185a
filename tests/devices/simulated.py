"""A second device that computes on the CPU and refuses what a GPU refuses, for tests of where tensors lie.

Tensors on ``cuda:0`` and ``cuda:1`` are wrappers around CPU tensors, so results equal the CPU's to the bit. An
operation on tensors of two devices raises RuntimeError as PyTorch does on GPUs: CPU scalars, CPU indices and copies are
allowed. Autocast casts as it does on a GPU. Backward passes are not checked: they follow the forward pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

aten = torch.ops.aten

COPIES = {aten._to_copy.default, aten.copy_.default, aten._foreach_copy_.default}
INDEXED = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index.Tensor}

MOVES: list[bool] = []
"""Not empty while ``Tensor.to`` moves a tensor."""


class Simulated(Tensor):
    """A tensor that says it lies on a GPU; ``held`` is its CPU tensor."""

    held: Tensor
    place: torch.device

    @staticmethod
    def __new__(cls, held: Tensor, device: torch.device) -> Simulated:
        made: Simulated = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            requires_grad=held.requires_grad,
        )
        made.held, made.place = held, device
        return made

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return self.place

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    __torch_function__ = torch._C._disabled_torch_function_impl

    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """As ``Tensor.to``, which would compare with the CPU that the wrapper really lies on."""
        copy = kwargs.pop("copy", False)
        if args and isinstance(args[0], Tensor):
            args = (args[0].device, args[0].dtype, *args[1:])
        device, dtype, *_ = torch._C._nn._parse_to(*args, **kwargs)
        device = torch.device(device or self.place)
        if device.type == "cuda" and device.index is None:
            device = torch.device("cuda", torch.cuda.current_device())
        if not copy and device == self.place and dtype in (None, self.dtype):
            return self
        MOVES.append(True)
        try:
            return aten._to_copy.default(self, dtype=dtype or self.dtype, device=device)
        finally:
            MOVES.pop()

    def cpu(self, *_: Any, **__: Any) -> Tensor:
        return self.to("cpu")

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, **_: Any) -> Tensor:  # type: ignore[override]
        return torch.tensor(data, dtype=dtype or self.dtype, device=device or self.place)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if id(self) not in memo:
            made: Tensor = self.detach().clone()
            if isinstance(self, nn.Parameter):
                made = nn.Parameter(made, requires_grad=self.requires_grad)
            memo[id(self)] = made.requires_grad_(self.requires_grad)
        found: Tensor = memo[id(self)]
        return found

    def data_ptr(self) -> int:
        return self.held.data_ptr()

    def untyped_storage(self) -> Any:
        return self.held.untyped_storage()

    def tolist(self) -> Any:
        return self.held.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if not force:
            raise TypeError(f"can't convert {self.device} device type tensor to numpy")
        return self.held.detach().numpy()

    def __array__(self, dtype: Any = None) -> Any:
        return self.numpy()

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{self.device}: {self.held!r}"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


class Devices(TorchDispatchMode):
    """Tensors made for a GPU inside the block are simulated ones."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return computed(func, args, kwargs or {})


def computed(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The operation on the CPU tensors, its outputs on the device of its inputs, or the one that it names."""
    named = torch.device(kwargs["device"]) if kwargs.get("device") is not None else None
    if named is not None and named.type == "cuda" and named.index is None:
        named = torch.device("cuda", torch.cuda.current_device())
    place = common_device(func, args, kwargs)
    # C++ code (a norm in bfloat16, say) names the device that the wrapper really lies on where it means its input's.
    moves = func is aten._to_copy.default and bool(MOVES)
    if named is not None and (named.type == "cuda" or place.type == "cpu" or moves):
        place = named
    wrappers: dict[int, Simulated] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Simulated):
            wrappers[id(value.held)] = value
            return value.held
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def placed(value: Any) -> Any:
        if not isinstance(value, Tensor) or isinstance(value, Simulated):
            return value
        if id(value) in wrappers:
            return wrappers[id(value)]
        return Simulated(value, place) if place.type == "cuda" else value

    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    found = func(*tree_map(plain, args), **tree_map(plain, kwargs))
    return tree_map(placed, found)


def common_device(func: Any, args: Any, kwargs: dict[str, Any]) -> torch.device:
    """The one device of all tensors; CPU scalars and indices count as everywhere. Raises RuntimeError for two."""
    found: list[torch.device] = []

    def look(value: Any) -> None:
        if isinstance(value, Tensor) and not (value.device.type == "cpu" and (value.dim() == 0 or func in INDEXED)):
            found.append(value.device)

    tree_map(look, (args, kwargs))
    if func in COPIES:
        return found[0] if found else torch.device("cpu")
    if func in INDEXED and isinstance(args[0], Tensor):
        found.insert(0, args[0].device)
    if torch._C._current_graph_task_id() != -1:
        # A backward pass makes zeros where its inputs really lie; what was mixed has been refused on the way forward.
        return next((device for device in found if device.type == "cuda"), torch.device("cpu"))
    if len(set(found)) > 1:
        raise RuntimeError(
            f"Expected all tensors to be on the same device, but {func} got {sorted(map(str, set(found)))}"
        )
    return found[0] if found else torch.device("cpu")


@contextmanager
def simulated_gpus(count: int = 2) -> Iterator[None]:
    """``count`` simulated GPUs inside the block; ``torch.cuda`` answers as if they were there."""
    current = 0

    def set_device(device: Any) -> None:
        nonlocal current
        index = torch.device(device).index if not isinstance(device, int) else device
        current = current if index is None else index

    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: count,
        "current_device": lambda: current,
        "set_device": set_device,
        "is_bf16_supported": lambda *_, **__: True,
        "get_device_name": lambda *_: "simulated",
        "synchronize": lambda *_: None,
        "empty_cache": lambda: None,
        "manual_seed": lambda seed: None,
        "manual_seed_all": lambda seed: None,
        "get_rng_state": lambda *_: torch.get_rng_state(),
        "set_rng_state": lambda *_: None,
        "reset_peak_memory_stats": lambda *_: None,
        "max_memory_allocated": lambda *_: 0,
        "get_device_properties": lambda *_: SimpleNamespace(total_memory=80 << 30),
        "mem_get_info": lambda *_: (64 << 30, 80 << 30),
    }
    make_autocast = torch.autocast.__init__

    def autocast(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        make_autocast(self, "cpu" if device_type == "cuda" else device_type, *args, **kwargs)

    attention = functional.scaled_dot_product_attention

    def masked(query: Tensor, key: Tensor, value: Tensor, attn_mask: Any = None, *args: Any, **kwargs: Any) -> Tensor:
        # C++ would make the causal mask where the wrapper really lies.
        if kwargs.pop("is_causal", False):
            attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
        return attention(query, key, value, attn_mask, *args, **kwargs)

    apply = nn.Module._apply

    def swapped(self: nn.Module, *args: Any, **kwargs: Any) -> nn.Module:
        # Parameters that two modules share stay one, as they do on a GPU.
        before = torch.__future__.get_swap_module_params_on_conversion()
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            return apply(self, *args, **kwargs)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(before)

    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(patch.object(torch.cuda, name, answer))
        stack.enter_context(patch.object(torch.autocast, "__init__", autocast))
        stack.enter_context(patch.object(functional, "scaled_dot_product_attention", masked))
        # Wrappers cannot be views of others in inference mode.
        for name in ("__enter__", "__exit__"):
            stack.enter_context(patch.object(torch.inference_mode, name, getattr(torch.no_grad, name)))
        stack.enter_context(patch.object(nn.Module, "_apply", swapped))
        # torch.tensor(…, device=…) makes the tensor on the CPU and copies it, by a call that the mode sees.
        torch._C._set_only_lift_cpu_tensors(True)
        stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        stack.enter_context(Devices())
        yield
