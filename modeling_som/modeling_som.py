"""Syntactic Ordered Memory (SOM): a language model that parses while it reads.

Shen, Tan, Sordoni, Reddy & Courville, "Explicitly Modeling Syntax in Language Models with Incremental Parsing and a
Dynamic Oracle" (NAACL 2021). Depths are counted from the root, 0, downward. Sizes: B batch, T tokens, N slots,
D hidden, V vocabulary; P real (unmasked) tokens of a batch, K slots that are live somewhere in it.

Decisions are hard, so a pass with gradients first *explores* (`SOMModel.grow`: step by step, no gradient, only what
the look-ahead parser needs) and then *learns* (`SOMModel.compose`: with all decisions known, every subtree is built
once, level by level over the whole batch). The parsers, the prediction network and the output layer then run over all
tokens at once. Only live slots are ever computed.

`torch.compile` gives the same numbers, from many small graphs, since each decision breaks them; `torch.export`, ONNX
and `torch.jit.trace` are refused, because they would keep one tree for all sentences.
"""

from collections.abc import Callable, Sequence
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

from .checks_som import validate_inputs, validate_labels, validate_tags
from .configuration_som import SOMConfig
from .exploring_som import Climbed, Growth, certain, choose, collect_growth, gumbel_noise, live_slots, slices
from .layout_som import Batch, Forest, Layout, on_device, shift
from .operators_som import (
    Composed,
    ComposeRows,
    Dropout,
    NextWords,
    chunk_on,
    compose_levels,
    cross_entropy,
    gated_sum,
    groups_of_rows,
    is_hooked,
    is_plain,
    linear,
    mean,
    product,
    weighted_sums,
)
from .sentences_som import NONE
from .state_som import SOMCache, SOMState
from .tags_som import Tagger, TreeNodes, matching_tags, node_spans

logger = logging.get_logger(__name__)
FILLED: Any = None  # a field that is always there; the library wants all but the first to have this default


# ---------------------------------------------------------------------------------------------- outputs


class Fields(ModelOutput):
    """An output that takes its fields quickly: the library's own lists the names of all for each, per word read."""

    def __setattr__(self, name: str, value: Any) -> None:
        if value is not None and name in self.__dataclass_fields__:  # type: ignore[attr-defined]  # of subclasses
            super(ModelOutput, self).__setitem__(name, value)
        super(ModelOutput, self).__setattr__(name, value)


@dataclass
class SOMModelOutput(Fields):
    """States that predict the next word, and the decisions taken on the way."""

    last_hidden_state: Tensor = FILLED  # (B, T, D); None where no predictions are wanted
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
    structure_loss: Tensor | None = None  # summed over the labelled decisions
    labelled_decisions: int | None = None  # how many these are
    batch: Batch | None = None  # where the real tokens are; None where one token of every row was read, and no other


@dataclass
class SOMCausalLMOutput(Fields):
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
        self.segmented = config.syntactic_size > 0

    def forward(self, a: Tensor, b: Tensor) -> Tensor:  # (R, D), (R, D) → (R, D)
        if not torch.is_grad_enabled() and self.is_bare():
            return self.join(a, b)
        hidden = self.hidden(self.dropout(torch.stack([a, b], dim=1))).relu()  # (R, 4, D)
        f, i, c, u = self.gates(self.dropout(hidden)).unbind(dim=1)
        return self.norm(f.sigmoid() * a + i.sigmoid() * b + c.sigmoid() * u).to(a.dtype)

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """`forward` without gradient, where the cell `is_bare`."""
        return self.compose(torch.stack([a, b], dim=1)).subtrees

    def compose(self, pairs: Tensor) -> Composed:
        """What `forward` makes of pairs (R, 2, D), in fewer operators and without gradient, where it `is_bare`."""
        x, kept = self.dropout.draw(pairs.flatten(1))
        hidden, _ = self.dropout.draw(product(self.hidden.semantic, x).relu_())
        gates = product(self.gates.semantic, hidden).unflatten(1, (4, -1))
        gates.narrow(1, 0, 3).sigmoid_()
        norm = self.norm.semantic
        summed = F.layer_norm(gated_sum(gates, pairs), norm.normalized_shape, norm.weight, norm.bias, norm.eps)
        return Composed(summed, hidden, gates, kept)

    def is_bare(self) -> bool:
        """Whether the cell is its weights and nothing else, so that nobody misses a call of its parts."""
        if self.segmented or (self.gradient_checkpointing and self.training) or torch.compiler.is_compiling():
            return False
        hidden, gates, norm = self.hidden, self.gates, self.norm
        first, second = hidden.semantic, gates.semantic
        if not (is_plain(first) and is_plain(second)):
            return False
        if any(map(is_hooked, (self, hidden, gates, norm, norm.semantic, self.dropout))):
            return False  # before autocast is asked: weights that hooks will bring are on no device yet
        return not torch.is_autocast_enabled(first.weight.device.type)

    def weights(self) -> list[Tensor]:
        layers = (self.hidden.semantic, self.gates.semantic, self.norm.semantic)
        return [weight for layer in layers for weight in (layer.weight, layer.bias)]


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
    hidden: Tensor | None  # (P, D)
    next_attach_logits: Tensor | None  # (P, N)
    branches: Tensor | None  # (R, D)
    state: Callable[[], SOMState]
    tags: "Tagged | None" = None
    structure_loss: Tensor | None = None  # summed over the labelled decisions
    labelled_decisions: int = 0


class Tagged(NamedTuple):
    """Scores of the tags of the tree that was built, and what labels say of them."""

    leaf_logits: Tensor  # (P, tags), NONE where a token is no leaf
    node_logits: Tensor  # (P, tags), NONE where no inner node is called by a token
    loss: Tensor | None  # summed cross-entropy over the labelled nodes


class Prediction(NamedTuple):
    """What the prediction network makes of the subtrees."""

    hidden: Tensor | None = None  # (P, D) the state that predicts the word after each token
    logits: Tensor | None = None  # (P, N) of p'
    branches: Tensor | None = None  # (R, D) the state after every guess that p' allows, where the mixture is wanted
    prefix: Forest | None = None  # (rows, D) prefix states, among others
    prefix_place: Tensor | None = None  # (B * K + P',) the row of each: those of the state, then the new ones


# ---------------------------------------------------------------------------------------------- model


Model = TypeVar("Model", bound="SOMPreTrainedModel")


class SOMPreTrainedModel(PreTrainedModel):
    config: SOMConfig
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
        predict: bool = True,
        **kwargs: Any,
    ) -> SOMModelOutput:
        """`first_sibling` counts a row's unmasked tokens, as if the row stood alone; `marginal` asks for the states
        after every guess of p', by default where the configuration does and the decisions are not given; `leaf_tag`
        and `node_tag` (B, T), -100 for none, are the labels of the tags, which `output_tags` asks for. Without
        `predict` sentences are parsed and nothing else: no p', no states that predict words, no cache."""
        state = None if past_key_values is None else getattr(past_key_values, "state", None)
        tagging = validate_tags(self.config, leaf_tag, node_tag, output_tags, first_sibling, state)
        labels = {"first_sibling": first_sibling, "depths": depths, "leaf_tag": leaf_tag, "node_tag": node_tag}
        positions = kwargs.get("position_ids")
        inputs = (input_ids, inputs_embeds, attention_mask, past_key_values, positions, labels)
        continues = self.continues if self.config.word_pieces else None
        host = validate_inputs(self.config, *inputs, continues, self.training)
        words = inputs_embeds if input_ids is None else self.embed(input_ids)  # (B, T, D)
        assert words is not None  # one of both was given, or the inputs would have been refused
        marginal = self.wants_mixture(marginal, given=depths is not None)
        one_token = words.shape[1] == 1 and host.keys() <= {"input_ids", "depths", "positions", "inside", "before"}
        unpack: Callable[[Tensor], Tensor] = partial(torch.unsqueeze, dim=1)
        batch = None
        if one_token and predict and not tagging and not torch.is_grad_enabled():
            inside = host["inside"].to(words.device)[:, 0] if "inside" in host else None
            given = None if depths is None else depths[:, 0]
            reading = self.step(words[:, 0], state, marginal, given, inside)
        else:
            batch = Batch.of(host.pop("mask", None), words.shape[:2], words.device)
            unpack, before = batch.unpack, host.pop("before")[:, 0] if "before" in host else None
            packed = {name: numbers[batch.real] for name, numbers in host.items()}
            reading = self.read(batch.pack(words), batch, state, before, packed, marginal, tagging, predict)
        if predict and (self.config.use_cache and not self.training if use_cache is None else use_cache):
            past_key_values = SOMCache() if past_key_values is None else past_key_values
            past_key_values.update(reading.state(), words.shape[1])
        else:
            past_key_values = None
        wants_states = self.config.output_hidden_states if output_hidden_states is None else output_hidden_states
        hidden = None if reading.hidden is None else unpack(reading.hidden)
        return SOMModelOutput(
            last_hidden_state=hidden,  # type: ignore[arg-type]  # there unless nobody asked for it
            past_key_values=past_key_values,
            hidden_states=(words, hidden) if wants_states and hidden is not None else None,
            depths=unpack(reading.depths),
            word_depths=unpack(reading.word_depths),
            oracle_depths=None if reading.best is None else unpack(reading.best),
            attach_logits=unpack(reading.attach_logits),
            next_attach_logits=None if reading.next_attach_logits is None else unpack(reading.next_attach_logits),
            branch_states=reading.branches,
            leaf_tag_logits=unpack(reading.tags.leaf_logits) if reading.tags and output_tags else None,
            node_tag_logits=unpack(reading.tags.node_logits) if reading.tags and output_tags else None,
            tag_loss=reading.tags.loss if reading.tags else None,
            structure_loss=reading.structure_loss,
            labelled_decisions=reading.labelled_decisions,
            batch=batch,
        )

    def read(
        self,
        words: Tensor,
        batch: Batch,
        state: SOMState | None,
        state_depth: Tensor | None,
        numbers: dict[str, Tensor],
        marginal: bool,
        tagging: bool = False,
        predict: bool = True,
    ) -> ReadTokens:
        """Reads a whole batch (P, D): explores where decisions are not given, learns where gradients are wanted.

        What is known of the tokens, `numbers` (P,), is on the CPU, as is all that follows from it and from decisions:
        the oracle's labels and what lies where. It is sent to the device together, once."""
        x = self.norm(words).to(words.dtype)
        state = SOMState.empty(len(batch.lengths), x) if state is None else state
        siblings, given, inside = (numbers.get(name) for name in ("first_sibling", "depths", "inside"))
        labels = None if siblings is None else self.labels(siblings, batch)
        if given is None and labels is not None and self.training and self.config.oracle == "static":
            given = batch.unjustify(oracle_depths(labels, None, self.config.num_slots))
            marginal = False
        learning = torch.is_grad_enabled()
        growth = self.grow(x, batch, state, inside, learning) if given is None else None
        depths = growth.depths if given is None else given  # type: ignore[union-attr]  # it has grown
        layout = Layout(batch, state, state_depth, depths, self.config.num_slots, inside)
        best = None if labels is None else self.best_depths(labels, layout)
        made, children, sizes, explored = self.order_of_making(layout, growth, learning)
        layout.settle(made)
        wanted = [layout.place[children], explored, *layout.attachments(), *layout.branches()[:3]]
        wanted += [
            depths,
            layout.word_depths,
            *self.decided(best),
            *(part for part in (best, inside) if part is not None),
        ]
        children, explored, *sent = on_device(x.device, *wanted)
        known = torch.cat([layout.state_rows(state), x])
        if growth is not None and not learning:
            nodes, attach_logits = Forest(torch.cat([known, growth.subtrees])), growth.attach_logits
        else:
            composed = growth.composed.select(explored) if len(explored) and growth and growth.composed else None
            nodes = self.compose(self.cell, known, children.flatten(), sizes, composed)
            attach_logits = self.all_attachment_logits(x, nodes, *sent[:3])
        depths, word_depths, decided, decision = sent[6:10]
        if inside is not None:
            attach_logits = certain(attach_logits, (depths - 1).clamp(min=0), sent[-1].bool())
        prediction = Prediction()
        if predict:
            prediction = self.predict(nodes, layout, state, best, sent[3:6], given is not None, marginal)
        loss = None
        if siblings is not None or self.training:
            loss = self.structure_loss(attach_logits, prediction.logits, decided, decision)
        final = partial(layout.final_state, nodes, prediction.prefix, prediction.prefix_place)
        tagged = self.tag(nodes, layout, numbers) if tagging else None
        best = None if best is None else sent[10]
        return ReadTokens(depths, word_depths, attach_logits, best, *prediction[:3], final, tagged, loss, len(decided))

    def order_of_making(
        self, layout: Layout, growth: Growth | None, learning: bool
    ) -> tuple[Tensor, Tensor, list[int], Tensor]:
        """The numbers of subtrees that cells compose, their children (…, 2), how many at a time, and which of those
        that exploring has composed they are; without gradients, all as exploring left them."""
        explored = torch.empty(0, dtype=torch.long)
        if growth is None:
            return *layout.levels(), explored
        numbers = layout.starts[growth.token] + growth.at
        if not learning:
            return numbers, explored.view(0, 2), [], explored
        made, children, sizes = layout.levels()
        place = torch.empty(layout.total, dtype=torch.long)
        place[numbers] = torch.arange(len(numbers))
        return made, children, sizes, place[made]

    def decided(self, best: Tensor | None) -> tuple[Tensor, Tensor]:
        """The tokens (R,) whose attachment has a label, and these (R,); the first token of a row has no decision."""
        best = torch.empty(0, dtype=torch.long) if best is None else best
        decided = (best > 0).nonzero().flatten()
        return decided, best[decided] - 1

    def structure_loss(
        self, attach_logits: Tensor, next_attach_logits: Tensor | None, decided: Tensor, decision: Tensor
    ) -> Tensor:
        """Sum over labelled decisions of -log p_t(e*_t) - log p'_{t-1}(e*_t).

        0 without tree labels, yet it ties the parsers to the loss: parallel training wants every parameter used."""
        total = cross_entropy(attach_logits.index_select(0, decided), decision)
        if next_attach_logits is None:
            return total
        return total + cross_entropy(next_attach_logits.index_select(0, decided - 1), decision)

    def tag(self, nodes: Forest, layout: Layout, numbers: dict[str, Tensor]) -> Tagged:
        """Scores the tags of every node of the tree that was built; labels, where given, are those of nodes of the
        gold tree that span the same words."""
        batch, inside = layout.batch, numbers.get("inside")
        inside = None if inside is None else inside.bool()
        inside_grid = None if inside is None else batch.justify(inside.long(), fill=0).bool()
        built = node_spans(layout.depth_grid[:, 1:], inside_grid)
        where = TreeNodes.of(layout, built, inside)
        label = torch.full_like(where.token, NONE)
        if "leaf_tag" in numbers:
            siblings = numbers["first_sibling"]
            gold = node_spans(oracle_depths(batch.justify(siblings), None, len(siblings) + 1), inside_grid)
            gold_grid = batch.justify(numbers["node_tag"])
            matched = batch.unjustify(matching_tags(gold_grid, gold, built, gold_grid != NONE))
            label = torch.where(where.is_leaf, numbers["leaf_tag"][where.token], matched[where.token])
        kinds = [kind.nonzero().flatten() for kind in (where.is_leaf, ~where.is_leaf)]
        tokens = [where.token[kind] for kind in kinds]
        rows = [layout.place[part] for part in where[:3]]
        *sent, is_right, label = on_device(layout.device, *rows, *kinds, *tokens, where.is_right.long(), label)
        logits = self.tagger(*(nodes.pick(part) for part in sent[:3]), is_right)  # (R, tags)
        nothing = logits.new_full((len(layout.depths), logits.shape[1]), NONE)
        leaf, node = (
            nothing.index_copy(0, token, logits.index_select(0, kind))
            for kind, token in zip(sent[3:5], sent[5:7], strict=True)
        )
        return Tagged(leaf, node, cross_entropy(logits, label) if "leaf_tag" in numbers else None)

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
        state = self.attach(x, state, e, inside)
        depth = state.depth if inside is None else state.depth + inside.long()
        return ReadTokens(depth, state.depth, attach_logits, None, *self.predict_from(state, marginal), lambda: state)

    def attachment_logits(self, x: Tensor, state: SOMState, inside: Tensor | None = None) -> Tensor:
        """(B, N): p, where does the word x (B, D) attach? A piece `inside` a word (B,) has no choice."""
        scores = self.parser(self.parser.queries(x)[:, None], self.parser.keys(state.candidates))  # (B, K)
        logits = self.parser.logits(self.live_logits(scores, state.depth))
        if inside is None:
            return logits
        return certain(logits, state.depth.clamp(0, self.config.num_slots - 1), inside)

    def attach(
        self, x: Tensor, state: SOMState, e: Tensor, inside: Tensor | None = None, predicted: Tensor | None = None
    ) -> SOMState:
        """The state after the word x (B, D) was attached at depth e (B,); the first word of a text needs no e. Where
        h(e) has been `predicted` (B, D), it is the new prefix state."""
        depth = torch.where(state.depth < 0, 0, e + 1)
        attach = self.attach_row if len(x) == 1 else self.attach_rows
        tables = attach(x, state, depth, predicted)
        memory, candidates, prefix = (table[:, : self.config.num_slots] for table in tables)
        return SOMState(memory, candidates, prefix, depth if inside is None else depth - inside.long())

    def attach_row(self, x: Tensor, state: SOMState, depth: Tensor, predicted: Tensor | None) -> Sequence[Tensor]:
        """Memory, candidates and prefix states (1, depth + 1, D) of a single row: what stays, and what is new."""
        end = int(depth)  # here the step waits for the device
        above = max(end - 1, 0)
        prefix, sibling = state.prefix[:, above], state.candidates[:, above]  # (1, D)
        left = [*state.memory[:, :above].unbind(1), sibling][:end]
        candidates, compose = [x], self.cell.join if self.cell.is_bare() else self.cell
        for subtree in reversed(left):
            candidates.insert(0, compose(subtree, candidates[0]))
        if self.config.prediction_network and end:
            prefix = self.predict_cell(prefix, sibling) if predicted is None else predicted
        prefixes = [*state.prefix[:, :end].unbind(1), prefix]
        return [torch.stack(table, dim=1) for table in ([*left, x], candidates, prefixes)]

    def attach_rows(self, x: Tensor, state: SOMState, depth: Tensor, predicted: Tensor | None) -> Sequence[Tensor]:
        """Memory, candidates and prefix states (B, K, D) of several rows, live up to their depths (B,)."""
        rows, e = torch.arange(len(x), device=x.device), (depth - 1).clamp(min=0)
        sibling = state.candidates[rows, e]
        memory = F.pad(state.memory, (0, 0, 0, 1)).index_put_((rows, e), sibling)
        climbed = self.climb(x, memory.transpose(0, 1), depth)
        candidates = x.new_zeros(len(x), len(climbed.counts) + 1, x.shape[1]).index_put_((rows, depth), x)
        for at, subtrees in enumerate(reversed(climbed.candidates)):
            candidates[climbed.order[: len(subtrees)], at] = subtrees
        prefix, width = F.pad(state.prefix, (0, 0, 0, 1)), candidates.shape[1]
        if self.config.prediction_network:
            new = self.predicting_state(state, rows, e) if predicted is None else predicted
            prefix = prefix.index_put_((rows, depth), new.masked_fill((depth == 0)[:, None], 0))
        return memory[:, :width], candidates, prefix[:, :width]

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
        dead = torch.arange(scores.shape[1], device=depth.device) > depth[:, None]
        scores = scores.masked_fill(dead, -torch.inf)
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
    def grow(
        self, x: Tensor, batch: Batch, state: SOMState, inside: Tensor | None = None, learning: bool = False
    ) -> Growth:
        """Explores: reads step by step and decides each attachment.

        Rows are taken longest first, so that the rows still being read are always the first ones; their tokens lie in
        the order in which they are read. In the tables (N + 1, B, D) slots come first; candidates[N] only ever holds
        the leaf of a token that is too deep to be attached to."""
        B, N, D = len(state.depth), self.config.num_slots, x.shape[-1]
        order, tokens, active = batch.by_time()
        row_of, token_of, *pieces = on_device(x.device, order, tokens, *([] if inside is None else [inside[tokens]]))
        x, inside = x.index_select(0, token_of), pieces[0].bool() if pieces else None
        memory, candidates, keys = (x.new_zeros(N + 1, B, D) for _ in range(3))
        width, depth = state.memory.shape[1], state.depth.index_select(0, row_of)
        memory[:width] = state.memory.index_select(0, row_of).transpose(0, 1)
        candidates[:width] = state.candidates.index_select(0, row_of).transpose(0, 1)
        keys[:width] = self.parser.keys(candidates[:width])
        queries, slots = self.parser.queries(x), torch.arange(N, device=x.device)
        rows, first_places = torch.arange(B, device=x.device), slots[:, None] * B  # of the slots, in the tables
        attach_logits = x.new_full((len(x), N), -torch.inf)
        noise = gumbel_noise(attach_logits) if self.training else None
        climbs: list[Climbed] = []
        for n, words in zip(active, slices(active), strict=True):
            depth, attach = depth[:n], torch.zeros_like(rows[:n])
            if width > 1 or not learning:  # there is a choice, or somebody wants to see that there is none
                logits = self.parser(queries[words, None], keys[:width, :n].transpose(0, 1))
                logits = self.parser.logits(logits.masked_fill(slots[:width] > depth[:, None], -torch.inf))
                if not learning:
                    attach_logits[words, :width] = logits  # (n, width)
                attach = (logits if noise is None else logits + noise[words, :width]).argmax(dim=1)
            if inside is not None:
                attach = self.to_their_word(attach, depth, inside[words])
            begun = None if climbs else depth >= 0  # is there something to attach to? After the first word, always
            attach = attach if begun is None else attach * begun
            place = torch.add(rows[:n], attach, alpha=B)  # of the siblings, in the tables
            memory.flatten(0, 1).index_copy_(0, place, candidates.flatten(0, 1).index_select(0, place))
            depth = attach + 1 if begun is None else (attach + 1) * begun
            climbs.append(self.climb(x[words], memory[:, :n], depth, learning))
            if words.stop == len(x):
                break
            leaf_places = torch.add(rows[:n], depth, alpha=B)
            places, subtrees = climbs[-1].tables(leaf_places, x[words], first_places)
            candidates.flatten(0, 1).index_copy_(0, places, subtrees)
            keys.flatten(0, 1).index_copy_(0, places, self.parser.keys(subtrees).to(x.dtype))
            depth = depth if inside is None else depth - inside[words].long()
            width = min(len(climbs[-1].counts) + 1, N)
        return collect_growth(climbs, x, attach_logits, tokens, token_of)

    def climb(self, leaf: Tensor, memory: Tensor, depth: Tensor, learning: bool = False) -> Climbed:
        """C[e] = cell(M[e], C[e + 1]) from the deepest e up to the root, for the rows where e is live only.

        The one place where a step waits for the device: it must know how deep the rows are."""
        depths = depth.cpu()
        order = depth.argsort(descending=True, stable=True)
        counts = (depths[:, None] > torch.arange(int(depths.max()))).sum(0).tolist()
        candidates: list[Tensor] = []
        composed: list[Composed] = []
        if not counts:
            return Climbed(order, depths, counts, candidates, composed)
        below = leaf.index_select(0, order).expand(len(counts), -1, -1)
        pairs = torch.stack([memory[: len(counts)].index_select(1, order), below], dim=2)  # (depths, n, 2, D)
        bare = self.cell.is_bare()
        for e in reversed(range(len(counts))):
            pair = pairs[e, : counts[e]]  # (count, 2, D)
            made = self.cell.compose(pair) if bare else None
            candidates.append(self.cell(*pair.unbind(1)) if made is None else made.subtrees)
            if learning and made is not None:
                composed.append(made)
            if e > 0:
                pairs[e - 1, : counts[e], 1] = candidates[-1]
        return Climbed(order, depths, counts, candidates, composed)

    def compose(
        self, cell: Cell, known: Tensor, children: Tensor, sizes: list[int], composed: Composed | None = None
    ) -> Forest:
        """The known rows and, level by level, new ones that the cell composes of two earlier ones each."""
        if cell.is_bare() and sizes:
            if not torch.is_grad_enabled():
                return Forest(compose_levels(cell.compose, known, children, sizes)[0])
            return Forest(ComposeRows.apply(cell, children, sizes, composed, known, *cell.weights()))
        forest, end = Forest.of(known, len(known) + sum(sizes)), len(known)
        for size, some in zip(sizes, children.split([2 * size for size in sizes]), strict=True):
            forest.plant(end, cell(*forest.pick(some).unflatten(0, (-1, 2)).unbind(1)))
            end += size
        return forest

    def all_attachment_logits(self, x: Tensor, nodes: Forest, token: Tensor, depth: Tensor, subtree: Tensor) -> Tensor:
        """(P, N): the look-ahead parser's scores of every attachment each token could have chosen."""
        queries = self.parser.queries(x).index_select(0, token)
        scores = self.parser(queries, self.parser.keys(nodes.pick(subtree)))
        dead = scores.new_full((len(x), self.config.num_slots), -torch.inf)
        return self.parser.logits(dead.index_put((token, depth), scores))

    def labels(self, first_sibling: Tensor, batch: Batch) -> Tensor:
        """(B, longest row): the tree labels the oracle goes by."""
        labels = batch.justify(first_sibling)
        return to_left_branching(labels) if self.config.oracle == "left_branching" else labels

    def best_depths(self, labels: Tensor, layout: Layout) -> Tensor:
        """(P,): the oracle's labels, given the decisions taken; pieces inside a word are none."""
        batch, printed = layout.batch, self.config.oracle == "dynamic_paper"
        best = oracle_depths(labels, batch.justify(layout.depths), self.config.num_slots, printed)
        return batch.unjustify(best).masked_fill(layout.depths != layout.word_depths, NONE)

    def predict(
        self,
        nodes: Forest,
        layout: Layout,
        state: SOMState,
        best: Tensor | None,
        branches: Sequence[Tensor],
        given: bool,
        marginal: bool,
    ) -> Prediction:
        """Runs the prediction network from the root down to the guessed attachment of the next word."""
        if not self.config.prediction_network:
            return Prediction(nodes.pick(*on_device(layout.device, layout.place[layout.starts])))
        scores = self.next_parser(nodes.pick(branches[2]))
        logits = scores.new_full((len(layout.depths), self.config.num_slots), -torch.inf)
        logits = logits.index_put((branches[0], branches[1]), scores)  # (P, N)
        guess = self.guess(logits.detach(), layout, best, given)  # (P,)
        live = layout.live(layout.word_depths)
        chosen = live.cumsum(0) - live + guess  # (P,) into the branches
        # where the guess is what the next token does, that token's new prefix state is the state wanted here
        next_depth, next_prefix = layout.following()
        other = (guess != next_depth - 1).nonzero().flatten()
        plan = layout.prefix_plan(torch.arange(int(live.sum())) if marginal else chosen[other])
        if marginal:
            hidden = plan.made[chosen]
        else:
            hidden = plan.place[next_prefix.clamp(min=0)].index_copy(0, other, plan.made)
        subtree, children, hidden, made = on_device(layout.device, plan.subtree, plan.children, hidden, plan.made)
        known = torch.cat([state.prefix.flatten(0, 1), nodes.pick(subtree)])
        prefix = self.compose(self.predict_cell, known, children, plan.sizes)
        mixed = prefix.pick(made) if marginal else None
        return Prediction(prefix.pick(hidden), logits, mixed, prefix, plan.place)

    def guess(self, logits: Tensor, layout: Layout, best: Tensor | None, given: bool) -> Tensor:
        """(P,) on the CPU: the attachment depth that the prediction of the next word is conditioned on."""
        own = choose(logits, sample=self.training and not given).cpu()
        if given:
            known = layout.next_word_depth()
        elif self.training and best is not None and self.config.next_attachment == "oracle":
            known = shift(best, layout.row)
        else:
            return own
        return torch.where(known > 0, known - 1, own)


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
                validate_labels(self.config, given, input_ids if inputs_embeds is None else inputs_embeds)
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
            targets = self.targets(labels, out.batch) if shift_labels is None else shift_labels
            targets = targets[:, keep]
        logits, total = self.logits(out, keep, targets)
        if targets is not None and total is not None:
            lm_loss = mean(total, targets, num_items)
        if out.structure_loss is not None and (labels is not None or first_sibling is not None):
            structure_loss = out.structure_loss / (
                max(out.labelled_decisions or 0, 1) if num_items is None else num_items
            )
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

    def weigh(self, lm_loss: Tensor | None, structure_loss: Tensor | None, tag_loss: Tensor | None) -> Tensor | None:
        losses = {"lm_loss": lm_loss, "structure_loss": structure_loss, "tag_loss": tag_loss}
        terms = [loss * getattr(self.config, f"{name}_weight") for name, loss in losses.items() if loss is not None]
        return sum(terms[1:], terms[0]) if terms else None

    def logits(
        self, out: SOMModelOutput, keep: slice | Tensor, targets: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """(B, kept, V): scores of the next word, -100 in the padding at either end; and their summed cross-entropy."""
        hidden, batch = out.last_hidden_state[:, keep], out.batch
        if batch is not None and keep != slice(0, None):
            batch = Batch.of(batch.real[:, keep], hidden.shape[:2], hidden.device)
        packed = hidden.flatten(0, 1) if batch is None else batch.pack(hidden)
        labels = None if targets is None else targets.flatten() if batch is None else batch.pack(targets)
        position = None if batch is None or len(packed) == batch.real.numel() else batch.position
        total = None
        if (
            out.branch_states is None
            and labels is not None
            and is_plain(self.lm_head)
            and self.lm_head.bias is not None
        ):
            words, total = self.next_words(packed, labels, position, hidden.shape[:2].numel())
        else:
            mixed = out.branch_states is not None
            words = self.mixture(out, keep) if mixed else linear(self.lm_head, self.output_dropout(packed))
            total = None if labels is None else cross_entropy(words, labels, normalised=mixed)
            if position is not None:
                filler = words.new_full((hidden.shape[:2].numel(), words.shape[1]), NONE)
                words = filler.index_copy_(0, position, words)
        words = words.unflatten(0, hidden.shape[:2])
        return repeat_in_holes(words, batch.real) if batch is not None and batch.has_holes else words, total

    def word_logits(self, states: Tensor) -> Tensor:
        """(…, V): which words are expected after states (…, D) such as `SOMModel.predicting_state` gives."""
        logits = linear(self.lm_head, states)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def next_words(self, hidden: Tensor, targets: Tensor, position: Tensor | None, rows: int) -> tuple[Tensor, Tensor]:
        """Logits (rows, V) and their summed cross-entropy at once."""
        device = hidden.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
        operands = (part.to(dtype) for part in (self.output_dropout(hidden), self.lm_head.weight, self.lm_head.bias))
        return NextWords.apply(*operands, targets.long(), position, rows)

    def mixture(self, out: SOMModelOutput, keep: slice | Tensor) -> Tensor:
        """(P, V): log of the mixture of the predictions after every guess that p' allows, weighted by p'.

        Below the smallest normal number, e^-87, a probability counts as that number and has no gradient."""
        assert out.branch_states is not None and out.next_attach_logits is not None
        real = out.depths[:, keep] != NONE  # (B, kept)
        allowed = live_slots(out.word_depths, self.config.num_slots)  # (B, T, N)
        branch = torch.full_like(allowed, NONE, dtype=torch.long)
        branch[allowed] = torch.arange(len(out.branch_states), device=branch.device)
        branch, prior = branch[:, keep][real], out.next_attach_logits.softmax(dim=-1)[:, keep][real]  # (P, N)
        guesses = branch != NONE
        sizes, states, prior = guesses.sum(1).cpu(), out.branch_states[branch[guesses]], prior[guesses]
        mixed = [self.word_logits(states[:0])]  # all there is, where every token is masked
        groups, rows = groups_of_rows(sizes, chunk_on(states) // self.config.vocab_size)
        for size, state, weight in zip(sizes.split(groups), states.split(rows), prior.split(rows), strict=True):
            chances = self.word_logits(self.output_dropout(state)).softmax(dim=-1)  # (rows, V)
            mixed.append(weighted_sums(chances, size, weight).clamp(min=torch.finfo(chances.dtype).tiny).log())
        return torch.cat(mixed)

    def targets(self, labels: Tensor, batch: Batch | None) -> Tensor:
        """(B, T): the label of each row's next real token, at every real token."""
        return torch.full_like(labels, NONE) if batch is None else batch.shift(labels)

    def tag_loss(self, out: SOMModelOutput, labels: Tensor | None, num_items: Tensor | int | None) -> Tensor | None:
        """Cross-entropy of the tags per labelled word, or the sum over `num_items`."""
        if out.tag_loss is None or labels is None:
            return None
        return mean(out.tag_loss, labels, num_items)


def repeat_in_holes(logits: Tensor, real: Tensor) -> Tensor:
    """Logits (B, T, V) with the last prediction repeated at masked tokens between the `real` ones (B, T).

    Those leave the state, and so the prediction, as it was; some tools pad on the left, put BOS in front of that, and
    look for the prediction of the first word right before it."""
    read = real.cumsum(1)  # (B, T) real tokens so far
    hole = ~real & (read > 0) & (read < read[:, -1:])
    last = torch.where(real, torch.arange(real.shape[1]), 0).cummax(1).values
    rows, columns, before = on_device(logits.device, *hole.nonzero(as_tuple=True), last[hole])
    return logits.index_put((rows, columns), logits[rows, before])


SOMModel.register_for_auto_class("AutoModel")
SOMForCausalLM.register_for_auto_class("AutoModelForCausalLM")
# the Trainer's label smoothing knows by this name that each label belongs to the prediction before it
MODEL_FOR_CAUSAL_LM_MAPPING_NAMES[SOMConfig.model_type] = SOMForCausalLM.__name__

__all__ = ["SOMCache", "SOMForCausalLM", "SOMModel", "SOMPreTrainedModel", "SOMState"]
