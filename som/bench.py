"""How fast the model is: beside its dense form, the bare matrix products it needs, and other language models.

Timings are taken in turn, contender after contender, round after round, so that a busy machine slows all of them; what
counts is the ratio within a round, given as its median and its range over the rounds.
"""

from __future__ import annotations

import copy
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from rich.table import Table
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerFast

from configuration_som import SOMConfig
from modeling_som import SOMCache, SOMForCausalLM, SOMState
from modeling_som.modeling_som import LookAheadParser, oracle_depths
from modeling_som.operators_som import linear
from som.baselines import SYSTEMS
from som.data import make_tokenizer
from som.inference import load, parse_all, surprisals_all
from som.syntax import Example, Tree, builtin_treebank, first_siblings, read_treebank
from som.training import make_settings, sentence_counts

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VOCABULARY, HIDDEN, SLOTS = 23_815, 400, 15  # the paper's PTB model
MANY_WORDS = 31_851  # those that occur twice in a million words of AMALGUM
TAGS = 40  # the universal relations and what else a node can be
TREE_TAGS = ["partial", "head", "root", *(str(tag) for tag in range(TAGS - 3))]
PROMPT = 4  # tokens that generation goes on from
Returned = TypeVar("Returned")
Run = Callable[[], Any]
Contenders = dict[str, tuple[Run, int]]  # what each runs, and how many tokens that is
Pool = Sequence[Sequence[int]]  # first siblings of sentences


# Text: random words on the trees of a treebank


def sibling_pool(trees: Iterable[Tree]) -> Pool:
    """First siblings of sentences with BOS and EOS, as a model reads them."""
    return [
        first_siblings(Tree(("BOS", *([tree] if len(tree.words()) > 1 else tree.words()), "EOS"))) for tree in trees
    ]


def batch_of(pool: Pool, sentences: int, length: int, seed: int = 0) -> dict[str, Tensor]:
    """Random words on trees of exactly this length: sentences of it, or several joined under one BOS where they are
    too short."""
    rng = random.Random(seed)
    fitting = [row for row in pool if len(row) == length]
    rows = [rng.choice(fitting) if fitting else joined(pool, length, rng) for _ in range(sentences)]
    labels = torch.tensor([list(row) for row in rows])
    words = torch.randint(3, VOCABULARY, labels.shape, generator=torch.Generator().manual_seed(seed))
    return {"input_ids": words, "labels": words, "first_sibling": labels, "depths": oracle_depths(labels, None, SLOTS)}


def batches_of(pool: Pool, sentences: int, vocabulary: int, size: int = 32) -> list[dict[str, Tensor]]:
    """Random words on trees of the treebank as they are, in padded batches of similar lengths, longest rows first."""
    rows = sorted(random.Random(0).choices(pool, k=sentences), key=len, reverse=True)
    return [padded(rows[start : start + size], vocabulary) for start in range(0, sentences, size)]


def padded(rows: Pool, vocabulary: int) -> dict[str, Tensor]:
    """A batch of these trees, whose words are random."""
    labels = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-100)
    mask = (labels != -100).long()
    words = torch.randint(3, vocabulary, labels.shape, generator=torch.Generator().manual_seed(0))
    given = {"input_ids": words, "attention_mask": mask, "labels": words.masked_fill(mask == 0, -100)}
    return {**given, "first_sibling": labels, "depths": oracle_depths(labels, None, SLOTS)}


def with_tags(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same batch with random tags; none of BOS, EOS and first words, which join nothing."""
    ids, depths = batch["input_ids"], batch["depths"]
    leaf, node = torch.randint(TAGS, (2, *ids.shape), generator=torch.Generator().manual_seed(0))
    outside = torch.zeros_like(ids, dtype=torch.bool)
    outside[:, [0, -1]] = True
    return {**batch, "leaf_tag": leaf.masked_fill(outside, -100), "node_tag": node.masked_fill(depths < 2, -100)}


def joined(pool: Pool, length: int, rng: random.Random) -> list[int]:
    """Sentences side by side under one BOS: each sentence's first word attaches to BOS.

    >>> joined([[-1, 0, 1, 0]], 6, random.Random(0))
    [-1, 0, 1, 0, 3, 0]
    """
    row = [-1]
    while len(row) < length:
        shift = len(row) - 1
        row += [sibling + shift if sibling > 0 else sibling for sibling in rng.choice(pool)[1:-1]]
    return row[:length]


def running_depths(pool: Pool, rows: int, length: int) -> Tensor:
    """(rows, length): depths of sentences that follow each other."""
    rng = random.Random(0)
    labels = torch.tensor([joined(pool, length, rng) for _ in range(rows)])
    return oracle_depths(labels, None, SLOTS)


# Contenders


class TreebankParser(LookAheadParser):
    """Scores attachments like any other, then attaches where a treebank does: weights that were never trained make
    trees of no natural depth, and a SOM's time depends on depth."""

    coming: Iterator[Tensor] = iter(())

    def follow(self, depths: Tensor) -> None:
        """Decides the next tokens like this (B, T)."""
        self.coming = iter((depths - 1).clamp(min=0)[..., None].unbind(1))

    def logits(self, scores: Tensor) -> Tensor:
        if torch.is_grad_enabled():  # learning, when all is decided
            return scores
        decided = next(self.coming)[: len(scores)]  # of the rows that are still being read, the longest
        return torch.full_like(scores, -torch.inf).scatter_(1, decided, 0.0)


def following(model: SOMForCausalLM, depths: Tensor, run: Callable[[], Returned]) -> Callable[[], Returned]:
    """What runs the model, with its decisions those of a treebank."""

    def step() -> Returned:
        model.model.parser.follow(depths)
        return run()

    return step


def exploring(model: SOMForCausalLM, batch: dict[str, Tensor]) -> Callable[[], Tensor]:
    """The loss where decisions are not given; in training the first two tokens of a sentence are no decisions."""
    sampled = {key: value for key, value in batch.items() if key != "depths"}
    return following(model, batch["depths"][:, 2:], partial(loss_of, model, sampled))


class DenseSOM(nn.Module):
    """The same model with every slot computed at every step, sharing its weights; decisions are given."""

    def __init__(self, model: SOMForCausalLM):
        super().__init__()
        self.lm, self.som = model, model.model

    def forward(
        self, input_ids: Tensor, depths: Tensor, labels: Tensor, first_sibling: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Logits (B, T, V) and the loss that the model itself has for these decisions."""
        B, T = input_ids.shape
        N = self.som.config.num_slots
        x = self.som.words(input_ids)  # (B, T, D)
        memory = candidates = x.new_zeros(B, N + 1, x.shape[-1])
        state = SOMState.empty(B, x[:, 0])
        slots = torch.arange(N + 1)
        states, attach, next_attach = [], [], []
        for t in range(T):
            depth = depths[:, t, None]
            attach.append(self.som.attachment_logits(x[:, t], state))
            memory = torch.where((slots == depth - 1)[..., None], candidates, memory)
            candidates = self.climb(x[:, t], memory, depth)
            guess = depths[:, t + 1, None] - 1 if t + 1 < T else depth.clamp(max=N - 1)
            states.append(self.predict(memory, candidates, guess))
            state = state._replace(candidates=candidates[:, :N], depth=depths[:, t])
            next_attach.append(self.som.next_attachment_logits(state))
        logits = self.lm.lm_head(self.lm.output_dropout(torch.stack(states, dim=1)))
        return logits, self.loss(logits, torch.stack(attach, 1), torch.stack(next_attach, 1), labels, depths)

    def climb(self, leaf: Tensor, memory: Tensor, depth: Tensor) -> Tensor:
        N = memory.shape[1] - 1
        candidates = [leaf]
        for e in reversed(range(N)):
            composed = self.som.cell(memory[:, e], candidates[0])
            candidates.insert(0, torch.where(depth > e, composed, leaf))
        return torch.stack(candidates, dim=1)  # (B, N + 1, D), the leaf from its depth on

    def predict(self, memory: Tensor, candidates: Tensor, guess: Tensor) -> Tensor:
        state, found = torch.zeros_like(memory[:, 0]), torch.zeros_like(memory[:, 0])
        for e in range(memory.shape[1] - 1):
            last = self.som.predict_cell(state, torch.where(guess == e, candidates[:, e], memory[:, e]))
            found = torch.where(guess == e, last, found)
            state = last
        return found

    def loss(self, logits: Tensor, attach: Tensor, next_attach: Tensor, labels: Tensor, depths: Tensor) -> Tensor:
        best = depths[:, 1:].flatten() - 1
        words = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        decisions = F.cross_entropy(attach[:, 1:].flatten(0, 1), best)
        return words + decisions + F.cross_entropy(next_attach[:, :-1].flatten(0, 1), best)


class LSTM(nn.Module):
    """An LSTM language model with tied embeddings, D → hidden → D."""

    def __init__(self, hidden: int = 1030):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.wide, self.narrow = (nn.LSTM(a, b, batch_first=True) for a, b in ((HIDDEN, hidden), (hidden, HIDDEN)))
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(HIDDEN, VOCABULARY)
        self.output.weight = self.embedding.weight

    def forward(self, input_ids: Tensor, state: Any = (None, None)) -> tuple[Tensor, Any]:
        x, wide = self.wide(self.dropout(self.embedding(input_ids)), state[0])
        x, narrow = self.narrow(self.dropout(x), state[1])
        return self.output(self.dropout(x)), (wide, narrow)


def products(tokens: int, rows: int, hidden: int = HIDDEN, backward: bool = True) -> Run:
    """The bare matrix products of a step: `rows` cell rows, both parsers on every live slot, the output layer."""
    live = rows - tokens  # candidates: about one cell row each, besides the prediction network's
    shapes = [(rows, 2 * hidden, 4 * hidden), (rows, 4 * hidden, 4 * hidden), (tokens, hidden, hidden)]
    shapes += [(live, hidden, hidden), (live, hidden, hidden), (tokens, hidden, VOCABULARY)]
    operands = [(torch.randn(m, k), torch.randn(k, n), torch.randn(m, n)) for m, k, n in shapes]

    def step() -> None:
        for x, weight, gradient in operands:
            torch.mm(x, weight)
            if backward:
                torch.mm(gradient, weight.T)
                torch.mm(x.T, gradient)

    return step


def generation_products(depths: Tensor) -> Run:
    """The bare matrix products of generating words at these depths (B, T), or a little less: a cell for every new
    candidate, one for the state that predicts, both parsers, the output layer."""
    cell, predict_cell = ([nn.Linear(inputs * HIDDEN, 4 * HIDDEN) for inputs in (2, 4)] for _ in range(2))
    key, output = nn.Linear(HIDDEN, HIDDEN), nn.Linear(HIDDEN, VOCABULARY)
    rows = len(depths)
    live = [[int((depth > e).sum()) for e in range(int(depth.max()))] for depth in depths[:, PROMPT:].unbind(1)]
    x = torch.randn(rows * SLOTS, 4 * HIDDEN)

    def run() -> None:
        for counts in live:
            for count, layers in (*((count, cell) for count in counts), (rows, predict_cell)):
                for layer in layers:
                    linear(layer, x[:count, : layer.in_features])
            for _ in range(2):
                linear(key, x[: sum(counts), :HIDDEN])
            linear(output, x[:rows, :HIDDEN])

    def step() -> None:
        with torch.inference_mode():
            run()

    return step


def gpt2_of_size(layers: int = 12, width: int = 768, heads: int = 12, vocabulary: int = 50_257) -> GPT2LMHeadModel:
    sizes: dict[str, Any] = {
        "n_layer": layers,
        "n_embd": width,
        "n_head": heads,
        "vocab_size": vocabulary,
        "n_positions": 1024,
    }
    specials: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    return GPT2LMHeadModel(GPT2Config(**sizes, **specials))


def som(**settings: Any) -> SOMForCausalLM:
    config = {"vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_slots": SLOTS}
    specials = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    model = SOMForCausalLM(SOMConfig(**{**config, **specials, **settings}))
    model.model.parser = TreebankParser(model.config)  # type: ignore[arg-type]  # a SOMConfig
    return model


def count_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


# Steps


def training_step(model: nn.Module, loss: Callable[[], Tensor]) -> Run:
    def step() -> None:
        model.train()
        model.zero_grad(set_to_none=True)
        loss().backward()

    return step


def no_gradient(model: nn.Module, run: Run) -> Run:
    def step() -> None:
        model.eval()
        with torch.inference_mode():
            run()

    return step


def next_word_loss(logits: Tensor, input_ids: Tensor) -> Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), input_ids[:, 1:].flatten())


def generation(model: PreTrainedModel, batch: int, tokens: int) -> Run:
    """Greedy; nothing ends a text early, so nothing has to look for its end in the vocabulary, word by word."""
    model.generation_config.eos_token_id = None  # type: ignore[union-attr]  # a model that generates has one
    prompt, settings = torch.full((batch, PROMPT), 5), {"do_sample": False, "max_new_tokens": tokens}
    return no_gradient(model, lambda: model.generate(prompt, **settings))  # type: ignore[operator]


def lstm_generation(model: LSTM, batch: int, tokens: int) -> Run:
    def run() -> None:
        logits, state = model(torch.full((batch, PROMPT), 5))
        for _ in range(tokens):
            logits, state = model(logits[:, -1:].argmax(-1), state)

    return no_gradient(model, run)


# Measuring


@dataclass
class Timing:
    """Seconds of every round."""

    tokens: int
    seconds: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return self.tokens / statistics.median(self.seconds)

    def ratio_to(self, other: Timing) -> dict[str, float]:
        """How many times the other's tokens per second: median, smallest and largest of the rounds."""
        rounds = [
            (self.tokens / mine) / (other.tokens / theirs)
            for mine, theirs in zip(self.seconds, other.seconds, strict=True)
        ]
        return {"median": statistics.median(rounds), "min": min(rounds), "max": max(rounds)}


def time_all(what: str, contenders: Contenders, rounds: int, progress: Callable[[str], None]) -> dict[str, Timing]:
    """Times every contender once per round, after one round to warm up."""
    timings = {name: Timing(tokens) for name, (_, tokens) in contenders.items()}
    for number in range(rounds + 1):
        for name, (step, _) in contenders.items():
            progress(f"{what}, round {number} of {rounds}: {name}")
            began = time.perf_counter()
            step()
            if number:
                timings[name].seconds.append(time.perf_counter() - began)
    return timings


class CountOperators(TorchDispatchMode):
    """Counts operator calls, each a kernel launch on a GPU; views launch nothing and are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(
        self, function: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls += not function.is_view
        return function(*args, **(kwargs or {}))


def operator_calls(step: Run) -> int:
    with CountOperators() as counter:
        step()
    return counter.calls


# What is compared


def cell_rows(batch: dict[str, Tensor]) -> int:
    """Cell rows that a step cannot do without: one per live slot, and one new prediction state per token."""
    return int(batch["depths"].sum()) + batch["depths"].numel()


def training_contenders(batch: dict[str, Tensor]) -> Contenders:
    """A training step, forward and backward, of everything; the SOM's decisions are given unless said."""
    ids, model, lstm = batch["input_ids"], som(), LSTM()
    dense, small, large = DenseSOM(model), gpt2_of_size(8, 320, 8, VOCABULARY), gpt2_of_size()
    tagged, tags = som(tree_tags=TREE_TAGS), with_tags(batch)
    steps = {
        "SOM": training_step(model, lambda: model(**batch).loss),
        "SOM, tags": training_step(tagged, partial(loss_of, tagged, tags)),
        "SOM, exploring": training_step(model, exploring(model, batch)),
        "SOM, tags, exploring": training_step(tagged, exploring(tagged, tags)),
        "SOM, dense": training_step(model, lambda: dense(**batch)[1]),
        "matrix products": products(ids.numel(), cell_rows(batch)),
        "LSTM": training_step(lstm, lambda: next_word_loss(lstm(ids)[0], ids)),
        "GPT-2, same size": training_step(small, lambda: small(ids, labels=ids).loss),
        "GPT-2 small": training_step(large, lambda: large(ids, labels=ids).loss),
    }
    if has_bf16():
        steps["SOM, bf16"] = training_step(model, lambda: in_bf16(lambda: model(**batch).loss))
    return {name: (step, ids.numel()) for name, step in steps.items()}


def peer_contenders(batch: dict[str, Tensor]) -> Contenders:
    """A training step of every system that `som train` knows, in the SOM's hidden size; the SOM explores."""
    tokenizer = tokenizer_of(VOCABULARY)
    given = {name: batch[name] for name in ("input_ids", "labels", "first_sibling")}
    given["attention_mask"] = torch.ones_like(batch["input_ids"])
    steps: dict[str, Run] = {}
    for name, system in SYSTEMS.items():
        model = system.build(make_settings(hidden_size=HIDDEN, **system.defaults), tokenizer)
        loss: Callable[[], Tensor] = partial(loss_of, model, given)
        if name == "som" and isinstance(model, SOMForCausalLM):
            model.model.parser = TreebankParser(model.config)  # type: ignore[arg-type]  # a SOMConfig
            loss = exploring(model, batch)
        steps["SOM" if name == "som" else name] = training_step(model, loss)
    return {name: (step, given["input_ids"].numel()) for name, step in steps.items()}


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """Knows so many words, special tokens counted."""
    return make_tokenizer("word", ([f"word{number}"] * 2 for number in range(vocabulary - 4)))


def validation_contenders(pool: Pool, sentences: int) -> Contenders:
    """The validation between two epochs of small models that know many words: a SOM, read as a mixture over p' or
    greedily, and an LSTM of `som train`."""
    settings = make_settings(hidden_size=128, **SYSTEMS["lstm"].defaults)
    model, tokenizer = som(hidden_size=128, vocab_size=MANY_WORDS, marginal=True), tokenizer_of(MANY_WORDS)
    lstm, batches = SYSTEMS["lstm"].build(settings, tokenizer), batches_of(pool, sentences, MANY_WORDS)
    greedy = copy.deepcopy(model)
    greedy.config.marginal = False
    steps = {
        "SOM": no_gradient(model, partial(validate_all, model, batches)),
        "SOM, greedy": no_gradient(greedy, partial(validate_all, greedy, batches)),
        "LSTM": no_gradient(lstm, partial(validate_all, lstm, batches)),
    }
    tokens = sum(int(batch["attention_mask"].sum()) for batch in batches)
    return {name: (step, tokens) for name, step in steps.items()}


def validate_all(model: PreTrainedModel, batches: Sequence[dict[str, Tensor]]) -> None:
    """What the Trainer does between epochs, for each batch."""
    for batch in batches:
        given = {name: values for name, values in batch.items() if name != "depths"}
        if isinstance(model, SOMForCausalLM):
            model.model.parser.follow(batch["depths"])  # type: ignore[union-attr]  # a TreebankParser
        outputs = model(**given)
        shown = [value for name, value in outputs.items() if name not in ("loss", "past_key_values", "tag_loss")]
        sentence_counts(shown[0] if len(shown) == 1 else tuple(shown), batch["labels"])


def evaluation_contenders(batch: dict[str, Tensor]) -> Contenders:
    """Reading without gradient, decisions greedy; the dense form is given them."""
    ids, model, lstm = batch["input_ids"], som(), LSTM()
    dense, small, large = DenseSOM(model), gpt2_of_size(8, 320, 8, VOCABULARY), gpt2_of_size()
    steps = {
        "SOM": no_gradient(model, following(model, batch["depths"], lambda: model(ids))),
        "SOM, dense": no_gradient(model, following(model, batch["depths"], lambda: dense(**batch))),
        "matrix products": products(ids.numel(), cell_rows(batch), backward=False),
        "LSTM": no_gradient(lstm, lambda: lstm(ids)),
        "GPT-2, same size": no_gradient(small, lambda: small(ids)),
        "GPT-2 small": no_gradient(large, lambda: large(ids)),
    }
    return {name: (step, ids.numel()) for name, step in steps.items()}


def reading_contenders(sentences: Sequence[Sequence[str]]) -> Contenders:
    """What people wait for: the shipped checkpoint parses and scores sentences, by each method; tags are random."""
    shipped, tokenizer = load()
    model, tagged = (with_random_tags(shipped, tags) for tags in ([], TREE_TAGS))
    parse, tree = partial(parse_all, words=True, log_probs=False), partial(parse_all, words=True)
    steps = {
        "SOM": lambda: parse(model, tokenizer, sentences, "greedy"),
        "SOM, tags": lambda: parse(tagged, tokenizer, sentences, "greedy"),
        "SOM, tree and log-probability": lambda: tree(model, tokenizer, sentences, "greedy"),
        "SOM, marginal": lambda: tree(model, tokenizer, sentences, "marginal"),
        "SOM, beam of 4": lambda: tree(model, tokenizer, sentences, "beam", k=4),
        "SOM, surprisal": lambda: surprisals_all(model, tokenizer, sentences, words=True),
        "SOM, tags, surprisal": lambda: surprisals_all(tagged, tokenizer, sentences, words=True),
    }
    return {name: (step, sum(map(len, sentences))) for name, step in steps.items()}


def with_random_tags(model: SOMForCausalLM, tags: list[str]) -> SOMForCausalLM:
    """The same model with a classifier of these tags that was never trained, or without one."""
    tagged = SOMForCausalLM(SOMConfig(**{**model.config.to_diff_dict(), "tree_tags": tags}))
    weights = {name: weight for name, weight in model.state_dict().items() if "tagger" not in name}
    tagged.load_state_dict(weights, strict=False)
    return tagged.eval()


def generation_contenders(pool: Pool, rows: int, tokens: int) -> Contenders:
    """Greedy continuation of a short prompt."""
    model, depths = som(), running_depths(pool, rows, PROMPT + tokens)
    steps = {
        "SOM": following(model, depths, generation(model, rows, tokens)),
        "matrix products": generation_products(depths),
        "LSTM": lstm_generation(LSTM(), rows, tokens),
        "GPT-2, same size": generation(gpt2_of_size(8, 320, 8, VOCABULARY), rows, tokens),
        "GPT-2 small": generation(gpt2_of_size(), rows, tokens),
    }
    return {name: (step, rows * tokens) for name, step in steps.items()}


def has_bf16() -> bool:
    """Whether the CPU multiplies bfloat16 itself."""
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16"))


def in_bf16(run: Callable[[], Any]) -> Any:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return run()


# Two processes


class TwoProcesses:
    """Training steps of two processes that share a batch, with distributed data parallelism over gloo.

    They wait between steps, so that other contenders have the machine to themselves; each has half of its threads."""

    def __init__(self, pool: Pool, sentences: int, length: int):
        context, threads = torch.multiprocessing.get_context("spawn"), max(torch.get_num_threads() // 2, 1)
        self.folder = tempfile.TemporaryDirectory()
        self.pipes, ends = zip(*(context.Pipe() for _ in range(2)), strict=True)
        for rank, end in enumerate(ends):
            given = (rank, f"file://{self.folder.name}/meet", end, pool, sentences // 2, length, threads)
            context.Process(target=train_beside, args=given, daemon=True).start()

    def __enter__(self) -> TwoProcesses:
        return self

    def step(self) -> None:
        for pipe in self.pipes:
            pipe.send(True)
        for pipe in self.pipes:
            pipe.recv()

    def __exit__(self, *_: object) -> None:
        for pipe in self.pipes:
            pipe.send(False)
        self.folder.cleanup()


def train_beside(
    rank: int, meeting: str, pipe: Connection, pool: Pool, sentences: int, length: int, threads: int
) -> None:
    """What each of `TwoProcesses` does: a step when it is told to, with decisions given."""
    torch.set_num_threads(threads)
    torch.distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    model, batch = DistributedDataParallel(som()), batch_of(pool, sentences, length, seed=rank)
    step = training_step(model, lambda: model(**batch).loss)
    while pipe.recv():
        step()
        pipe.send(True)
    torch.distributed.destroy_process_group()


def process_contenders(pool: Pool, together: TwoProcesses, sentences: int, length: int) -> Contenders:
    """A training step in one process with all threads, and in two with half of them each."""
    model, batch = som(), batch_of(pool, sentences, length)
    tokens = sentences * length
    return {
        "SOM": (training_step(model, partial(loss_of, model, batch)), tokens),
        "SOM, two processes": (together.step, tokens),
    }


# How cost grows


def by_length(pool: Pool, tokens: int, lengths: Sequence[int]) -> Contenders:
    """Training steps of the same number of tokens in fewer and longer sequences, decisions given and explored."""
    model, steps = som(), {}
    for length in lengths:
        batch = batch_of(pool, tokens // length, length)
        steps[f"{length}"] = (training_step(model, partial(loss_of, model, batch)), batch["input_ids"].numel())
        steps[f"{length}, exploring"] = (training_step(model, exploring(model, batch)), batch["input_ids"].numel())
    return steps


def by_setting(pool: Pool, name: str, values: Sequence[int]) -> Contenders:
    """Training steps of models that differ in one setting, on the same sentences and decisions."""
    batch, steps = batch_of(pool, 64, 18), {}
    for value in values:
        model = som(**{name: value})
        steps[f"{value}"] = (training_step(model, partial(loss_of, model, batch)), batch["input_ids"].numel())
    return steps


def by_batch_size(pool: Pool, sizes: Sequence[int]) -> Contenders:
    model, steps = som(), {}
    for size in sizes:
        batch = batch_of(pool, size, 18)
        steps[f"{size}"] = (training_step(model, partial(loss_of, model, batch)), batch["input_ids"].numel())
    return steps


def by_position(pool: Pool, positions: Sequence[int], tokens: int = 100) -> Contenders:
    """Reading on, one token at a time, after so many; the next tokens are those of one sentence."""
    model, steps, sentence = som().eval(), {}, running_depths(pool, 1, 1 + tokens)[:, 1:]
    for position in positions:
        words, depths = torch.randint(3, VOCABULARY, (1, position)), running_depths(pool, 1, position)
        with torch.inference_mode():
            read = partial(model, words, use_cache=True, logits_to_keep=1)
            cache = following(model, depths, read)().past_key_values
        run = following(model, sentence, partial(read_on, model, cache, tokens))
        steps[f"{position}"] = (no_gradient(model, run), tokens)
    return steps


def read_on(model: SOMForCausalLM, cache: SOMCache, tokens: int) -> None:
    cache = copy.deepcopy(cache)  # every round goes on from the same state
    for word in range(tokens):
        model(torch.tensor([[3 + word]]), past_key_values=cache, use_cache=True)


def loss_of(model: PreTrainedModel, batch: dict[str, Tensor]) -> Tensor:
    loss = model(**batch).loss
    assert loss is not None
    return loss


# Memory and launches


def peak_memory(hidden: int, vocabulary: int, sentences: int, length: int) -> float:
    """GiB by which one training step makes a fresh process grow, weights and gradients included."""
    call = f"step_memory({hidden}, {vocabulary}, {sentences}, {length})"
    code = f"import som.bench; print(som.bench.{call})"
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def step_memory(hidden: int, vocabulary: int, sentences: int, length: int) -> float:
    """What `peak_memory` runs."""
    batch = batch_of(builtin_pool(), sentences, length)
    before = high_water()
    model = som(hidden_size=hidden, vocab_size=vocabulary)
    training_step(model, partial(loss_of, model, batch))()
    return (high_water() - before) / 2**20


def high_water() -> int:
    """The most memory this process has had, in KiB; what getrusage says of a child includes its parent's."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0])


# All of it


def bench(
    examples: Sequence[Example],
    rounds: int = 5,
    quick: bool = False,
    progress: Callable[[str], None] = print,
    peers: bool = False,
) -> dict[str, Any]:
    """Runs everything, on the trees of a treebank and its first sentences, and returns rates, ratios to the SOM,
    growth, memory and operator calls; with `peers`, also training steps of all other systems."""
    pool = sibling_pool(example.tree for example in examples)
    batch = batch_of(pool, 64, 18)
    lengths = [16, 64, 256] if quick else [16, 32, 64, 128, 256, 512, 1024]
    compared = {
        "training": training_contenders(batch),
        "evaluation": evaluation_contenders(batch),
        "parses and scores": reading_contenders([example.words for example in examples[: 10 if quick else 200]]),
        "generation, 1 row": generation_contenders(pool, 1, 10 if quick else 200),
        "generation, 32 rows": generation_contenders(pool, 32, 5 if quick else 20),
        "validation between epochs": validation_contenders(pool, 64 if quick else 2_888),
    }
    if peers:
        compared["training, all systems"] = peer_contenders(batch)
    growth = {
        "tokens per sentence": by_length(pool, 256 if quick else 1024, lengths),
        "sentences per step": by_batch_size(pool, [8, 64] if quick else [1, 8, 32, 64, 128]),
        "slots": by_setting(pool, "num_slots", [15, 60] if quick else [15, 30, 60]),
        "hidden size": by_setting(pool, "hidden_size", [100, 400] if quick else [100, 200, 400, 800]),
        "position": by_position(pool, [10, 100] if quick else [100, 1000, 2000, 4000]),
    }
    report = machine()
    report |= {"compared": {}, "growth": {}}
    for name, contenders in compared.items():
        report["compared"][name] = compare_rates(time_all(name, contenders, rounds, progress))
    with TwoProcesses(pool, 64, 18) as together:
        name = "training, two processes"
        contenders = process_contenders(pool, together, 64, 18)
        report["compared"][name] = compare_rates(time_all(name, contenders, rounds, progress))
    for name, contenders in growth.items():
        timings = time_all(name, contenders, rounds, progress)
        first = next(iter(timings.values()))
        report["growth"][name] = {
            who: {"tokens per second": timing.rate, "relative": timing.ratio_to(first)}
            for who, timing in timings.items()
        }
    report["operator calls per training step"] = {
        who: operator_calls(step) for who, (step, _) in compared["training"].items() if who != "matrix products"
    }
    progress("memory")
    sizes = {"PTB, 1,152 tokens": (400, 23_815, 64, 18)} | (
        {} if quick else {"MD, 4,096 tokens": (500, 50_257, 128, 32)}
    )
    report["peak memory of a training step, GiB"] = {name: peak_memory(*size) for name, size in sizes.items()}
    return report


def compare_rates(timings: dict[str, Timing]) -> dict[str, dict[str, Any]]:
    """The rate of each contender, and how many times as fast the SOM is."""
    return {
        who: {"tokens per second": timing.rate, "SOM is faster by": timings["SOM"].ratio_to(timing)}
        for who, timing in timings.items()
    }


def machine() -> dict[str, Any]:
    """What the figures depend on, besides versions."""
    name = torch.cpu.get_capabilities().get("cpu_name") or platform.processor()
    return {"threads": torch.get_num_threads(), "cpu": name}


def builtin_pool() -> Pool:
    """First siblings of the built-in treebank's test sentences."""
    return sibling_pool(example.tree for example in builtin_examples())


def builtin_examples() -> list[Example]:
    """The built-in treebank's test sentences."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "builtin.conllu"
        file.write_text("\n".join(builtin_treebank("test")), encoding="utf-8")
        return list(read_treebank([file]))


# Showing it


def bench_tables(report: dict[str, Any]) -> list[Table]:
    found = []
    for name, rows in report["compared"].items():
        table = Table("", "tokens/s", "SOM is faster by", "range", title=name)
        for who, row in rows.items():
            ratio = row["SOM is faster by"]
            table.add_row(who, f"{row['tokens per second']:,.0f}", f"{ratio['median']:.2f}×", spread(ratio))
        found.append(table)
    for name, rows in report["growth"].items():
        table = Table(name, "tokens/s", "relative", "range")
        for who, row in rows.items():
            table.add_row(
                who, f"{row['tokens per second']:,.0f}", f"{row['relative']['median']:.2f}", spread(row["relative"])
            )
        found.append(table)
    for name in ("operator calls per training step", "peak memory of a training step, GiB"):
        table = Table("", name)
        for who, value in report[name].items():
            table.add_row(who, f"{value:,.4g}")
        found.append(table)
    return found


def spread(ratio: dict[str, float]) -> str:
    return f"{ratio['min']:.2f}–{ratio['max']:.2f}"


def bench_figure(report: dict[str, Any]) -> Figure:
    """Rates of the contenders and how cost grows, one panel each."""
    from matplotlib.figure import Figure

    panels = {**report["compared"], **report["growth"]}
    lines = (len(panels) + 1) // 2
    figure = Figure(figsize=(14, 2 * lines), layout="constrained")
    grid = figure.subplots(lines, 2).flat
    for axes in grid[len(panels) :]:
        axes.remove()
    for axes, (name, rows) in zip(grid, panels.items(), strict=False):
        rates = [row["tokens per second"] for row in rows.values()]
        axes.barh(list(rows), rates, color=["tab:orange" if who.startswith("SOM") else "tab:blue" for who in rows])
        axes.invert_yaxis()
        axes.set_title(name)
        axes.set_xlabel("tokens per second")
    return figure
