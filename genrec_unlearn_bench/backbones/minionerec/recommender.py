"""A generative recommender on a Qwen2-style causal model, behind the contract that all methods and measurements use.

Prompts are padded on the left; ``decode`` hides that, and the shift: ``logits[:, l]`` predicts the token of level l.
The head is applied at the positions that predict something and nowhere else, so that 150,000 text tokens cost no more
than they must. Softmax is over the whole vocabulary, text tokens included.

Adapters are injected into the plain ``Qwen2ForCausalLM`` (no wrapper around it) and stay there: what is saved holds the
base weights and the adapters under their own names, so that loading needs neither the hub nor a second format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from genrec_unlearn_bench.backbones.cpu_layers import CpuDropout, use_cpu_kernels
from genrec_unlearn_bench.backbones.minionerec.backbone import CausalShape, LoraShape, MiniOneRecConfig, NetworkShape
from genrec_unlearn_bench.backbones.minionerec.prompts import Prompt, PromptBatch, PromptTokenizer, batch_prompts
from genrec_unlearn_bench.backbones.packing import Packing, in_groups, length_groups, watched
from genrec_unlearn_bench.backbones.pretrained import load_pretrained
from genrec_unlearn_bench.backbones.recommender import (
    BOS,
    SPECIALS,
    Capability,
    Context,
    ServingRules,
    SidVocabulary,
    SoftSids,
    StepOutput,
)
from genrec_unlearn_bench.backbones.transformer import TransformerRecommender
from genrec_unlearn_bench.data.examples import Examples, Histories, IntArray
from genrec_unlearn_bench.decoding.causal import CausalSession, CausalWeights
from genrec_unlearn_bench.decoding.session import DecoderSession
from genrec_unlearn_bench.errors import ConfigError
from genrec_unlearn_bench.seeding import torch_seeded
from genrec_unlearn_bench.sids.table import SidTable

if TYPE_CHECKING:
    from transformers import Qwen2ForCausalLM

_SEPARATOR = SPECIALS
SID_PROMPT = Prompt(head=(BOS,), separator=(_SEPARATOR,), tail=(_SEPARATOR,), empty=())
"""Without text: ``BOS s1 SEP s2 SEP … sn SEP ->``; every item stands behind BOS or SEP, the next one too."""


def sid_vocabulary(shape: CausalShape, sids: SidTable) -> SidVocabulary:
    """SID tokens behind the text vocabulary, or behind the specials and a separator where there is no text."""
    return SidVocabulary(sids.level_sizes, base=shape.text_tokens or SPECIALS + 1)


class CausalRecommender(TransformerRecommender):
    """Qwen2 over SID tokens; with tokenizer and prompts (``text``) where ``shape.text_tokens`` says there is text."""

    name = "causal"

    def __init__(
        self,
        model: Qwen2ForCausalLM,
        shape: CausalShape,
        sids: SidTable,
        serving: ServingRules | None = None,
        text: PromptTokenizer | None = None,
    ) -> None:
        super().__init__(model, shape, sids, serving, sid_vocabulary(shape, sids))
        self.text = text
        if (text is None) != (shape.text_tokens == 0):
            raise ValueError("a model with text tokens needs its tokenizer, one without has none")
        if shape.lora is not None and shape.text_tokens:
            hold_text_rows(self.model, shape.text_tokens)
        use_cpu_kernels(self.model)
        tokens = torch.from_numpy(self.vocabulary.tokens(sids))
        self.sid_tokens = tokens.masked_fill(torch.from_numpy(sids.codes) < 0, -1).to(self.device)

    @classmethod
    def fresh(
        cls, shape: CausalShape, sids: SidTable, *, seed: int, device: str = "cpu", text: PromptTokenizer | None = None
    ) -> Self:
        """Random weights from ``seed``."""
        model = random_network(shape, sid_vocabulary(shape, sids).size, seed=seed)
        return cls(adapted(model, shape, seed=seed).to(device), shape, sids, text=text)  # type: ignore[arg-type]

    @classmethod
    def pretrained(cls, config: MiniOneRecConfig, checkpoint: str, sids: SidTable, *, seed: int, device: str) -> Self:
        """A checkpoint with SID tokens added and adapters in, before any training. Raises as ``load_pretrained``."""
        found = load_pretrained(checkpoint, "qwen2", dtype=getattr(torch, config.precision))
        tokenizer: Any = found.tokenizer
        text_tokens = max(tokenizer.get_vocab().values()) + 1
        network, end = NetworkShape.of(found.model.config, checkpoint), tokenizer.eos_token_id
        own = {name: getattr(config, name) for name in ("text_tasks", "title_tokens", "lora", "unseen_prompt")}
        shape = config.saved_shape(network, text_tokens=text_tokens, end_token=end, **own)
        extend_vocabulary(found.model, text_tokens, sum(sids.level_sizes), seed=seed)
        model = adapted(found.model, shape, seed=seed)
        text = PromptTokenizer.of(tokenizer.backend_tokenizer, shape.end_token)
        return cls(model.to(device), shape, sids, text=text)  # type: ignore[arg-type]

    @classmethod
    def untrained(cls, config: MiniOneRecConfig, train: Examples, sids: SidTable, *, seed: int, device: str) -> Self:
        """From scratch, or from the checkpoint."""
        if config.checkpoint is not None:
            return cls.pretrained(config, config.checkpoint, sids, seed=seed, device=device)
        return cls.fresh(config.saved_shape(config.network), sids, seed=seed, device=device)

    @property
    def capabilities(self) -> frozenset[Capability]:
        found = super().capabilities
        return found | {Capability.TEXT_TASKS} if self.shape.text_tasks else found

    @property
    def blocks(self) -> Sequence[nn.Module]:
        return tuple(self.model.model.layers)

    def encode(self, histories: Histories, *, soft: SoftSids | None = None, hidden: bool = False) -> Context:
        prompts = self.prompts(histories)
        embeds = self.embed(prompts, soft)
        states = self._run(embeds, Packing.alone(prompts.mask), hidden=True) if hidden else ()
        return Context(embeds, prompts.mask, prompts.items, states)

    def prompt_states(self, prompts: PromptBatch, read: Tensor) -> Tensor:
        """[P, D] final states at the positions ``read`` [P], counted through all B rows of S positions."""
        states = self._run(self.embed(prompts), Packing.alone(prompts.mask), read=read)[-1]
        return states if states.ndim == 2 else states.flatten(0, 1).index_select(0, read)

    def prompts(self, histories: Histories) -> PromptBatch:
        """The histories, as served, in the words of the next-item task, or in those that training never shows."""
        items = torch.from_numpy(self._served(histories).items).to(self.device)
        name = "unseen" if self.shape.unseen_prompt else "next_item"
        prompt = SID_PROMPT if self.text is None else self.text.prompts[name]
        return batch_prompts(prompt, self.sid_tokens, items)

    def embed(self, prompts: PromptBatch, soft: SoftSids | None = None) -> Tensor:
        """[B, S, D] input embeddings, in the type the blocks compute in."""
        embeds: Tensor = self.model.model.embed_tokens(prompts.tokens)
        if soft is not None:
            embeds = self._soften(embeds, prompts, soft)
        if self.model.training and self.shape.dropout:
            embeds = CpuDropout(self.shape.dropout)(embeds)
        return embeds.to(self.model.model.norm.weight.dtype)

    def _soften(self, embeds: Tensor, prompts: PromptBatch, soft: SoftSids) -> Tensor:
        """Replace token embeddings of softened items by expectations under their token distributions."""
        row = soft.row_of_item[prompts.items.clamp_min(0)].masked_fill(prompts.items < 0, -1)
        weight = self.model.model.embed_tokens.weight
        for level, weights in enumerate(soft.weights):
            batch, position = torch.nonzero((row >= 0) & (prompts.levels == level), as_tuple=True)
            first = self.vocabulary.offsets[level]
            mixtures = weights[row[batch, position]].to(weight.dtype) @ weight[first : first + weights.shape[1]]
            embeds = embeds.index_put((batch, position), mixtures.to(embeds.dtype))
        return embeds

    def _run(self, embeds: Tensor, packing: Packing, *, hidden: bool = False, **options: Any) -> tuple[Tensor, ...]:
        """States by layer [B, S + F, D], the last one behind the final norm; that one alone unless asked for all."""
        output = self.model.model(
            inputs_embeds=embeds,
            attention_mask=packing.mask,
            position_ids=packing.positions,
            use_cache=False,
            output_hidden_states=hidden,
            **options,
        )
        return tuple(output.hidden_states) if hidden else (output.last_hidden_state,)

    def states(
        self, context: Context, tokens: Tensor, *, rows: Tensor | None = None, hidden: bool = False
    ) -> tuple[Tensor, ...]:
        """States [R, L, D] (by layer, or the last) at the positions that predict ``tokens`` [R, L] of R targets.

        Prompts of similar length pass together.
        """
        rows = torch.arange(len(tokens), device=tokens.device) if rows is None else rows
        lengths = context.mask.sum(1)
        behind = torch.bincount(rows, minlength=len(lengths)) * (tokens.shape[1] - 1)
        groups = [] if watched(self.model) else length_groups(lengths + behind)
        if len(groups) < 2:
            return self._states(context.state, context.mask, tokens, rows, hidden=hidden)
        group_of = torch.empty_like(lengths)
        for number, histories in enumerate(groups):
            group_of[histories] = number

        def compute(targets: Tensor) -> tuple[Tensor, ...]:
            chosen, places = rows[targets].unique(return_inverse=True)  # type: ignore[no-untyped-call]
            seen = slice(context.mask.shape[1] - int(lengths[chosen].max()), None)
            return self._states(
                context.state[chosen, seen], context.mask[chosen, seen], tokens[targets], places, hidden=hidden
            )

        parts = [(group_of[rows] == number).nonzero()[:, 0] for number in range(len(groups))]
        return in_groups([part for part in parts if len(part)], compute)

    def _states(
        self, embeds: Tensor, mask: Tensor, tokens: Tensor, rows: Tensor, *, hidden: bool
    ) -> tuple[Tensor, ...]:
        """``states`` in one pass: input embeddings [B, S, D] and mask [B, S] of the prompts."""
        size, length = mask.shape[1], tokens.shape[1]
        packing = Packing.of(mask, rows, length)
        if length > 1:
            behind = self.model.model.embed_tokens(packing.pack(tokens)).to(embeds.dtype)
            embeds = torch.cat([embeds, behind], 1)
        return tuple(packing.unpack(layer, size, length) for layer in self._run(embeds, packing, hidden=hidden))

    def head(self, states: Tensor) -> Tensor:
        """[..., D] final states to [..., V] logits, in float32: bfloat16 would round probabilities."""
        logits: Tensor = self.model.lm_head(states.to(self.model.lm_head.weight.dtype))
        return logits.float()

    def decode(
        self, context: Context, codes: Tensor, *, rows: Tensor | None = None, hidden: bool = False
    ) -> StepOutput:
        labels, real = self._labels(codes)
        states = self.states(context, labels, rows=rows, hidden=hidden)
        return StepOutput(self.head(states[-1]), labels, states if hidden else (), real)

    def align(self, items: IntArray, titles: Sequence[str], *, to: Literal["sid", "title"]) -> StepOutput:
        if self.text is None or not self.shape.text_tasks:
            return super().align(items, titles, to=to)
        written = self.text.table(titles, self.shape.title_tokens).to(self.device)
        sids = self.sid_tokens[torch.from_numpy(items).to(self.device)]
        source, target = (written, sids) if to == "sid" else (sids, written)
        prompt = self.text.prompts["title_to_sid" if to == "sid" else "sid_to_title"]
        prompts = batch_prompts(prompt, source, torch.arange(len(items), device=self.device)[:, None])
        labels = target.clamp_min(0)
        states = self.states(Context(self.embed(prompts), prompts.mask, prompts.items), labels)
        return StepOutput(self.head(states[-1]), labels, (), target >= 0)

    def server(self) -> Callable[[Histories], DecoderSession]:
        weights = serving_weights(self.model)

        def opened(histories: Histories) -> DecoderSession:
            prompts = self.prompts(histories)
            return CausalSession(weights, self.embed(prompts), prompts.mask)

        return opened

    def _like(self, model: Any, sids: SidTable, serving: ServingRules) -> Self:
        return type(self)(model, self.shape, sids, serving, self.text)

    def save(self, folder: Path) -> None:
        super().save(folder)
        if self.text is not None:
            self.text.save(folder)

    @classmethod
    def _rebuilt(cls, shape: dict[str, Any], sids: SidTable, folder: Path, *, device: str) -> Self:
        own = CausalShape.model_validate(shape)
        text = PromptTokenizer.load(folder, own.end_token) if own.text_tokens else None
        return cls.fresh(own, sids, seed=0, device=device, text=text)


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
    """The weights for decoding, adapters merged, in the type of the blocks; the model is unchanged.

    The head keeps its own type: logits that are rounded to bfloat16 tie.
    """
    weights = CausalWeights(model)
    weights.embedding = weights.embedding.to(model.model.norm.weight.dtype)
    return weights
