"""The Qwen2 network behind a causal recommender: random or pretrained, with or without adapters, ready to serve.

Adapters are injected into the plain ``Qwen2ForCausalLM`` (no wrapper around it) and stay there: what is saved holds the
base weights and the adapters under their own names, so that loading needs neither the hub nor a second format.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, LoraShape
from genrec_unlearn_bench.decoding.causal import CausalWeights
from genrec_unlearn_bench.decoding.session import Projection
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.seeding import torch_seeded

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM

_HELD = "_text_rows_held"


def random_network(shape: CausalShape, tokens: int, *, seed: int) -> Qwen2ForCausalLM:
    """A network over ``tokens`` tokens with random weights from ``seed``; the global generator is left as it was."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    net = shape.network
    config = Qwen2Config(
        vocab_size=tokens,
        hidden_size=net.hidden,
        intermediate_size=net.ffn,
        num_hidden_layers=net.layers,
        num_attention_heads=net.heads,
        num_key_value_heads=net.groups,
        tie_word_embeddings=net.tied,
        rms_norm_eps=net.norm_epsilon,
        max_position_embeddings=net.positions,
        initializer_range=net.init,
        attention_dropout=shape.dropout,
        rope_parameters={"rope_type": "default", "rope_theta": net.rope_theta},
        use_cache=False,
        pad_token_id=None,
        bos_token_id=None,
        eos_token_id=None,
    )
    if net.head_dim is not None:
        config.head_dim = net.head_dim
    with torch_seeded(seed):
        model = Qwen2ForCausalLM(config)
    for parameter in model.parameters():
        # Not the whole module: the rotary frequencies are a float32 buffer whatever the type of the weights.
        parameter.data = parameter.data.to(getattr(torch, shape.precision))
    return model


def extend_vocabulary(model: Qwen2ForCausalLM, text_tokens: int, added: int, *, seed: int) -> None:
    """Keep the rows of the text vocabulary and append ``added`` rows, at the mean of the others plus a little noise.

    Rows beyond the tokenizer's ids, which checkpoints carry to round sizes up, go.
    """
    net: Any = model
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(added, net.config.hidden_size, generator=generator) * net.config.initializer_range

    def extended(weight: Tensor) -> nn.Parameter:
        kept = weight.detach()[:text_tokens]
        fresh = kept.float().mean(0) + noise.to(kept.device)
        return nn.Parameter(torch.cat([kept, fresh.to(kept.dtype)]))

    size = text_tokens + added
    embedding = extended(net.model.embed_tokens.weight)
    head = embedding if net.config.tie_word_embeddings else extended(net.lm_head.weight)
    net.model.embed_tokens.weight, net.lm_head.weight = embedding, head
    net.model.embed_tokens.num_embeddings = net.lm_head.out_features = size
    net.model.embed_tokens.padding_idx = None
    net.config.vocab_size = net.vocab_size = net.model.vocab_size = size


def adapted(model: Qwen2ForCausalLM, shape: CausalShape, *, seed: int) -> Qwen2ForCausalLM:
    """Add the shape's adapters and gradient checkpointing. Changes ``model`` and returns it.

    Raises:
        ConfigError: A name among the adapters' targets fits no layer.
    """
    net: Any = model
    net.config.attention_dropout = shape.dropout
    for block in net.model.layers:
        block.self_attn.attention_dropout = shape.dropout
    if shape.lora is not None:
        _inject(net, shape.lora, seed)
    if shape.checkpointing:
        # transformers renames this switch from version 6 on, and warns of the old name.
        switch = getattr(net, "activation_checkpointing_enable", None) or net.gradient_checkpointing_enable
        switch({"use_reentrant": False})
    return model


def _inject(net: Any, lora: LoraShape, seed: int) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    linear = {name.rpartition(".")[2] for name, part in net.model.named_modules() if isinstance(part, nn.Linear)}
    if not lora.targets or set(lora.targets) - linear:
        raise ConfigError([f"lora.targets: name linear layers, of {', '.join(sorted(linear))}"], where="--set-backbone")
    settings = LoraConfig(
        r=lora.rank, lora_alpha=lora.alpha, lora_dropout=lora.dropout, target_modules=list(lora.targets)
    )
    with torch_seeded(seed):
        inject_adapter_in_model(settings, net)
    for name, parameter in net.named_parameters():
        if ".lora_" in name:
            parameter.data = parameter.data.float()
    for part in (net.model.embed_tokens, net.lm_head):
        part.weight.requires_grad_(True)
        part.weight.data = part.weight.data.float()


def hold_text_rows(model: Qwen2ForCausalLM, text_tokens: int) -> None:
    """Mask the gradients of the text rows of embedding and head. Copies of a model need it again."""
    net: Any = model

    def without_text(gradient: Tensor) -> Tensor:
        return torch.cat([torch.zeros_like(gradient[:text_tokens]), gradient[text_tokens:]])

    for weight in {id(part.weight): part.weight for part in (net.model.embed_tokens, net.lm_head)}.values():
        if weight.requires_grad and not hasattr(weight, _HELD):
            weight.register_hook(without_text)
            setattr(weight, _HELD, True)


def serving_weights(model: Any) -> CausalWeights:
    """The weights for decoding, adapters merged, in the type of the blocks; the model is unchanged."""
    weights = CausalWeights(model)
    kind = model.model.norm.weight.dtype
    if weights.embedding.dtype != kind:
        weights.embedding = weights.embedding.to(kind)
        weights.head = Projection(model.lm_head.weight.detach().to(kind))
    return weights
