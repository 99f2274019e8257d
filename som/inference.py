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

import sys
from bisect import bisect
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from tokenizers import pre_tokenizers
from torch import Tensor
from tqdm.auto import tqdm
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase
from transformers.utils import logging

from modeling_som import SOMCache, SOMForCausalLM, SOMState
from modeling_som.modeling_som import live_slots
from modeling_som.operators_som import linear
from som.oracle import tree_from_depths
from som.vocabularies import encode_words, load_tokenizer

METHODS = ("greedy", "marginal", "particles", "beam")
TREES = {"particles": 32, "beam": 4}  # how many are followed, unless told
SHIPPED = Path(__file__).parent / "checkpoint"
BATCH_TOKENS = 4096
CHUNK = 2**24  # logits in memory at once: 64 MB in single precision


# ---------------------------------------------------------------------------------------------- loading


def load(
    path: str | Path | None = None, kind: type[SOMForCausalLM] = SOMForCausalLM
) -> tuple[SOMForCausalLM, PreTrainedTokenizerBase]:
    """A checkpoint's model, ready to score, and its tokenizer; without a path, those that come with the package."""
    if path is None and not SHIPPED.is_dir():
        raise ValueError("no checkpoint comes with this installation: name one of yours")
    path = SHIPPED if path is None else path
    if not Path(path).is_dir() and not on_hub(str(path)):
        raise ValueError(f"{path}: expected a checkpoint: no such folder, and not OWNER/NAME on the Hub")
    with quiet(), damage_reported(path):
        check_kind(path, kind)
        model = load_weights(path, kind)
        tokenizer = load_tokenizer(path)
    if None in (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id):
        raise CheckpointError(f"{path}: expected a tokenizer with tokens for beginning, end and padding")
    if len(tokenizer) > model.config.vocab_size:
        sizes = f"{len(tokenizer)} tokens, the model only {model.config.vocab_size}"
        raise CheckpointError(f"{path}: the tokenizer does not match the model: it knows {sizes}")
    return model.eval(), tokenizer


def check_kind(path: str | Path, kind: type[PreTrainedModel]) -> None:
    """Validate that the configuration is that of a SOM of this class."""
    config = PreTrainedConfig.get_config_dict(path)[0]
    if (model_type := config.get("model_type")) != "som":
        found = f"a model of type {model_type!r}" if model_type else "no model's config.json"
        raise CheckpointError(f"{path}: expected a SOM checkpoint, found {found}")
    if (architecture := (config.get("architectures") or ["SOMModel"])[0]) not in ("SOMModel", kind.__name__):
        raise CheckpointError(f"{path}: expected a {kind.__name__}, found a {architecture}")


Model = TypeVar("Model", bound=PreTrainedModel)


def load_weights(path: str | Path, kind: type[Model]) -> Model:
    """The model of a checkpoint that has all of its weights and no others; never from a pickle, which may run code.

    The library itself would fill in missing weights at random."""
    loaded: Any = kind.from_pretrained(
        path, use_safetensors=True, output_loading_info=True, ignore_mismatched_sizes=True
    )
    model, report = loaded
    for problem in ("missing", "unexpected", "mismatched"):
        if keys := sorted(report[f"{problem}_keys"]):
            raise CheckpointError(f"{path}: expected the weights of the model, {problem}: {described(keys)}")
    return model


def described(keys: Sequence[str | tuple[str, Sequence[int], Sequence[int]]]) -> str:
    """The first of these weights, with its shapes if it does not match, and how many others there are.

    >>> described(["a", "b"]), described([("a", (3,), (4,))])
    ('a and 1 more', 'a has shape [3] instead of [4]')
    """
    name, *shapes = [keys[0]] if isinstance(keys[0], str) else keys[0]
    sizes = " has shape {} instead of {}".format(*map(list, shapes)) if shapes else ""
    return f"{name}{sizes}" + (f" and {len(keys) - 1} more" if len(keys) > 1 else "")


class CheckpointError(ValueError):
    """What is wrong with a checkpoint, in one line."""


@contextmanager
def damage_reported(path: str | Path) -> Iterator[None]:
    """Turns what libraries raise over damaged files, each another thing, into a `CheckpointError`."""
    try:
        yield
    except CheckpointError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split("\n")[:2])
        if not isinstance(error, OSError | ValueError):
            reason = f"a file in it is damaged ({type(error).__name__}: {reason})"
        elif isinstance(error, OSError) and not Path(path).is_dir():
            reason = "no such folder, and no such model on the Hub"
        raise CheckpointError(f"{path}: expected a checkpoint: {reason}") from error


def on_hub(path: str) -> bool:
    """Whether this can be meant for a model on the Hub, OWNER/NAME, rather than a folder beside others that are here.

    >>> on_hub("someone/som-ewt"), on_hub("./som-ewt"), on_hub("runs/a/b"), on_hub("som-ewt")
    (True, False, False, False)
    """
    owner, slash, name = path.partition("/")
    return bool(slash and name) and "/" not in name and owner not in (".", "..", "~") and not Path(owner).is_dir()


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bar over a handful of weights, and no table of what is wrong with them: we raise an error."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()


# ---------------------------------------------------------------------------------------------- text


@dataclass(frozen=True)
class Sentence:
    """A text as the model reads it, and where each of its words begins there."""

    ids: list[int]  # BOS, the pieces of the words, EOS if wanted
    words: list[str]
    offsets: list[tuple[int, int]]  # of the words in the text
    starts: list[int]  # place of each word's first token in ids

    def of_words(self, tokens: Sequence[int]) -> list[int]:
        """Of numbers that go with the tokens, those of the words: a word is attached where its first piece is."""
        return [tokens[start] for start in self.starts if start < len(tokens)]


def encode(tokenizer: PreTrainedTokenizerBase, text: str | Sequence[str], eos: bool = True) -> Sentence:
    """Reads a text, or words that are already separate, as one sentence from BOS to EOS."""
    if isinstance(text, str):
        words, offsets = split_words(tokenizer, text)
        encoded = tokenizer(text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True)
        # the last word that begins before the piece ends: a piece may start with the space before its word
        owners = [bisect(offsets, (max(end - 1, start), sys.maxsize)) - 1 for start, end in encoded["offset_mapping"]]
        pieces: list[list[int]] = [[] for _ in words]
        for owner, token in zip(owners, encoded["input_ids"], strict=True):
            pieces[max(owner, 0)].append(token)
    else:
        words, pieces = list(text), encode_words(tokenizer, text)  # type: ignore[arg-type]  # a fast one
        offsets = joined_offsets(words)
    if not words:
        raise ValueError("the text is empty, expected at least one word")
    if missing := [word for word, ids in zip(words, pieces, strict=True) if not (word and ids)]:
        raise ValueError(f"the vocabulary has nothing for the word {missing[0]!r}")
    starts = list(accumulate(map(len, pieces), initial=1))[:-1]
    ids = [tokenizer.bos_token_id, *chain(*pieces), *[tokenizer.eos_token_id] * eos]
    return Sentence(ids, words, offsets, starts)


def joined_offsets(words: Sequence[str]) -> list[tuple[int, int]]:
    """Offsets of words that single spaces separate.

    >>> joined_offsets(["it", "sleeps"])
    [(0, 2), (3, 9)]
    """
    starts = accumulate((len(word) + 1 for word in words), initial=0)
    return [(start, start + len(word)) for start, word in zip(starts, words, strict=False)]


def split_words(tokenizer: PreTrainedTokenizerBase, text: str) -> tuple[list[str], list[tuple[int, int]]]:
    """The words of a text and their offsets, as its tokenizer splits them before it looks them up."""
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    if isinstance(splitter, pre_tokenizers.Sequence):
        splitter = splitter[0]
    if not isinstance(splitter, pre_tokenizers.Split):  # a vocabulary of others: words are what spaces separate
        splitter = pre_tokenizers.WhitespaceSplit()
    words = splitter.pre_tokenize_str(text)
    return [word for word, _ in words], [offset for _, offset in words]


def log_likelihood(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    text: str | Sequence[str],
    method: str | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    eos: bool = True,
) -> float:
    """Log-probability of one sentence in nats, its end counted unless `eos` is false."""
    (scored,) = score(model, [encode(tokenizer, text, eos).ids], method, k=k, seed=seed)
    return scored.log_prob


# ---------------------------------------------------------------------------------------------- scoring


@dataclass(frozen=True)
class Scored:
    """One sequence: what each token after the first costs, and where each was attached."""

    log_probs: list[float]  # nats, one per token after the first
    depths: list[int]  # one per token: decisions taken; of many trees, those of the one they agree on most
    choices: list[int] | None = None  # per token after the first, the depth p held most probable; not of many trees
    guesses: list[int] | None = None  # per token after the first, the depth p' held most probable; not of many trees

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
    method: str | None = None,
    *,
    k: int | None = None,
    seed: int = 0,
    batch_tokens: int = BATCH_TOKENS,
    progress: bool = False,
    depths: Sequence[Sequence[int]] | None = None,
) -> Iterator[Scored]:
    """Scores sequences of ids, BOS first and EOS where it counts, in their order.

    With `depths`, the trees are given: words are then predicted after the given attachments (`greedy`: the gold-tree
    upper bound) or by the mixture along them (`marginal`).
    """
    method = check_method(model, method, depths is not None)
    if any(len(sequence) == 0 for sequence in sequences):
        raise ValueError("a sequence to score needs at least one token, BOS")
    trees = (k or TREES[method]) if method in TREES else 0
    scorers: dict[str, Callable[[SOMForCausalLM, Padded], list[Scored]]] = {"greedy": greedy, "marginal": marginal}
    scorer = scorers.get(method) or partial(many_trees, follow=follower(method, trees, seed))
    results: dict[int, Scored] = {}
    with evaluating(model), tqdm(total=len(sequences), disable=not progress, unit=" sentences") as bar:
        for batch in batches(sequences, depths, batch_tokens, model.device, trees):
            results.update(zip(batch.places, scorer(model, batch), strict=True))
            bar.update(len(batch.places))
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


def check_method(model: SOMForCausalLM, method: str | None, given: bool = False) -> str:
    """The method to use, or one sentence on why it cannot be."""
    if method is None:
        method = "marginal" if model.config.marginal else "greedy"
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if method != "greedy" and not model.config.prediction_network:
        raise ValueError(f"{method} needs the prediction network, which this model is without")
    if method in TREES and given:
        raise ValueError(f"depths cannot be given to {method}, which finds trees of its own")
    return method


def batches(sequences, depths, batch_tokens: int, device: torch.device, k: int = 0) -> Iterator[Padded]:
    """Sequences of similar lengths together, longest first, so that what does not fit shows at once.

    With `k` trees to a sequence, the budget is of trees."""
    order = sorted(range(len(sequences)), key=lambda i: -len(sequences[i]))
    while order:
        longest = len(sequences[order[0]])
        places = order[: max(1, batch_tokens // (k or longest))]
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


@torch.inference_mode()
def read(
    model: SOMForCausalLM, sequences: Sequence[Sequence[int]], depths: Sequence[Sequence[int]] | None = None
) -> list[Reading]:
    """Reads sequences along greedy or given decisions."""
    readings: dict[int, Reading] = {}
    with evaluating(model):
        for batch in batches(sequences, depths, BATCH_TOKENS, model.device):
            joint = model.config.prediction_network
            out = model.model(batch.ids, batch.mask, depths=batch.depths, marginal=joint, use_cache=False)
            words = branch_log_probs(model, out, batch) if joint else hidden_log_probs(model, out, batch)[..., None]
            posterior = out.attach_logits[:, 1:].cpu().double().log_softmax(dim=-1)
            prior = log_prior(out) if joint else None
            for row, place in enumerate(batch.places):
                n = len(sequences[place])
                tables = (None if table is None else table[row, : n - 1] for table in (posterior, prior, words))
                readings[place] = Reading(out.depths[row, :n].tolist(), *tables)  # type: ignore[arg-type]
    return [readings[place] for place in range(len(sequences))]


def log_prior(out) -> Tensor:
    """(B, T - 1, N): log p', for each token after the first."""
    return out.next_attach_logits[:, :-1].cpu().double().log_softmax(dim=-1)


def hidden_log_probs(model: SOMForCausalLM, out, batch: Padded) -> Tensor:
    """(B, T - 1): log-probability of each token after the first, after the one guess that was followed."""
    scored = batch.mask[:, 1:]
    log_probs = torch.zeros(scored.shape, dtype=torch.float64)
    log_probs[scored.cpu()] = word_log_probs(model, out.last_hidden_state[:, :-1][scored], batch.ids[:, 1:][scored])
    return log_probs


def branch_log_probs(model: SOMForCausalLM, out, batch: Padded) -> Tensor:
    """(B, T - 1, N): log-probability of each token after the first, after every guess that p' allows."""
    branch = live_slots(out.word_depths, model.config.num_slots)  # (B, T, N), in the order of the states
    row, column, depth = branch.nonzero(as_tuple=True)
    length = batch.mask.sum(dim=1)
    scored = column + 1 < length[row]
    row, column, depth = row[scored], column[scored], depth[scored]
    log_probs = word_log_probs(model, out.branch_states[scored], batch.ids[row, column + 1])
    words = torch.full(branch[:, :-1].shape, -torch.inf, dtype=torch.float64)
    return words.index_put((row.cpu(), column.cpu(), depth.cpu()), log_probs)


def word_log_probs(model: SOMForCausalLM, states: Tensor, words: Tensor) -> Tensor:
    """(R,) on the CPU: log-probability of one word after each state (R, D); only some rows of logits at a time."""
    rows = max(1, CHUNK // model.config.vocab_size)
    parts = [torch.empty(0, dtype=torch.float64)]
    for state, word in zip(states.split(rows), words.split(rows), strict=True):
        logits = linear(model.lm_head, state)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))  # (rows, V)
        log_probs = logits.gather(1, word[:, None])[:, 0] - logits.logsumexp(dim=1)
        parts.append(log_probs.cpu().double())
    return torch.cat(parts)


def collect(log_probs: Tensor, out, batch: Padded) -> list[Scored]:
    """Rows without their padding, as plain numbers."""
    lengths, depths = batch.mask.sum(dim=1).tolist(), out.depths.tolist()
    choices = (out.attach_logits.argmax(dim=-1) + 1).tolist()
    guesses = None if out.next_attach_logits is None else (out.next_attach_logits.argmax(dim=-1) + 1).tolist()
    return [
        Scored(row[: n - 1], depths[i][:n], choices[i][1:n], guesses and guesses[i][: n - 1])
        for i, (n, row) in enumerate(zip(lengths, log_probs.tolist(), strict=True))
    ]


# ---------------------------------------------------------------------------------------------- the joint model


def log_next_attachment(model: SOMForCausalLM, state: SOMState) -> Tensor:
    """(R, N) on the CPU: log p' over the live depths of each state."""
    scores = model.model.next_parser(state.candidates)
    return model.model.live_logits(scores, state.depth).cpu().double().log_softmax(dim=1)


def log_attachment(model: SOMForCausalLM, state: SOMState, words: Tensor) -> Tensor:
    """(R, N) on the CPU: log p over the live depths of each state, once its next word (R,) is seen."""
    parser = model.model.parser
    queries = parser.queries(model.model.norm(model.model.embed(words)))
    scores = parser(queries[:, None], parser.keys(state.candidates))
    return parser.logits(model.model.live_logits(scores, state.depth)).cpu().double().log_softmax(dim=1)


def predicting_state(model: SOMForCausalLM, state: SOMState, row: Tensor, attach: Tensor) -> Tensor:
    """(R, D): h(e) of some rows of the state, e = `attach`."""
    return model.model.predict_cell(state.prefix[row, attach], state.candidates[row, attach])


def state_of(cache: SOMCache) -> SOMState:
    """The state of a cache that has read something."""
    assert cache.state is not None
    return cache.state


class Cloud(NamedTuple):
    """Some trees of the words read so far, of several sentences, each tree once."""

    log_probs: Tensor  # (S,) of the last word, estimated
    sentence: Tensor  # (R,) whose tree it is
    depths: Tensor  # (R, t)
    joint: Tensor  # (R,) log p(w, e) so far
    merit: Tensor  # (R,) by which trees are compared


Follow = Callable[[SOMForCausalLM, Tensor, Tensor], Iterator[Cloud]]  # trees of the sentences of ids (S, T) and mask


def particle_filter(model: SOMForCausalLM, ids: Tensor, mask: Tensor, k: int, seed: int) -> Iterator[Cloud]:
    """Follows `k` trees per sentence of ids (S, T), longest first, and yields, word by word, where they are.

    Attachments are drawn from p and weighted by p' · softmax(h)[w] / p; when the weights' effective number falls below
    half of `k`, trees are drawn anew by weight. Trees that several particles share are computed once. Every sentence
    gets the same random numbers, so its score depends on the seed alone, not on its company, and the scores of two
    similar sentences differ by less noise.
    """
    S, N = len(ids), model.config.num_slots
    generator, cache = torch.Generator().manual_seed(seed), SOMCache()
    model.model(ids[:, :1], past_key_values=cache)
    sentence, joint, depths = torch.arange(S), torch.zeros(S, dtype=torch.float64), torch.zeros(S, 1, dtype=torch.long)
    tree = sentence[:, None].expand(S, k)  # of each particle
    weight = torch.zeros(S, k, dtype=torch.float64)
    for t, S in sentences_at(mask):
        R = drop_ended(cache, sentence, S)
        sentence, joint, depths, tree, weight = sentence[:R], joint[:R], depths[:R], tree[:S], weight[:S]
        state, words = state_of(cache), ids[sentence.to(ids.device), t]
        posterior, prior = log_attachment(model, state, words), log_next_attachment(model, state)
        noise = torch.rand(k + 1, generator=generator, dtype=torch.float64)
        attach = draw(posterior[tree], noise[:k, None].expand(S, k, 1))[..., 0]
        grown, tree = torch.unique(tree * N + attach, return_inverse=True)
        source, attach = grown // N, grown % N
        gain = prior[source, attach] + log_words(model, state, words, source, attach)
        sentence, joint = sentence[source], joint[source] + gain
        depths = torch.cat([depths[source], attach[:, None] + 1], dim=1)
        before, weight = weight.logsumexp(dim=1), weight + (gain - posterior[source, attach])[tree]
        advance(model, cache, words, source, attach)
        yield Cloud(weight.logsumexp(dim=1) - before, sentence, depths, joint, joint)
        tree, weight = resample(tree, weight, noise[k])


def beam_search(model: SOMForCausalLM, ids: Tensor, mask: Tensor, k: int) -> Iterator[Cloud]:
    """Follows the `k` best trees per sentence of ids (S, T), longest first, and yields, word by word, what they are.

    Trees of the same words compete, so none is ahead of another by the words that it has read. A tree's merit is the
    product of the two opinions of it: that of the joint model, p(w, e), and that of p on its decisions.
    """
    S, cache = len(ids), SOMCache()
    model.model(ids[:, :1], past_key_values=cache)
    sentence, depths = torch.arange(S), torch.zeros(S, 1, dtype=torch.long)
    joint = merit = total = torch.zeros(S, dtype=torch.float64)
    for t, S in sentences_at(mask):
        R = drop_ended(cache, sentence, S)
        sentence, joint, merit, depths, total = sentence[:R], joint[:R], merit[:R], depths[:R], total[:S]
        state, words = state_of(cache), ids[sentence.to(ids.device), t]
        posterior, prior = log_attachment(model, state, words), log_next_attachment(model, state)
        source, attach = prior.isfinite().nonzero(as_tuple=True)  # every tree with every attachment
        gain = prior[source, attach] + log_words(model, state, words, source, attach)
        joint, merit = joint[source] + gain, merit[source] + gain + posterior[source, attach]
        kept = best_of_each(sentence[source], merit, k)
        source, attach, joint, merit = source[kept], attach[kept], joint[kept], merit[kept]
        sentence, depths = sentence[source], torch.cat([depths[source], attach[:, None] + 1], dim=1)
        before, total = total, logsumexp_of_each(sentence, joint, S)
        advance(model, cache, words, source, attach)
        yield Cloud(total - before, sentence, depths, joint, merit)


def sentences_at(mask: Tensor) -> list[tuple[int, int]]:
    """Each place after the first, and how many sentences reach it; these come first."""
    return list(enumerate(mask.sum(dim=0).tolist()))[1:]


def drop_ended(cache: SOMCache, sentence: Tensor, going: int) -> int:
    """Leaves only the trees of the first `going` sentences, which come first, in the cache; returns their number."""
    trees = int((sentence < going).sum())
    if trees < len(sentence):
        cache.batch_select_indices(torch.arange(trees, device=state_of(cache).depth.device))
    return trees


def best_of_each(group: Tensor, merit: Tensor, k: int) -> Tensor:
    """The places of the `k` largest merits of every group, group by group, the best first.

    >>> best_of_each(torch.tensor([0, 0, 1, 0]), torch.tensor([1.0, 3.0, 0.0, 2.0]), 2)
    tensor([1, 3, 2])
    """
    order = merit.argsort(descending=True, stable=True)
    order = order[group[order].argsort(stable=True)]
    sizes = group.bincount()
    rank = torch.arange(len(order)) - (sizes.cumsum(0) - sizes)[group[order]]
    return order[rank < k]


def logsumexp_of_each(group: Tensor, values: Tensor, groups: int) -> Tensor:
    """(groups,): the log of the sum of exponentials over each group.

    >>> logsumexp_of_each(torch.tensor([0, 1, 1]), torch.tensor([0.5, 0.0, 0.0]), 2)
    tensor([0.5000, 0.6931])
    """
    largest = values.new_full((groups,), -torch.inf).scatter_reduce(0, group, values, "amax")
    return largest + torch.zeros_like(largest).index_add(0, group, (values - largest[group]).exp()).log()


def draw(log_probs: Tensor, uniform: Tensor) -> Tensor:
    """For each uniform number (…, n), an index into a distribution (…, K); never one of probability 0.

    >>> draw(torch.tensor([0.25, 0.0, 0.75]).log(), torch.tensor([0.0, 0.25, 0.99]))
    tensor([0, 2, 2])
    """
    below = log_probs.exp().cumsum(dim=-1)
    return torch.searchsorted(below / below[..., -1:], uniform.contiguous(), right=True)


def log_words(model: SOMForCausalLM, state: SOMState, words: Tensor, source: Tensor, attach: Tensor) -> Tensor:
    """(R,) on the CPU: log-probability of the word of each source state after an attachment."""
    source, attach = source.to(words.device), attach.to(words.device)
    return word_log_probs(model, predicting_state(model, state, source, attach), words[source])


def advance(model: SOMForCausalLM, cache: SOMCache, words: Tensor, source: Tensor, attach: Tensor) -> None:
    """Writes each source state's word at its attachment."""
    source, attach = source.to(words.device), attach.to(words.device)
    cache.batch_select_indices(source)
    model.model(words[source, None], depths=attach[:, None] + 1, past_key_values=cache)


def resample(tree: Tensor, weight: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draws anew (systematically) the particles (S, k) of sentences with too few effective ones."""
    S, k = weight.shape
    share = weight.softmax(dim=1)
    poor = 1 / share.square().sum(dim=1, keepdim=True) < k / 2  # (S, 1)
    again = tree.gather(1, draw(share.log(), ((torch.arange(k) + noise) / k).expand(S, k)))
    return torch.where(poor, again, tree), torch.where(poor, 0, weight - weight.logsumexp(dim=1, keepdim=True))


def follower(method: str, k: int | None, seed: int) -> Follow:
    """What follows `k` trees, or as many as the method does unless told, of the sentences of a model."""
    followers: dict[str, Callable[..., Iterator[Cloud]]] = {
        "particles": partial(particle_filter, seed=seed),
        "beam": beam_search,
    }
    return partial(followers[method], k=k or TREES[method])


def many_trees(model: SOMForCausalLM, batch: Padded, follow: Follow) -> list[Scored]:
    """The probability summed over the trees that are followed, and the one they agree on most."""
    lengths = batch.mask.sum(dim=1).tolist()
    results = [Scored([], [0]) for _ in lengths]  # BOS alone
    for read, cloud in enumerate(follow(model, batch.ids, batch.mask), start=2):
        for i, log_prob in enumerate(cloud.log_probs.tolist()):
            results[i].log_probs.append(log_prob)
            if read == lengths[i]:
                results[i].depths[:] = agreed_tree(cloud, i)
    return results


def agreed_tree(cloud: Cloud, sentence: int) -> list[int]:
    """Depths of the tree in the cloud that shares most constituents with all others, by their probability.

    Of these trees it is the one with the most right constituents to be expected (Goodman, 1996), that of EOS and those
    of pieces counted; the most probable tree may be an outsider.
    """
    trees = best_trees(cloud, sentence, len(cloud.sentence))
    constituents = [tree_from_depths(depths[1:]).spans() for depths, _ in trees]  # without BOS
    belief: Counter[tuple[int, int]] = Counter()  # of each constituent, how probable it is
    for (_, share), spans in zip(trees, constituents, strict=True):
        belief.update(dict.fromkeys(spans, share))
    shared = [sum(belief[span] for span in spans) for spans in constituents]
    return trees[shared.index(max(shared))][0]


def best_trees(cloud: Cloud, sentence: int, count: int) -> list[tuple[list[int], float]]:
    """The best trees of a sentence in the cloud: depths, and their share of the probability of all in it."""
    rows = (cloud.sentence == sentence).nonzero()[:, 0]
    order = cloud.merit[rows].topk(min(count, len(rows))).indices
    shares = cloud.joint[rows].softmax(dim=0)[order]
    return list(zip(cloud.depths[rows[order]].tolist(), shares.tolist(), strict=True))
