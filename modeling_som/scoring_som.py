"""What a trained SOM says of a text: how likely it is, how surprising each word, what its tree is; and texts it makes.

Four methods score a sentence, all in nats, all sums over its tokens after BOS:
- `greedy`: every decision is the most probable one, the word's prediction follows the best guess of p' (the paper's);
- `marginal`: decisions are greedy, but each word is predicted by the mixture over all guesses, weighted by p';
- `particles`: an unbiased estimate of the probability summed over all trees, p(w, e) = Π p'_t(e) · softmax(h_t(e))[w],
  from `k` trees drawn from p and reweighted;
- `beam`: the same sum over the `k` best trees alone, a lower bound of it; nothing is drawn. Trees are compared by
  p(w, e) times the p of their decisions, which has seen each word.
Of many trees, the parse is the one that agrees most with all of them; that of the beam is better than the greedy one.
Without a method, the model's configuration decides between the first two, as it does for `model(…).logits`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedTokenizerBase

from .exploring_som import live_slots
from .modeling_som import SOMForCausalLM, SOMModelOutput
from .search_som import Cloud, agreed_tree, beam_search, particle_filter, predict_mixtures, word_log_probs
from .sentences_som import Sentence, encode
from .tags_som import Labels, decode_labels

METHODS = ("greedy", "marginal", "particles", "beam")
TREES = {"particles": 32, "beam": 4}  # how many are followed by default
BATCH_TOKENS = 4096


@dataclass(frozen=True)
class Method:
    """How sentences are scored: one of `METHODS`, the number of trees it follows, and its random seed."""

    name: str
    k: int = 0  # trees per sentence, 0 where decisions are greedy
    seed: int = 0  # of particles

    @classmethod
    def of(
        cls,
        model: SOMForCausalLM,
        method: str | Method | None,
        k: int | None = None,
        seed: int = 0,
        given: bool = False,
    ) -> Method:
        """The method that is meant, or one sentence on why it cannot be used; `given`: decisions come from outside."""
        name = method.name if isinstance(method, Method) else method
        name = name or ("marginal" if model.config.marginal else "greedy")
        if name not in METHODS:
            raise ValueError(f"method must be one of {', '.join(METHODS)}, got {name!r}")
        if name != "greedy" and not model.config.prediction_network:
            raise ValueError(f"{name} needs the prediction network, which this model is without")
        if name in TREES and given:
            raise ValueError(f"depths cannot be given to {name}, which finds trees of its own")
        return method if isinstance(method, Method) else cls(name, (k or TREES[name]) if name in TREES else 0, seed)

    def __str__(self) -> str:
        return self.name

    def follow(self, model: SOMForCausalLM, ids: Tensor, mask: Tensor, entropies: bool = False) -> Iterator[Cloud]:
        """The trees of sentences, longest first, word by word."""
        if self.name == "particles":
            return particle_filter(model, ids, mask, self.k, self.seed, entropies)
        return beam_search(model, ids, mask, self.k, entropies)


def log_likelihood(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: str | Sequence[str],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    eos: bool = True,
    words: bool = False,
) -> float:
    """Log-probability of one sentence in nats, its end counted unless `eos` is false; `words` as in `encode`."""
    (scored,) = score(model, [encode(tokenizer, text, eos, words).ids], method, k=k, seed=seed)
    return scored.log_prob


@dataclass(frozen=True)
class Scored:
    """One sequence: what each token after the first costs, and where each was attached."""

    log_probs: list[float]  # nats, one per token after the first
    depths: list[int]  # one per token: decisions taken; of many trees, those of the one they agree on most
    choices: list[int] | None = None  # per token after the first, the depth p held most probable; not of many trees
    guesses: list[int] | None = None  # per token after the first, the depth p' held most probable; not of many trees
    # of many trees, if asked for: what each token after the first costs given the trees that were kept before it, and
    # the entropy in nats of what is expected after each token
    prefix_log_probs: list[float] | None = None
    entropies: list[float] | None = None

    @property
    def log_prob(self) -> float:
        return sum(self.log_probs)


class Padded(NamedTuple):
    """A batch of sequences, padded on the right."""

    places: list[int]  # of the rows in the input
    ids: Tensor  # (B, T)
    mask: Tensor  # (B, T)
    depths: Tensor | None  # (B, T) decisions given from outside


@torch.inference_mode()
def score(
    model: SOMForCausalLM,
    sequences: Sequence[Sequence[int]],
    method: str | Method | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    batch_tokens: int = BATCH_TOKENS,
    batch_size: int | None = None,
    progress: bool | Callable[[int], object] = False,
    depths: Sequence[Sequence[int]] | None = None,
    entropies: bool = False,
) -> Iterator[Scored]:
    """Scores sequences of ids, BOS first and EOS where it counts, in their order.

    With `depths`, the trees are given: words are then predicted after the given attachments (`greedy`: the gold-tree
    upper bound) or by the mixture along them (`marginal`). Sequences are read `batch_size` at a time, or as many as
    `batch_tokens` allows. `progress` is a bar, or a function that is told how many more are done. `entropies` asks
    methods of many trees for them.
    """
    method = Method.of(model, method, k, seed, depths is not None)
    if any(isinstance(sequence, str) for sequence in sequences):
        raise ValueError("expected lists of token ids, got a text: som.log_likelihood scores texts")
    if any(len(sequence) == 0 for sequence in sequences):
        raise ValueError("a sequence to score needs at least one token, BOS")
    scorers = {"greedy": greedy, "marginal": marginal}
    scorer = scorers.get(method.name) or partial(many_trees, method=method, entropies=entropies)
    results: dict[int, Scored] = {}
    with evaluating(model), tqdm(total=len(sequences), disable=progress is not True, unit=" sentences") as bar:
        tell = progress if callable(progress) else bar.update
        for batch in batches(sequences, depths, batch_tokens, model.device, method.k, batch_size):
            results.update(zip(batch.places, scorer(model, batch), strict=True))
            tell(len(batch.places))
    for place in range(len(sequences)):
        yield results.pop(place)


@contextmanager
def evaluating(model: SOMForCausalLM) -> Iterator[None]:
    """Decisions are greedy and nothing is dropped, also in the middle of training."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def batches(
    sequences: Sequence[Sequence[int]],
    depths: Sequence[Sequence[int]] | None,
    batch_tokens: int,
    device: torch.device,
    k: int = 0,
    batch_size: int | None = None,
) -> Iterator[Padded]:
    """Sequences of similar lengths together, longest first, so that what does not fit shows at once.

    With `k` trees to a sequence, the budget is of trees."""
    order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    while order:
        longest = len(sequences[order[0]])
        places = order[: batch_size or max(1, batch_tokens // (k or longest))]
        order = order[len(places) :]
        ids = pad([sequences[i] for i in places], device)
        mask = pad([[1] * len(sequences[i]) for i in places], device).bool()
        yield Padded(places, ids, mask, None if depths is None else pad([depths[i] for i in places], device))


def pad(rows: Sequence[Sequence[int]], device: torch.device) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=device)


def greedy(model: SOMForCausalLM, batch: Padded) -> list[Scored]:
    """Each word after the best guess of p', or after the attachment that is given."""
    out = model.model(batch.ids, batch.mask, depths=batch.depths, marginal=False, use_cache=False)
    return collect(hidden_log_probs(model, out, batch), out, batch)


def marginal(model: SOMForCausalLM, batch: Padded) -> list[Scored]:
    """Each word by the mixture over all guesses of p'."""
    out = model.model(batch.ids, batch.mask, depths=batch.depths, marginal=True, use_cache=False)
    return collect((log_prior(out) + branch_log_probs(model, out, batch)).logsumexp(dim=-1), out, batch)


class Reading(NamedTuple):
    """What the model says of the tokens after the first of one sequence, along one tree; logarithms, (T - 1, N)."""

    depths: list[int]
    posterior: Tensor  # p, which has seen the token
    prior: Tensor | None  # p', which has not; None without prediction network
    words: Tensor  # of the token, after each attachment; (T - 1, 1) without prediction network
    inside: Tensor  # (T - 1,) which tokens continue a word, so that their attachment says nothing
    entropies: Tensor | None = None  # (T,) in nats, of what is expected after each token; the mixture over p'
    leaf_tags: Tensor | None = None  # (T, tags) log-probabilities, as are those of nodes; None without tags
    node_tags: Tensor | None = None

    def labels(self, starts: Sequence[int], tags: Sequence[str]) -> Labels | None:
        """The labels of the tree of the words that begin at these places."""
        if self.leaf_tags is None or self.node_tags is None:
            return None
        leaf, node = (table[starts].tolist() for table in (self.leaf_tags, self.node_tags))
        return decode_labels([self.depths[start] for start in starts], leaf, node, tags)


@torch.inference_mode()
def read_sequences(
    model: SOMForCausalLM,
    sequences: Sequence[Sequence[int]],
    depths: Sequence[Sequence[int]] | None = None,
    batch_size: int | None = None,
    entropies: bool = False,
    tags: bool = False,
) -> list[Reading]:
    """Reads sequences along greedy or given decisions; `entropies` and `tags` only if asked for."""
    readings: dict[int, Reading] = {}
    joint, tags = model.config.prediction_network, tags and bool(model.config.tree_tags)
    with evaluating(model):
        for batch in batches(sequences, depths, BATCH_TOKENS, model.device, batch_size=batch_size):
            out = model.model(
                batch.ids, batch.mask, depths=batch.depths, marginal=joint, use_cache=False, output_tags=tags
            )
            tables = reading_tables(model, out, batch, entropies)
            for row, place in enumerate(batch.places):
                n = len(sequences[place])
                found = {name: table[row, : n if name in OF_EVERY_TOKEN else n - 1] for name, table in tables.items()}
                prior = found.pop("prior", None)
                readings[place] = Reading(out.depths[row, :n].tolist(), prior=prior, **found)
    return [readings[place] for place in range(len(sequences))]


OF_EVERY_TOKEN = ("entropies", "leaf_tags", "node_tags")  # tables of a reading that begin with the first token


def reading_tables(model: SOMForCausalLM, out: SOMModelOutput, batch: Padded, entropies: bool) -> dict[str, Tensor]:
    """What a `Reading` is made of, for a batch; those that do not apply are left out."""
    inside = model.model.continuing(batch.ids[:, 1:])
    tables = {
        "posterior": out.attach_logits[:, 1:].cpu().double().log_softmax(dim=-1),
        "inside": (torch.zeros_like(batch.mask[:, 1:]) if inside is None else inside).cpu(),
    }
    if model.config.prediction_network:
        tables["prior"] = log_prior(out)
    if entropies:
        tables["words"], tables["entropies"] = all_predictions(model, out, batch)
    elif model.config.prediction_network:
        tables["words"] = branch_log_probs(model, out, batch)
    else:
        tables["words"] = hidden_log_probs(model, out, batch)[..., None]
    for name, logits in (("leaf_tags", out.leaf_tag_logits), ("node_tags", out.node_tag_logits)):
        if logits is not None:
            tables[name] = logits.cpu().double().log_softmax(dim=-1)
    return tables


def all_predictions(model: SOMForCausalLM, out: SOMModelOutput, batch: Padded) -> tuple[Tensor, Tensor]:
    """(B, T - 1, N): what `branch_log_probs` gives, with N = 1 without prediction network; and (B, T): the entropy of
    what is expected after each token, from the same logits."""
    if out.branch_states is None or out.next_attach_logits is None:
        branch, states = batch.mask[..., None], out.last_hidden_state[batch.mask]
        log_weights = torch.zeros(branch.shape, dtype=torch.float64)
    else:
        branch, states = live_slots(out.word_depths, model.config.num_slots), out.branch_states  # (B, T, N)
        log_weights = out.next_attach_logits.cpu().double().log_softmax(dim=-1)
    row, column, _ = branch.nonzero(as_tuple=True)
    following = batch.ids.roll(-1, dims=1)[row, column]  # of a last token, any
    branch, mask = branch.cpu(), batch.mask.cpu()
    log_probs, entropies = predict_mixtures(model, states, following, branch.sum(-1)[mask], log_weights[branch])
    words = torch.full(branch.shape, -torch.inf, dtype=torch.float64)
    words[branch] = log_probs
    table = torch.zeros(mask.shape, dtype=torch.float64)
    table[mask] = entropies
    return words[:, :-1], table


class FoundTree(NamedTuple):
    """The tree of a sentence."""

    depths: list[int]  # one per token
    labels: Labels | None = None  # None of a model without tags
    log_prob: float | None = None  # of the sentence in nats, where words were predicted


def label_trees(
    model: SOMForCausalLM, sentences: Sequence[Sentence], depths: Sequence[Sequence[int]]
) -> list[Labels | None]:
    """The labels of the trees that depths of all tokens give; None of a model without tags."""
    if not model.config.tree_tags:
        return [None] * len(sentences)
    return [tree.labels for tree in find_trees(model, sentences, depths)]


@torch.inference_mode()
def find_trees(
    model: SOMForCausalLM,
    sentences: Sequence[Sentence],
    depths: Sequence[Sequence[int]] | None = None,
    batch_size: int | None = None,
) -> list[FoundTree]:
    """Parses greedily, or along given depths of all tokens, and labels the trees; no word is predicted."""
    found: dict[int, FoundTree] = {}
    tags, sequences = bool(model.config.tree_tags), [sentence.ids for sentence in sentences]
    with evaluating(model):
        for batch in batches(sequences, depths, BATCH_TOKENS, model.device, batch_size=batch_size):
            out = model.model(batch.ids, batch.mask, depths=batch.depths, output_tags=tags, predict=False)
            taken, scores = out.depths.tolist(), (out.leaf_tag_logits, out.node_tag_logits)
            tables = [logits.cpu().double().log_softmax(dim=-1) for logits in scores if logits is not None]
            for row, place in enumerate(batch.places):
                tree, starts = taken[row][: len(sequences[place])], sentences[place].starts
                labels = None
                if tags:
                    leaf, node = (table[row, starts].tolist() for table in tables)
                    labels = decode_labels(sentences[place].of_words(tree), leaf, node, model.config.tree_tags)
                found[place] = FoundTree(tree, labels)
    return [found[place] for place in range(len(sentences))]


def log_prior(out: SOMModelOutput) -> Tensor:
    """(B, T - 1, N): log p', for each token after the first."""
    assert out.next_attach_logits is not None  # the method was checked
    return out.next_attach_logits[:, :-1].cpu().double().log_softmax(dim=-1)


def hidden_log_probs(model: SOMForCausalLM, out: SOMModelOutput, batch: Padded) -> Tensor:
    """(B, T - 1): log-probability of each token after the first, after the one guess that was followed."""
    scored = batch.mask[:, 1:]
    log_probs = torch.zeros(scored.shape, dtype=torch.float64)
    log_probs[scored.cpu()] = word_log_probs(model, out.last_hidden_state[:, :-1][scored], batch.ids[:, 1:][scored])
    return log_probs


def branch_log_probs(model: SOMForCausalLM, out: SOMModelOutput, batch: Padded) -> Tensor:
    """(B, T - 1, N): log-probability of each token after the first, after every guess that p' allows."""
    assert out.branch_states is not None
    branch = live_slots(out.word_depths, model.config.num_slots)  # (B, T, N), in the order of the states
    row, column, depth = branch.nonzero(as_tuple=True)
    length = batch.mask.sum(dim=1)
    scored = column + 1 < length[row]
    row, column, depth = row[scored], column[scored], depth[scored]
    log_probs = word_log_probs(model, out.branch_states[scored], batch.ids[row, column + 1])
    words = torch.full(branch[:, :-1].shape, -torch.inf, dtype=torch.float64)
    return words.index_put((row.cpu(), column.cpu(), depth.cpu()), log_probs)


def collect(log_probs: Tensor, out: SOMModelOutput, batch: Padded) -> list[Scored]:
    """Rows without their padding, as plain numbers."""
    lengths, depths = batch.mask.sum(dim=1).tolist(), out.depths.tolist()
    choices = (out.attach_logits.argmax(dim=-1) + 1).tolist()
    guesses = None if out.next_attach_logits is None else (out.next_attach_logits.argmax(dim=-1) + 1).tolist()
    return [
        Scored(row[: n - 1], depths[i][:n], choices[i][1:n], guesses and guesses[i][: n - 1])
        for i, (n, row) in enumerate(zip(lengths, log_probs.tolist(), strict=True))
    ]


def many_trees(model: SOMForCausalLM, batch: Padded, method: Method, entropies: bool = False) -> list[Scored]:
    """The probability summed over the trees that are followed, and the one they agree on most.

    For entropies the sentences are read with one more token: its cost is nothing to them, but what is expected."""
    lengths = batch.mask.sum(dim=1).tolist()
    wanted = ("prefix_log_probs", "entropies") if entropies else ()
    results = [Scored([], [0], **{name: [] for name in wanted}) for _ in lengths]  # BOS alone
    ids, mask = batch.ids, batch.mask
    if entropies:
        ids, mask = one_longer(batch, model.config.eos_token_id)  # type: ignore[arg-type]  # a number
    for read, cloud in enumerate(method.follow(model, ids, mask, entropies), start=2):
        for i, (result, log_prob) in enumerate(zip(results, cloud.log_probs.tolist(), strict=False)):
            if result.entropies is not None and cloud.entropies is not None:
                result.entropies.append(cloud.entropies[i].item())
            if read <= lengths[i]:
                result.log_probs.append(log_prob)
            if read <= lengths[i] and result.prefix_log_probs is not None and cloud.prefix_log_probs is not None:
                result.prefix_log_probs.append(cloud.prefix_log_probs[i].item())
            if read == lengths[i]:
                result.depths[:] = agreed_tree(cloud, i)
    return results


def one_longer(batch: Padded, token: int) -> tuple[Tensor, Tensor]:
    """Ids and mask (B, T + 1) of the rows with a token behind each."""
    end = batch.mask.sum(dim=1, keepdim=True)
    ids = torch.cat([batch.ids, batch.ids[:, :1]], dim=1).scatter(1, end, token)
    return ids, torch.arange(ids.shape[1], device=ids.device) <= end
