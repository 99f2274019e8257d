"""Syntactic Ordered Memory (SOM): a language model that parses while it reads.

Shen, Tan, Sordoni, Reddy & Courville, "Explicitly Modeling Syntax in Language Models with Incremental Parsing and a
Dynamic Oracle" (NAACL 2021). Depths are counted from the root, 0, downward. Sizes: B batch, T tokens, N slots,
D hidden, V vocabulary; P real (unmasked) tokens of a batch, K slots that are live somewhere in it.

Decisions are hard, so a pass with gradients first *explores* (`SOMModel.grow`: step by step, no gradient, only what
the look-ahead parser needs) and then *learns* (`SOMModel.regrow`: with all decisions known, every subtree is built
once, level by level over the whole batch). The parsers, the prediction network and the output layer then run over all
tokens at once. Only live slots are ever computed.

`torch.compile` gives the same numbers, from many small graphs, since each decision breaks them; `torch.export`, ONNX
and `torch.jit.trace` are refused, because they would keep one tree for all sentences.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GenerationConfig, PreTrainedModel, initialization
from transformers.generation import GenerationMixin
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import ModelOutput
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
from transformers.utils import logging
from transformers.utils.generic import can_return_tuple

from .checks_som import restarts, unreachable, wrong_siblings
from .configuration_som import SOMConfig
from .layout_som import NONE, Batch, Forest, Growth, Layout, shift
from .operators_som import CHUNK, Dropout, NextWords, cross_entropy, is_plain, linear, mean
from .state_som import SOMCache, SOMState
from .tags_som import Tagger, TreeNodes, matching_tags, node_spans

logger = logging.get_logger(__name__)
FILLED: Any = None  # a field that is always there; the library wants all but the first to have this default


# ---------------------------------------------------------------------------------------------- outputs


@dataclass
class SOMModelOutput(ModelOutput):
    """States that predict the next word, and the decisions taken on the way."""

    last_hidden_state: Tensor = FILLED  # (B, T, D)
    past_key_values: SOMCache | None = None
    hidden_states: tuple[Tensor, ...] | None = None  # (B, T, D) each: words, last_hidden_state
    depths: Tensor = FILLED  # (B, T) decisions taken
    word_depths: Tensor = FILLED  # (B, T) depth of the word each token belongs to, the deepest to attach to
    oracle_depths: Tensor | None = None  # (B, T) decisions the oracle wants, given those taken
    attach_logits: Tensor = FILLED  # (B, T, N) of p_t, which decides token t; -inf where not allowed
    next_attach_logits: Tensor | None = None  # (B, T, N) of p'_t, a guess at token t + 1
    branch_states: Tensor | None = None  # (R, D) the state after each allowed guess of p', in the order of the guesses
    leaf_tag_logits: Tensor | None = None  # (B, T, tags) of the leaf of each word of the tree that was built
    node_tag_logits: Tensor | None = None  # (B, T, tags) of the inner node whose right child begins with each word
    tag_loss: Tensor | None = None  # summed over the labelled nodes


@dataclass
class SOMCausalLMOutput(ModelOutput):
    """Losses, logits, state and decisions; -100 in every per-token field at masked positions."""

    loss: Tensor | None = None
    logits: Tensor = FILLED  # (B, T, V)
    past_key_values: SOMCache | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    lm_loss: Tensor | None = None
    structure_loss: Tensor | None = None
    tag_loss: Tensor | None = None
    depths: Tensor = FILLED
    oracle_depths: Tensor | None = None
    attach_logits: Tensor = FILLED
    next_attach_logits: Tensor | None = None
    leaf_tag_logits: Tensor | None = None
    node_tag_logits: Tensor | None = None


# ---------------------------------------------------------------------------------------------- oracle


def oracle_depths(first_sibling: Tensor, depths: Tensor | None, num_slots: int, printed: bool = False) -> Tensor:
    """Best depth of every token, given the depths taken before it; with `depths=None`, those of the gold tree.

    The best depth keeps every gold constituent that can still be built: one below the first sibling, unless a later
    token has closed that constituent already. `printed` is the paper's Algorithm 1, which looks at the first sibling's
    label, where it has one, instead of its depth; its labels are clamped to what can be reached. Rows of (B, T) start
    at column 0.

    >>> gold = torch.tensor([[-1, 0, 1, 1, 3, 0]])  # BOS ((the cat) (sat down)) EOS
    >>> oracle_depths(gold, None, 15).tolist()
    [[0, 1, 2, 2, 3, 1]]
    >>> oracle_depths(gold, torch.tensor([[0, 1, 1, 2, 2, 1]]), 15).tolist()  # "cat" was attached to BOS
    [[0, 1, 2, 1, 3, 1]]
    """
    labels = torch.full_like(first_sibling, NONE)
    taken = labels if depths is None else depths
    lowest = torch.full_like(first_sibling, num_slots)  # lowest[:, j]: smallest depth taken since token j
    for t in range(first_sibling.shape[1]):
        sibling = first_sibling[:, t : t + 1]
        j = sibling.clamp(min=0)
        sibling_depth = taken.gather(1, j)  # (B, 1)
        if printed:
            sibling_label = labels.gather(1, j)
            sibling_depth = torch.where(sibling_label >= 0, sibling_label, sibling_depth)
        label = torch.minimum(sibling_depth + 1, lowest.gather(1, j))
        labels[:, t : t + 1] = torch.where(sibling >= 0, label, torch.where(sibling == -1, 0, NONE))
        lowest[:, :t] = torch.minimum(lowest[:, :t], taken[:, t : t + 1])
    if printed:
        labels[:, 1:] = torch.minimum(labels[:, 1:], taken[:, :-1] + 1)
    return labels


def to_left_branching(first_sibling: Tensor) -> Tensor:
    """Labels of the trivial tree: only the first word and EOS attach to BOS (0), all other words to the first word."""
    return first_sibling.clamp(max=1)


# ---------------------------------------------------------------------------------------------- modules


class SegmentedLinear(nn.Module):
    """A linear map between stacks of vectors; of a dSOM's segments, only the semantic one reads both."""

    def __init__(self, config: SOMConfig, inputs: int, outputs: int):
        super().__init__()
        self.semantic_size, self.outputs = config.semantic_size, outputs
        self.semantic = nn.Linear(inputs * config.hidden_size, outputs * config.semantic_size)
        if config.syntactic_size:
            self.syntactic = nn.Linear(inputs * config.syntactic_size, outputs * config.syntactic_size)

    def forward(self, x: Tensor) -> Tensor:  # (R, inputs, D) → (R, outputs, D)
        if self.semantic_size == x.shape[-1]:
            return linear(self.semantic, x.flatten(1)).unflatten(1, (self.outputs, -1))
        semantic, syntactic = (part.flatten(1) for part in x.tensor_split([self.semantic_size], dim=-1))
        semantic = linear(self.semantic, torch.cat([semantic, syntactic], dim=1)).unflatten(1, (self.outputs, -1))
        return torch.cat([semantic, linear(self.syntactic, syntactic).unflatten(1, (self.outputs, -1))], dim=-1)


class SegmentedNorm(nn.Module):
    """LayerNorm, in a dSOM of each segment on its own."""

    def __init__(self, config: SOMConfig):
        super().__init__()
        self.semantic = nn.LayerNorm(config.semantic_size, eps=config.layer_norm_eps)
        if config.syntactic_size:
            self.syntactic = nn.LayerNorm(config.syntactic_size, eps=config.layer_norm_eps)
        self.semantic_size = config.semantic_size

    def forward(self, x: Tensor) -> Tensor:
        if self.semantic_size == x.shape[-1]:
            return self.semantic(x)
        semantic, syntactic = x.tensor_split([self.semantic_size], dim=-1)
        return torch.cat([self.semantic(semantic), self.syntactic(syntactic)], dim=-1)


class Cell(GradientCheckpointingLayer):
    """Composes two vectors into one: a gated sum of both and of an update."""

    def __init__(self, config: SOMConfig):
        super().__init__()
        self.hidden = SegmentedLinear(config, inputs=2, outputs=4)
        self.gates = SegmentedLinear(config, inputs=4, outputs=4)
        self.norm = SegmentedNorm(config)
        self.dropout = Dropout(config.dropout)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # (R, D), (R, D) → (R, D)
        hidden = self.hidden(self.dropout(torch.stack([a, b], dim=1))).relu()  # (R, 4, D)
        f, i, c, u = self.gates(self.dropout(hidden)).unbind(dim=1)
        return self.norm(f.sigmoid() * a + i.sigmoid() * b + c.sigmoid() * u).to(a.dtype)


class Parser(nn.Module):
    """Shared by both parsers: D and the detachment that keeps the structure loss out of semantic segments."""

    def __init__(self, config: SOMConfig):
        super().__init__()
        self.semantic_size = config.semantic_size if config.syntactic_size else 0
        self.score = nn.Linear(config.hidden_size, 1, bias=False)
        self.dropout = Dropout(config.dropout)

    def read(self, x: Tensor) -> Tensor:
        if self.semantic_size:
            semantic, syntactic = x.tensor_split([self.semantic_size], dim=-1)
            x = torch.cat([semantic.detach(), syntactic], dim=-1)
        return self.dropout(x)

    def scores(self, hidden: Tensor) -> Tensor:  # (…, D) → (…)
        return linear(self.score, self.dropout(hidden.relu())).squeeze(-1) / hidden.shape[-1] ** 0.5


class LookAheadParser(Parser):
    """One-step look-ahead: where does this word attach, now that it is seen?"""

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.query = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.key = nn.Linear(config.hidden_size, config.hidden_size, bias=False)
        self.query_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.key_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)

    def queries(self, x: Tensor) -> Tensor:
        return self.query_norm(linear(self.query, self.read(x)))

    def keys(self, candidates: Tensor) -> Tensor:
        return self.key_norm(linear(self.key, self.read(candidates)))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        return self.scores(queries + keys)

    def logits(self, scores: Tensor) -> Tensor:
        """(…, depths): logits of p from the scores of all attachments, -inf where there is nothing to attach to."""
        return scores


class ZeroStepParser(Parser):
    """Zero-step look-ahead: where will the next word attach, before it is seen?"""

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.project = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, candidates: Tensor) -> Tensor:
        return self.scores(linear(self.project, self.read(candidates)))


class ReadTokens(NamedTuple):
    """What was read: decisions, labels, states to predict from, and the state to continue from."""

    depths: Tensor  # (P,)
    word_depths: Tensor  # (P,) that of the word each token belongs to
    attach_logits: Tensor  # (P, N)
    best: Tensor | None  # (P,) the oracle's depths
    hidden: Tensor  # (P, D)
    next_attach_logits: Tensor | None  # (P, N)
    branches: Tensor | None  # (R, D)
    state: Callable[[], SOMState]
    tags: "Tagged | None" = None


class Tagged(NamedTuple):
    """Scores of the tags of the tree that was built, and what labels say of them."""

    leaf_logits: Tensor  # (P, tags), NONE where a token is no leaf
    node_logits: Tensor  # (P, tags), NONE where no inner node is called by a token
    loss: Tensor | None  # summed cross-entropy over the labelled nodes


class Prediction(NamedTuple):
    """What the prediction network makes of the subtrees."""

    hidden: Tensor  # (P, D) the state that predicts the word after each token
    logits: Tensor | None = None  # (P, N) of p'
    branches: Tensor | None = None  # (R, D) the state after every guess that p' allows, where the mixture is wanted
    prefix: Forest | None = None  # (B * K + P', D) prefix states: those of the state, then the new ones


def certain(attach_logits: Tensor, e: Tensor, inside: Tensor) -> Tensor:
    """Logits (R, N) of p that leave pieces inside of words no choice but to attach at e (R,)."""
    only = torch.full_like(attach_logits, -torch.inf).scatter(1, e[:, None], 0)
    return torch.where(inside[:, None], only, attach_logits)


def choose(logits: Tensor, sample: bool) -> Tensor:
    """Index of the largest logit, or of one drawn from their softmax, without waiting for the device."""
    if sample:
        logits = logits - torch.empty_like(logits).exponential_().log()  # Gumbel noise
    return logits.argmax(dim=-1)


def live_slots(depth: Tensor, slots: int) -> Tensor:
    """(…, slots): the attachments that are possible from a depth, whatever their scores; none at masked tokens.

    >>> live_slots(torch.tensor([0, 5, NONE]), 3).int().tolist()
    [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    """
    return torch.arange(slots, device=depth.device) <= depth[..., None]


# ---------------------------------------------------------------------------------------------- model


Model = TypeVar("Model", bound="SOMPreTrainedModel")


class SOMPreTrainedModel(PreTrainedModel):
    config_class = SOMConfig
    base_model_prefix = "model"
    supports_gradient_checkpointing = True
    _is_stateful = True

    def post_init(self) -> None:
        """Makes the model one unit of FSDP and of device maps: how often a part of it is called depends on the tree,
        so processes with other sentences would wait for each other forever, and its parts share their tensors."""
        super().post_init()
        self._no_split_modules = {type(self).__name__}

    @classmethod
    def from_pretrained(cls: type[Model], *args: Any, device_map: Any = None, **kwargs: Any) -> Model:
        """Refuses device maps with several devices; `cpu` and `disk` may hold what is offloaded."""
        if isinstance(device_map, dict):
            check_device_map(device_map)
        loaded = super().from_pretrained(*args, device_map=device_map, **kwargs)
        check_device_map(getattr(loaded[0] if isinstance(loaded, tuple) else loaded, "hf_device_map", {}))
        return loaded

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        super()._init_weights(module)
        if isinstance(module, nn.Linear | nn.Embedding):
            std = self.config.initializer_range * module.weight.shape[1] ** -0.5
            initialization.normal_(module.weight, mean=0.0, std=std)

    def save_pretrained(self, *args: Any, **kwargs: Any) -> None:
        """Names both models, since either Auto class can load what either of them saved; the library names but one.

        Names the pipelines, too; the library carries along every file that it sees imported in this one."""
        from .pipelines_som import named_pipelines

        self.config.custom_pipelines = named_pipelines()
        named = {"AutoModel": "modeling_som.SOMModel", "AutoModelForCausalLM": "modeling_som.SOMForCausalLM"}
        self.config.auto_map = {**(getattr(self.config, "auto_map", None) or {}), **named}
        super().save_pretrained(*args, **kwargs)


def check_device_map(device_map: dict) -> None:
    """Refuses to compute one step on several devices."""
    devices = sorted({str(device) for device in device_map.values()} - {"cpu", "disk"})
    if len(devices) > 1:
        raise ValueError(f"device_map must keep the model on one device, got {' and '.join(devices)}")


class SOMModel(SOMPreTrainedModel):
    """Reads words, grows their tree, and returns the states from which the next words are predicted."""

    continues: Tensor  # (V,) which tokens continue a word, in a model of word pieces

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.word_pieces:
            self.register_buffer("continues", torch.zeros(config.vocab_size, dtype=torch.bool))
        self.norm = SegmentedNorm(config)
        self.cell = Cell(config)
        self.parser = LookAheadParser(config)
        if config.prediction_network:
            self.next_parser = ZeroStepParser(config)
            self.predict_cell = Cell(config)
        if config.tree_tags:
            self.tagger = Tagger(config)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        first_sibling: Tensor | None = None,
        depths: Tensor | None = None,
        past_key_values: SOMCache | None = None,
        use_cache: bool | None = None,
        inputs_embeds: Tensor | None = None,
        output_hidden_states: bool | None = None,
        marginal: bool | None = None,
        leaf_tag: Tensor | None = None,
        node_tag: Tensor | None = None,
        output_tags: bool = False,
        **kwargs: Any,
    ) -> SOMModelOutput:
        """`first_sibling` counts a row's unmasked tokens, as if the row stood alone; `marginal` asks for the states
        after every guess of p', by default where the configuration does and the decisions are not given; `leaf_tag`
        and `node_tag` (B, T), -100 for none, are the labels of the tags, which `output_tags` asks for."""
        positions = kwargs.get("position_ids")
        state, mask = self.check_inputs(
            input_ids, inputs_embeds, attention_mask, past_key_values, first_sibling, depths, positions
        )
        tags = self.check_tags(leaf_tag, node_tag, output_tags, first_sibling, state)
        inside = self.inside(input_ids, mask, state) if self.config.word_pieces else None  # (B, T)
        words = inputs_embeds if input_ids is None else self.embed(input_ids)  # (B, T, D)
        assert words is not None  # one of both was given, or the inputs would have been refused
        marginal = self.wants_mixture(marginal, given=depths is not None)
        one_token = words.shape[1] == 1 and mask is None and first_sibling is None and tags is None
        unpack: Callable[[Tensor], Tensor]
        if one_token and not torch.is_grad_enabled():
            given, inside = (None if part is None else part[:, 0] for part in (depths, inside))
            reading, unpack = self.step(words[:, 0], state, marginal, given, inside), partial(torch.unsqueeze, dim=1)
        else:
            batch = Batch.of(mask, words.shape[:2], words.device)
            siblings = None if first_sibling is None else batch.pack(first_sibling.long())
            depths = None if depths is None else batch.pack(depths.long())
            inside = None if inside is None else batch.pack(inside)
            if tags is not None:
                tags = [batch.pack(tag.long()) for tag in (leaf_tag, node_tag) if tag is not None]
            words_read = batch.pack(words)
            reading = self.read(words_read, batch, state, siblings, depths, marginal, inside, tags)
            unpack = batch.unpack
        if self.config.use_cache and not self.training if use_cache is None else use_cache:
            past_key_values = SOMCache() if past_key_values is None else past_key_values
            past_key_values.update(reading.state(), words.shape[1])
        else:
            past_key_values = None
        wants_states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        hidden = unpack(reading.hidden)
        return SOMModelOutput(
            last_hidden_state=hidden,
            past_key_values=past_key_values,
            hidden_states=(words, hidden) if wants_states else None,
            depths=unpack(reading.depths),
            word_depths=unpack(reading.word_depths),
            oracle_depths=None if reading.best is None else unpack(reading.best),
            attach_logits=unpack(reading.attach_logits),
            next_attach_logits=None if reading.next_attach_logits is None else unpack(reading.next_attach_logits),
            branch_states=reading.branches,
            leaf_tag_logits=unpack(reading.tags.leaf_logits) if reading.tags and output_tags else None,
            node_tag_logits=unpack(reading.tags.node_logits) if reading.tags and output_tags else None,
            tag_loss=reading.tags.loss if reading.tags else None,
        )

    def inside(self, input_ids: Tensor | None, mask: Tensor | None, state: SOMState | None) -> Tensor:
        """(B, T): which tokens continue a word; the first of a row cannot."""
        if input_ids is None:
            raise ValueError("a model of word pieces needs input_ids, which tell where words begin")
        begins = torch.ones_like(input_ids, dtype=torch.bool) if mask is None else mask.to(input_ids.device)
        begins = begins.cumsum(1) == 1
        if state is not None:
            begins = begins & (state.depth < 0)[:, None]
        return self.continues[input_ids] & ~begins

    def read(
        self,
        words: Tensor,
        batch: Batch,
        state: SOMState | None,
        siblings: Tensor | None,
        given: Tensor | None,
        marginal: bool,
        inside: Tensor | None = None,
        tags: list[Tensor] | None = None,
    ) -> ReadTokens:
        """Reads a whole batch (P, D): explores where decisions are not given, learns where gradients are wanted."""
        x = self.norm(words).to(words.dtype)
        state = SOMState.empty(batch.shape[0], x) if state is None else state
        labels = None if siblings is None else self.labels(siblings, batch)
        if given is None and labels is not None and self.training and self.config.oracle == "static":
            given = batch.unjustify(oracle_depths(labels, None, self.config.num_slots))
            marginal = False
        growth, depths = None, given  # (P,)
        if depths is None:
            growth = self.grow(x, batch, state, inside)
            depths = growth.depths
        layout = Layout(batch, state, depths, self.config.num_slots, inside)
        if growth is None or torch.is_grad_enabled():
            nodes = self.regrow(x, layout, state)
            attach_logits = self.attach_logits(x, nodes, layout)
        else:
            nodes, attach_logits = layout.place(growth, state), growth.attach_logits
        best = None if labels is None else self.best_depths(labels, depths, batch)
        if inside is not None:  # no decisions, so no labels
            attach_logits = certain(attach_logits, (depths - 1).clamp(min=0), inside)
            best = None if best is None else best.masked_fill(inside, NONE)
        prediction = self.predict(nodes, layout, state, best, given is not None, marginal)
        final = partial(layout.final_state, nodes, prediction.prefix)
        word_depths = layout.word_depths.to(depths.device)
        tagged = None if tags is None else self.tag(nodes, layout, inside, siblings, tags)
        return ReadTokens(depths, word_depths, attach_logits, best, *prediction[:3], final, tagged)

    def tag(
        self,
        nodes: Forest,
        layout: Layout,
        inside: Tensor | None,
        siblings: Tensor | None,
        tags: list[Tensor],
    ) -> Tagged:
        """Scores the tags of every node of the tree that was built; labels, where given, are those of nodes of the
        gold tree that span the same words."""
        batch = layout.batch
        inside_grid = None if inside is None else batch.justify(inside.cpu().long(), fill=0).bool()
        built = node_spans(layout.depth_grid[:, 1:], inside_grid)
        where = TreeNodes.of(layout, built, inside)
        rows = (part.to(layout.device) for part in where[:3])
        vectors = [nodes.pick(part) for part in rows]
        logits = self.tagger(*vectors, where.is_right.to(layout.device))  # (R, tags)
        leaf, node = (logits.new_full((len(layout.depths), logits.shape[1]), NONE) for _ in range(2))
        is_leaf, token = where.is_leaf.to(layout.device), where.token.to(layout.device)
        leaf = leaf.index_put((token[is_leaf],), logits[is_leaf])
        node = node.index_put((token[~is_leaf],), logits[~is_leaf])
        if not tags or siblings is None:
            return Tagged(leaf, node, None)
        gold_leaf, gold_node = (tag.cpu() for tag in tags)
        gold_depths = oracle_depths(batch.justify(siblings.cpu()), None, len(siblings) + 1)
        gold = node_spans(gold_depths, inside_grid)
        gold_grid = batch.justify(gold_node)
        matched = batch.unjustify(matching_tags(gold_grid, gold, built, gold_grid != NONE))
        label = torch.where(where.is_leaf, gold_leaf[where.token], matched[where.token]).to(layout.device)
        return Tagged(leaf, node, cross_entropy(logits, label))

    def step(
        self,
        words: Tensor,
        state: SOMState | None,
        marginal: bool,
        given: Tensor | None = None,
        inside: Tensor | None = None,
    ) -> ReadTokens:
        """Reads one token per row (B, D), without gradient: the recurrence as it is defined, with no bookkeeping."""
        x = self.norm(words).to(words.dtype)
        state = SOMState.empty(len(x), x) if state is None else state
        attach_logits = self.attachment_logits(x, state, inside)
        e = choose(attach_logits, self.training) if given is None else (given - 1).clamp(min=0)
        depth = torch.where(state.depth < 0, 0, e + 1)
        state = self.attach(x, state, e, inside)
        return ReadTokens(depth, state.depth, attach_logits, None, *self.predict_from(state, marginal), lambda: state)

    def attachment_logits(self, x: Tensor, state: SOMState, inside: Tensor | None = None) -> Tensor:
        """(B, N): p, where does the word x (B, D) attach? A piece `inside` a word (B,) has no choice."""
        scores = self.parser(self.parser.queries(x)[:, None], self.parser.keys(state.candidates))  # (B, K)
        logits = self.parser.logits(self.live_logits(scores, state.depth))
        if inside is None:
            return logits
        return certain(logits, state.depth.clamp(0, self.config.num_slots - 1), inside)

    def attach(self, x: Tensor, state: SOMState, e: Tensor, inside: Tensor | None = None) -> SOMState:
        """The state after the word x (B, D) was attached at depth e (B,); the first word of a text needs no e."""
        rows, first = torch.arange(len(x), device=x.device), state.depth < 0
        e = torch.where(first, 0, e)
        depth = torch.where(first, 0, e + 1)
        sibling = state.candidates[rows, e]
        memory = F.pad(state.memory, (0, 0, 0, 1)).index_put_((rows, e), sibling)
        climbed = list(self.climb(x, memory, depth))
        candidates = x.new_zeros(len(x), len(climbed) + 1, x.shape[1]).index_put_((rows, depth), x)
        for some, at, subtrees in climbed:
            candidates[some, at] = subtrees
        prefix = F.pad(state.prefix, (0, 0, 0, 1))
        if self.config.prediction_network:
            new = self.predict_cell(state.prefix[rows, e], sibling).masked_fill(first[:, None], 0)
            prefix = prefix.index_put_((rows, depth), new)
        width = min(candidates.shape[1], self.config.num_slots)
        depth = depth if inside is None else depth - inside.long()
        return SOMState(memory[:, :width], candidates[:, :width], prefix[:, :width], depth)

    def next_attachment_logits(self, state: SOMState) -> Tensor:
        """(B, N): p', where will the next word attach, before it is seen?"""
        return self.live_logits(self.next_parser(state.candidates), state.depth)

    def predicting_state(self, state: SOMState, rows: Tensor, e: Tensor) -> Tensor:
        """(R, D): h(e), which predicts the next word of some rows of the state, should it attach at depth e (R,)."""
        return self.predict_cell(state.prefix[rows, e], state.candidates[rows, e])

    def predict_from(self, state: SOMState, marginal: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """What `predict` gives, for one state per row: hidden states, logits of p', branches."""
        if not self.config.prediction_network:
            return state.candidates[:, 0], None, None
        logits = self.next_attachment_logits(state)
        rows = torch.arange(len(logits), device=logits.device)
        hidden = self.predicting_state(state, rows, choose(logits, self.training))
        live = live_slots(state.depth, state.prefix.shape[1]).nonzero(as_tuple=True) if marginal else None
        return hidden, logits, None if live is None else self.predicting_state(state, *live)

    def live_logits(self, scores: Tensor, depth: Tensor) -> Tensor:
        """(B, K) → (B, N), -inf where there is nothing to attach to."""
        scores = scores.masked_fill(~live_slots(depth, scores.shape[1]), -torch.inf)
        return F.pad(scores, (0, self.config.num_slots - scores.shape[1]), value=-torch.inf)

    def wants_mixture(self, marginal: bool | None, given: bool) -> bool:
        """Whether the states after every guess of p' are asked for, by the caller or by the configuration."""
        if not self.config.prediction_network:
            return False
        if marginal is None:
            wanted = self.config.next_attachment == "marginal" if self.training else self.config.marginal
            return wanted and not given
        return marginal

    def embed(self, input_ids: Tensor) -> Tensor:
        """Looks words up; in training, `embedding_dropout` of the word types are zero for the whole batch."""
        words = self.embed_tokens(input_ids)
        if not self.training:
            return words
        types = words.new_ones(self.config.vocab_size, 1)
        return words * F.dropout(types, self.config.embedding_dropout)[input_ids]

    def to_their_word(self, attach: Tensor, word_depth: Tensor, inside: Tensor) -> Tensor:
        """The attachments, but pieces that continue a word are attached to it, which is the deepest node there is."""
        return torch.where(inside, word_depth.clamp(max=self.config.num_slots - 1), attach)

    def words(self, input_ids: Tensor) -> Tensor:
        """(…, D): tokens as `attachment_logits` and `attach` want them."""
        return self.norm(self.embed(input_ids))

    def continuing(self, input_ids: Tensor) -> Tensor | None:
        """Which tokens continue a word; None where tokens are words."""
        return self.continues[input_ids] if self.config.word_pieces else None

    @torch.no_grad()
    def grow(self, x: Tensor, batch: Batch, state: SOMState, inside: Tensor | None = None) -> Growth:
        """Explores: reads step by step and decides each attachment.

        Rows are taken longest first, so that the rows still being read are always the first ones; candidates[N] only
        ever holds the leaf of a token that is too deep to be attached to."""
        B, N, D = len(state.depth), self.config.num_slots, x.shape[-1]
        order = batch.lengths.argsort(descending=True, stable=True)
        first = (batch.lengths.cumsum(0) - batch.lengths)[order].to(x.device)
        order = order.to(x.device)
        memory, candidates, keys = x.new_zeros(B, N + 1, D), x.new_zeros(B, N + 1, D), x.new_zeros(B, N + 1, D)
        width = state.memory.shape[1]
        memory[:, :width], candidates[:, :width] = state.memory[order], state.candidates[order]
        keys[:, :width] = self.parser.keys(candidates[:, :width])
        depth = state.depth[order]
        queries = self.parser.queries(x)
        attach_logits = x.new_full((len(x), N), -torch.inf)
        slots, all_rows = torch.arange(N, device=x.device), torch.arange(B, device=x.device)
        depths = torch.empty(len(x), dtype=torch.long, device=x.device)
        grown = [(depths[:0], depths[:0], x[:0])]  # all there is, where every token is masked
        active = (batch.lengths[:, None] > torch.arange(int(batch.lengths.max()))).sum(0).tolist()
        for t, n in enumerate(active):
            rows, token, depth = all_rows[:n], first[:n] + t, depth[:n]
            logits = self.parser(queries[token, None], keys[:n, :width])
            logits = self.parser.logits(logits.masked_fill(slots[:width] > depth[:, None], -torch.inf))  # (n, width)
            attach = torch.where(depth < 0, 0, choose(logits, self.training))
            if inside is not None:
                attach = self.to_their_word(attach, depth, inside[token])
            attach_logits[token, :width] = logits.to(x.dtype)  # autocast may have halved it
            memory[rows, attach] = candidates[rows, attach]
            depth = torch.where(depth < 0, 0, attach + 1)
            depths[token] = depth
            climbed = [(rows, depth, x[token]), *self.climb(x[token], memory, depth)]
            where, at, subtrees = (torch.cat(parts) for parts in zip(*climbed, strict=True))
            candidates[where, at], keys[where, at] = subtrees, self.parser.keys(subtrees).to(x.dtype)
            grown.append((token[where], at, subtrees))
            depth = depth if inside is None else depth - inside[token].long()
            width = min(len(climbed), N)
        return Growth(depths, attach_logits, *(torch.cat(parts) for parts in zip(*grown, strict=True)))

    def climb(self, leaf: Tensor, memory: Tensor, depth: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yields (rows, e, C[e]) from the deepest e up to the root, C[e] = cell(M[e], C[e + 1]), live rows only."""
        order = depth.argsort(descending=True)
        deeper = (depth[:, None] > torch.arange(memory.shape[1], device=depth.device)).sum(0).tolist()
        subtrees = leaf[:0]
        for e in reversed(range(len(deeper) - deeper.count(0))):
            rows = order[: deeper[e]]
            below = torch.cat([subtrees, leaf[rows[len(subtrees) :]]])
            subtrees = self.cell(memory[rows, e], below)
            yield rows, torch.full_like(rows, e), subtrees

    def regrow(self, x: Tensor, layout: Layout, state: SOMState) -> Forest:
        """Learns: with all decisions known, builds every subtree once, level by level over the whole batch."""
        nodes = Forest.of(layout.state_rows(state), layout.total)
        nodes.plant((layout.starts + layout.depths).to(x.device), x)
        for rows, children in layout.levels():
            left, right = nodes.pick(children.flatten().to(x.device)).chunk(2)
            nodes.plant(rows.to(x.device), self.cell(left, right))
        return nodes

    def attach_logits(self, x: Tensor, nodes: Forest, layout: Layout) -> Tensor:
        """(P, N): the look-ahead parser's scores of every attachment each token could have chosen."""
        token, depth, subtree = (index.to(x.device) for index in layout.attachments())
        queries = self.parser.queries(x).index_select(0, token)
        scores = self.parser(queries, self.parser.keys(nodes.pick(subtree)))
        dead = scores.new_full((len(x), self.config.num_slots), -torch.inf)
        return self.parser.logits(dead.index_put((token, depth), scores))

    def labels(self, first_sibling: Tensor, batch: Batch) -> Tensor:
        """(B, longest row): the tree labels the oracle goes by."""
        labels = batch.justify(first_sibling)
        return to_left_branching(labels) if self.config.oracle == "left_branching" else labels

    def best_depths(self, labels: Tensor, depths: Tensor, batch: Batch) -> Tensor:
        """(P,): the oracle's labels, given the decisions taken."""
        printed = self.config.oracle == "dynamic_paper"
        return batch.unjustify(oracle_depths(labels, batch.justify(depths), self.config.num_slots, printed))

    def predict(
        self, nodes: Forest, layout: Layout, state: SOMState, best: Tensor | None, given: bool, marginal: bool
    ) -> Prediction:
        """Runs the prediction network from the root down to the guessed attachment of the next word."""
        if not self.config.prediction_network:
            return Prediction(nodes.pick(layout.starts.to(layout.device)))
        token, depth, subtree, source = (index.to(layout.device) for index in layout.branches())
        scores = self.next_parser(nodes.pick(subtree))
        logits = scores.new_full((len(layout.depths), self.config.num_slots), -torch.inf)
        logits = logits.index_put((token, depth), scores)  # (P, N)
        prefix = self.prefix_states(nodes, layout, state)
        guess = self.guess(logits.detach(), layout, best, given)  # (P,)
        live = layout.live(layout.word_depths)
        chosen = live.cumsum(0) - live
        chosen = chosen.to(layout.device) + guess  # (P,) into the branches

        if marginal:
            branches = self.predict_cell(prefix.pick(source), nodes.pick(subtree))
            return Prediction(branches.index_select(0, chosen), logits, branches, prefix)
        # where the guess is what the next token does, that token's new prefix state is the state wanted here
        next_depth, next_prefix = (index.to(layout.device) for index in layout.following())
        hidden = prefix.pick(next_prefix.clamp(min=0))
        other = (guess != next_depth - 1).nonzero().flatten()
        chosen = chosen[other]
        others = self.predict_cell(prefix.pick(source[chosen]), nodes.pick(subtree[chosen]))
        return Prediction(hidden.index_copy(0, other, others), logits, None, prefix)

    def prefix_states(self, nodes: Forest, layout: Layout, state: SOMState) -> Forest:
        """Prediction-network states over the memory alone: those of the state, then one new one per token."""
        known = state.prefix.flatten(0, 1)
        prefix, made = Forest.of(known, len(known) + len(layout.prefix_order)), len(known)
        for source, subtree in layout.prefix_levels():
            new = self.predict_cell(prefix.pick(source.to(layout.device)), nodes.pick(subtree.to(layout.device)))
            prefix.plant(torch.arange(made, made + len(new), device=layout.device), new)
            made += len(new)
        return prefix

    def guess(self, logits: Tensor, layout: Layout, best: Tensor | None, given: bool) -> Tensor:
        """(P,): the attachment depth that the prediction of the next word is conditioned on."""
        own = choose(logits, sample=self.training and not given)
        if given:
            known = layout.next_word_depth()
        elif self.training and best is not None and self.config.next_attachment == "oracle":
            known = shift(best, layout.row.to(best.device))
        else:
            return own
        known = known.to(own.device) - 1
        return torch.where(known >= 0, known, own)

    def check_tags(
        self,
        leaf_tag: Tensor | None,
        node_tag: Tensor | None,
        output_tags: bool,
        first_sibling: Tensor | None,
        state: SOMState | None,
    ) -> list[Tensor] | None:
        """Whether tags are asked for, as an empty list to be filled with their labels, or None."""
        given = [tag is not None for tag in (leaf_tag, node_tag)]
        if not any(given) and not output_tags:
            return None
        if not self.config.tree_tags:
            raise ValueError("this model has no tags: its configuration's tree_tags are empty")
        if any(given) and not (all(given) and first_sibling is not None):
            raise ValueError("leaf_tag, node_tag and first_sibling label a tree together: expected all or none")
        if state is not None:
            raise ValueError("tags are of whole sentences and cannot be combined with past_key_values")
        for name, tag in {"leaf_tag": leaf_tag, "node_tag": node_tag}.items():
            if tag is None or first_sibling is None:
                continue
            if tag.shape != first_sibling.shape:
                raise ValueError(f"{name} must have the shape {tuple(first_sibling.shape)}, got {tuple(tag.shape)}")
            if ((tag != NONE) & ((tag < 0) | (tag >= len(self.config.tree_tags)))).any():
                raise ValueError(f"{name} must be in 0…{len(self.config.tree_tags) - 1}, or -100 for none")
        return []

    def check_inputs(
        self,
        input_ids: Tensor | None,
        inputs_embeds: Tensor | None,
        attention_mask: Tensor | None,
        past_key_values: SOMCache | None,
        first_sibling: Tensor | None,
        depths: Tensor | None,
        position_ids: Tensor | None,
    ) -> tuple[SOMState | None, Tensor | None]:
        """Validates the inputs before any computation; returns the state and the mask, or None for each."""
        exporting = torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
        if exporting or torch.jit.is_tracing():
            raise NotImplementedError("a SOM cannot be exported: the tree decides what is computed")
        tokens = inputs_embeds if input_ids is None else input_ids
        if tokens is None or (input_ids is not None and inputs_embeds is not None):
            raise ValueError("exactly one of input_ids and inputs_embeds must be given")
        if tokens.ndim != (3 if input_ids is None else 2) or tokens.numel() == 0:
            raise ValueError(f"the input must be (batch, tokens) with at least one token, got {tuple(tokens.shape)}")
        if input_ids is None and tokens.shape[2] != self.config.hidden_size:
            raise ValueError(f"inputs_embeds must end in hidden_size {self.config.hidden_size}, got {tokens.shape[2]}")
        B, T = tokens.shape[:2]
        for name, tensor in {"first_sibling": first_sibling, "depths": depths}.items():
            if tensor is not None and tensor.shape != (B, T):
                raise ValueError(f"{name} must have the tokens' shape {(B, T)}, got {tuple(tensor.shape)}")
        if position_ids is not None and position_ids.shape not in ((B, T), (1, T), (T,)):
            raise ValueError(f"position_ids must have the tokens' shape {(B, T)}, got {tuple(position_ids.shape)}")
        if attention_mask is not None and (attention_mask.shape[:-1] != (B,) or attention_mask.shape[-1] < T):
            raise ValueError(f"attention_mask must cover the tokens' {(B, T)}, got {tuple(attention_mask.shape)}")
        if past_key_values is not None and not isinstance(past_key_values, SOMCache):
            raise ValueError(f"past_key_values must be a SOMCache, got a {type(past_key_values).__name__}")
        state = None if past_key_values is None else past_key_values.state
        if state is not None and len(state.depth) != B:
            raise ValueError(f"past_key_values hold {len(state.depth)} sequences, the input has {B}")
        if state is not None and first_sibling is not None:
            raise ValueError("first_sibling labels whole sentences and cannot be combined with past_key_values")
        mask = None if attention_mask is None else attention_mask[:, -T:].bool()
        mask = None if mask is None or mask.all() else mask
        positions = None if position_ids is None else position_ids.expand(B, T)
        self.check_values(input_ids, mask, state, first_sibling, depths, positions)
        return state, mask

    def check_values(
        self,
        input_ids: Tensor | None,
        mask: Tensor | None,
        state: SOMState | None,
        first_sibling: Tensor | None,
        depths: Tensor | None,
        positions: Tensor | None,
    ) -> None:
        """The checks that look at numbers, with one synchronization of the device."""
        vocab_size, rules = self.config.vocab_size, {}
        if input_ids is not None:
            rules[f"input_ids must be in 0…{vocab_size - 1}"] = (input_ids < 0) | (input_ids >= vocab_size)
        if first_sibling is not None:
            must_label = self.training and depths is None and self.config.oracle == "static"
            rule = "first_sibling must point at an earlier token of its row (-1 at the first token"
            rule += " and, for the static oracle, no -100)" if must_label else ", -100 for no label)"
            rules[rule] = wrong_siblings(first_sibling, mask) & (must_label | (first_sibling != NONE))
        if depths is not None:
            rule = f"depths must start at 0 and then be in 1…min(depth before + 1, {self.config.num_slots})"
            before = None if state is None else state.depth
            inside = self.inside(input_ids, mask, state) if self.config.word_pieces else None
            rules[rule] = unreachable(depths, mask, before, self.config.num_slots, inside)
        if positions is not None:
            rule = "position_ids must increase along a row, since a row is one sentence (packed sentences need rows)"
            rules[rule] = restarts(positions, mask, None if state is None else state.depth)
        broken = torch.stack([wrong.any() for wrong in rules.values()]).tolist() if rules else []
        for (rule, wrong), found in zip(rules.items(), broken, strict=True):
            if found:
                row, column = wrong.nonzero()[0].tolist()
                raise ValueError(f"{rule}: not so in row {row}, column {column}")


class SOMForCausalLM(SOMPreTrainedModel, GenerationMixin):
    """A SOM with its output layer, tied to the input embedding.

    Decisions are sampled in `train()` and greedy in `eval()`. To parse generated text, run a second pass, which takes
    the same decisions: `model(model.generate(…)).depths`."""

    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

    def __init__(self, config: SOMConfig):
        super().__init__(config)
        self.model = SOMModel(config)
        self.output_dropout = Dropout(config.output_dropout)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False

    def _prepare_cache_for_generation(  # type: ignore[override]
        self, generation_config: GenerationConfig, model_kwargs: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        super()._prepare_cache_for_generation(generation_config, model_kwargs, *args, **kwargs)  # type: ignore[misc]
        if generation_config.use_cache is not False and model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = SOMCache()

    def prepare_inputs_for_generation(  # type: ignore[override]  # what it does not use goes through kwargs
        self,
        input_ids: torch.LongTensor,
        attention_mask: torch.LongTensor | None = None,
        inputs_embeds: torch.FloatTensor | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Moves padding to the front, where it changes nothing: `generate` goes on from the last column."""
        inputs = super().prepare_inputs_for_generation(  # type: ignore[misc]
            input_ids, attention_mask=attention_mask, inputs_embeds=inputs_embeds, **kwargs
        )
        name = "input_ids" if inputs.get("inputs_embeds") is None else "inputs_embeds"
        tokens, mask = inputs[name], inputs.get("attention_mask")
        if mask is not None and tokens.shape[1] > 1:
            mask = mask[:, -tokens.shape[1] :]
            order = mask.argsort(dim=1, stable=True)  # (B, T)
            inputs["attention_mask"] = mask.gather(1, order)
            inputs[name] = tokens[torch.arange(len(order), device=order.device)[:, None], order]
            if inputs.get("position_ids") is not None:
                inputs["position_ids"] = inputs["position_ids"].expand(order.shape).gather(1, order)
        return inputs

    @can_return_tuple
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        first_sibling: Tensor | None = None,
        depths: Tensor | None = None,
        leaf_tag: Tensor | None = None,
        node_tag: Tensor | None = None,
        past_key_values: SOMCache | None = None,
        use_cache: bool | None = None,
        inputs_embeds: Tensor | None = None,
        logits_to_keep: int | Tensor = 0,
        **kwargs: Any,
    ) -> SOMCausalLMOutput:
        """Predicts the next word at every position, and parses.

        Args:
            labels: (B, T) as everywhere in transformers: unshifted, -100 ignored; `shift_labels` replaces them in the
                loss where the caller has already moved them to the position that predicts them.
            first_sibling: (B, T) tree labels, counting a row's unmasked tokens as if the row stood alone (-1 at the
                first, -100 for none); turns the structure loss on.
            depths: (B, T) decisions given from outside, for both parsers.
            leaf_tag, node_tag: (B, T) tags of the gold tree, -100 for none; with `first_sibling`, they turn the loss
                of the tags on. `output_tags=True` returns their logits for the tree that was built.
        """
        num_items, shift_labels = kwargs.pop("num_items_in_batch", None), kwargs.pop("shift_labels", None)
        for given in (labels, shift_labels):
            if given is not None:
                self.check_labels(given, input_ids if inputs_embeds is None else inputs_embeds)
        out = self.model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            first_sibling=first_sibling,
            depths=depths,
            leaf_tag=leaf_tag,
            node_tag=node_tag,
            past_key_values=past_key_values,
            use_cache=use_cache,
            inputs_embeds=inputs_embeds,
            return_dict=True,
            **kwargs,
        )
        if self.training and labels is None and first_sibling is not None and num_items is not None:
            logger.warning_once("label smoothing leaves out the structure loss, and so may your compute_loss_func")
        keep = slice(-logits_to_keep, None) if isinstance(logits_to_keep, int) else logits_to_keep
        lm_loss = structure_loss = targets = None
        if labels is not None:
            targets = self.targets(labels, out.depths) if shift_labels is None else shift_labels
            targets = targets.masked_fill(out.depths == NONE, NONE)[:, keep]
        logits, total = self.logits(out, keep, targets)
        if targets is not None and total is not None:
            lm_loss = mean(total, targets, num_items)
        if labels is not None or first_sibling is not None:
            # 0 without tree labels, yet it ties the parsers to the loss: parallel training wants every parameter used
            structure_loss = self.structure_loss(out, num_items)
        tag_loss = self.tag_loss(out, leaf_tag, num_items)
        if tag_loss is None and lm_loss is not None and self.config.tree_tags and self.training:
            lm_loss = lm_loss + 0 * sum(weight.sum() for weight in self.model.tagger.parameters())  # as above
        return SOMCausalLMOutput(
            loss=self.weigh(lm_loss, structure_loss, tag_loss),
            logits=logits,
            past_key_values=out.past_key_values,
            hidden_states=out.hidden_states,
            lm_loss=lm_loss,
            structure_loss=None if first_sibling is None else structure_loss,
            tag_loss=tag_loss,
            depths=out.depths,
            oracle_depths=out.oracle_depths,
            attach_logits=out.attach_logits,
            next_attach_logits=out.next_attach_logits,
            leaf_tag_logits=out.leaf_tag_logits,
            node_tag_logits=out.node_tag_logits,
        )

    def check_labels(self, labels: Tensor, tokens: Tensor | None) -> None:
        """Validates labels before any computation."""
        shape = labels.shape if tokens is None else tokens.shape[:2]
        if labels.shape != shape:
            raise ValueError(f"labels must have the tokens' shape {tuple(shape)}, got {tuple(labels.shape)}")
        wrong = (labels != NONE) & ((labels < 0) | (labels >= self.config.vocab_size))
        if wrong.any():
            row, column = wrong.nonzero()[0].tolist()
            rule = f"labels must be in 0…{self.config.vocab_size - 1}, or -100 for none"
            raise ValueError(f"{rule}: not so in row {row}, column {column}")

    def weigh(self, lm_loss: Tensor | None, structure_loss: Tensor | None, tag_loss: Tensor | None) -> Tensor | None:
        weighted = [
            (lm_loss, self.config.lm_loss_weight),
            (structure_loss, self.config.structure_loss_weight),
            (tag_loss, self.config.tag_loss_weight),
        ]
        terms = [loss * weight for loss, weight in weighted if loss is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def logits(
        self, out: SOMModelOutput, keep: slice | Tensor, targets: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """(B, kept, V): scores of the next word, -100 in the padding at either end; and their summed cross-entropy."""
        real = out.depths[:, keep] != NONE  # (B, kept)
        if out.branch_states is not None:
            words = self.mixture(out, keep, real)
        elif targets is None or not is_plain(self.lm_head) or self.lm_head.bias is None:
            words = linear(self.lm_head, self.output_dropout(out.last_hidden_state[:, keep][real]))
        else:
            hidden = out.last_hidden_state[:, keep][real]
            logits, summed = self.next_words(hidden, targets, real)
            return repeat_in_holes(logits, real, len(hidden)), summed
        count = len(words)
        if count < real.numel():
            words = words.new_full((real.numel(), words.shape[1]), NONE).index_put((real.flatten(),), words)
        total = None if targets is None else cross_entropy(words, targets.flatten())
        return repeat_in_holes(words.unflatten(0, real.shape), real, count), total

    def next_words(self, hidden: Tensor, targets: Tensor, real: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, kept, V) and their summed cross-entropy at once."""
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        operands = (part.to(dtype) for part in (self.output_dropout(hidden), self.lm_head.weight, self.lm_head.bias))
        position = None if len(hidden) == real.numel() else real.flatten().nonzero().flatten()
        logits, total = NextWords.apply(*operands, targets[real].long(), position, real.numel())
        return logits.unflatten(0, real.shape), total

    def mixture(self, out: SOMModelOutput, keep: slice | Tensor, real: Tensor) -> Tensor:
        """(P, V): log of the mixture of the predictions after every guess that p' allows, weighted by p'.

        Tokens with as many guesses as each other are taken together, a chunk at a time."""
        assert out.branch_states is not None and out.next_attach_logits is not None
        allowed = live_slots(out.word_depths, self.config.num_slots)  # (B, T, N)
        branch = torch.full_like(allowed, NONE, dtype=torch.long)
        branch[allowed] = torch.arange(len(out.branch_states), device=branch.device)
        branch, log_prior = branch[:, keep][real], out.next_attach_logits.log_softmax(dim=-1)[:, keep][real]  # (P, N)
        guesses = (branch != NONE).sum(1)
        order, sizes = guesses.argsort(stable=True), guesses.bincount().tolist()
        mixed = [linear(self.lm_head, out.branch_states[:0])]  # all there is, where every token is masked
        for count, tokens in enumerate(order.split(sizes)[1:], start=1):
            for some in tokens.split(max(CHUNK // (count * self.config.vocab_size), 1)):
                states = out.branch_states[branch[some, :count]]  # (some, guesses, D)
                words = linear(self.lm_head, self.output_dropout(states).flatten(0, 1)).unflatten(0, states.shape[:2])
                words = words.log_softmax(dim=-1)
                mixed.append((words + log_prior[some, :count, None]).logsumexp(dim=1))
        return torch.cat(mixed).index_select(0, order.argsort())

    def targets(self, labels: Tensor, depths: Tensor) -> Tensor:
        """(B, T): the label of each row's next real token, at every real token."""
        real = depths != NONE
        row, _ = real.nonzero(as_tuple=True)
        return torch.full_like(labels, NONE).index_put((real,), shift(labels[real], row))

    def tag_loss(self, out: SOMModelOutput, labels: Tensor | None, num_items: Tensor | int | None) -> Tensor | None:
        """Cross-entropy of the tags per labelled word, or the sum over `num_items`."""
        if out.tag_loss is None or labels is None:
            return None
        return mean(out.tag_loss, labels, num_items)

    def structure_loss(self, out: SOMModelOutput, num_items: Tensor | int | None) -> Tensor:
        """Mean over labelled decisions of -log p_t(e*_t) - log p'_{t-1}(e*_t), or the sum over `num_items`."""
        real = out.depths != NONE
        row, _ = real.nonzero(as_tuple=True)
        best = torch.full_like(out.depths, NONE) if out.oracle_depths is None else out.oracle_depths
        label = best[real] - 1  # (P,), below 0 where there is no decision or no label
        label = torch.where(label >= 0, label, NONE)
        labelled = label != NONE  # the first token of a row has no decision, and no finite logit
        total = cross_entropy(out.attach_logits[real][labelled], label[labelled])
        if out.next_attach_logits is not None:
            total = total + cross_entropy(out.next_attach_logits[real], shift(label, row))
        return mean(total, label, num_items)


def repeat_in_holes(logits: Tensor, real: Tensor, count: int) -> Tensor:
    """Logits (B, T, V) with the last prediction repeated at masked tokens between the `count` real ones.

    Those leave the state, and so the prediction, as it was; some tools pad on the left, put BOS in front of that, and
    look for the prediction of the first word right before it."""
    if count == real.numel():
        return logits
    read = real.cumsum(1)  # (B, T) real tokens so far
    hole = ~real & (read > 0) & (read < read[:, -1:])
    if not hole.any():
        return logits
    last = torch.where(real, torch.arange(real.shape[1], device=real.device), 0).cummax(1).values
    rows, columns = hole.nonzero(as_tuple=True)
    return logits.index_put((rows, columns), logits[rows, last[hole]])


SOMModel.register_for_auto_class("AutoModel")
SOMForCausalLM.register_for_auto_class("AutoModelForCausalLM")
# the Trainer's label smoothing knows by this name that each label belongs to the prediction before it
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[SOMConfig.model_type] = SOMForCausalLM.__name__

__all__ = ["SOMCache", "SOMForCausalLM", "SOMModel", "SOMPreTrainedModel", "SOMState"]
