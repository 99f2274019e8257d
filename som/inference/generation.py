"""Generates sentences with their trees, freely or along given trees.

Freely, `model.generate` does it, and the tree is what the model reads in the result. Steered, each attachment and its
word are drawn in turn from the joint model: the attachment from p' over the depths that are allowed, then the word
from softmax(h) of that attachment; the tree is then the one drawn, whatever the look-ahead parser would make of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    PreTrainedTokenizerBase,
    SuppressTokensAtBeginLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from modeling_som import SOMCache, SOMForCausalLM
from modeling_som.scoring_som import Method, evaluating, label_trees, score
from modeling_som.search_som import Step, log_softmax
from modeling_som.sentences_som import Sentence, encode, encode_words, offsets_in, running_text
from modeling_som.tokenization_som import continuing_tokens, never_generated
from som.inference.parsing import Parse
from som.syntax import Bracket, Event, Tree, first_siblings, gold_depths

FREE = "_"  # in a template, the place of a word that is not given
Allow = Callable[[Sequence[int]], Collection[int]]  # depths so far, BOS's first → those the next word may have


@dataclass(frozen=True)
class Generated:
    """A text and its tree."""

    text: str  # with natural spacing; its words as the model has them are those of the parse
    parse: Parse
    log_prob: float  # of what follows the prompt, EOS included; of a steered text, together with the attachments

    @property
    def tree(self) -> Tree:
        return self.parse.tree


@dataclass
class Drawn:
    """Tokens from BOS on, their depths, and the log-probability of those after the prompt."""

    ids: list[int]
    depths: list[int]
    log_prob: float = 0.0


@torch.inference_mode()
def generate(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    prompt: str = "",
    *,
    n: int = 1,
    max_new_tokens: int = 60,
    do_sample: bool = True,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    seed: int = 0,
    unknown: bool = False,
    max_depth: int | None = None,
    template: str | None = None,
    allow: Allow | None = None,
    batch_size: int | None = None,
) -> list[Generated]:
    """Continues a prompt `n` times up to EOS, without unknown words unless they are wanted.

    Three ways to steer the tree of the new words: `max_depth`, the greatest depth a word may have; `template`, a
    bracketing of the whole sentence such as "((the _) (sees (a _)))" with `_` for each word that is to be found;
    `allow`, a function of the depths so far that returns those the next word may have. Of many texts, `batch_size` are
    made at a time (default: all).
    """
    check_request(model, prompt, n, max_depth, template, allow)
    start = encode(tokenizer, prompt, eos=False) if prompt.strip() else Sentence([tokenizer.bos_token_id], [], [], [])
    suppressed = never_drawn(tokenizer, model.config.vocab_size, unknown)
    continues = continuing_tokens(tokenizer)
    plan = Template.of(tokenizer, template, model.config.num_slots) if template is not None else None
    if plan:
        allow, max_new_tokens = plan.allow, len(plan.tokens)
        suppressed += [tokenizer.eos_token_id, *inner_pieces(tokenizer)]
    elif max_depth is not None:
        allow = shallow(max_depth, allow)
    processors = LogitsProcessorList()
    if not start.words:  # a text begins with a word
        no_beginning = [tokenizer.eos_token_id, *(token for token, inside in enumerate(continues) if inside)]
        processors.append(SuppressTokensAtBeginLogitsProcessor(no_beginning, len(start.ids), str(model.device)))
    if do_sample:
        processors += warpers(temperature, top_k, top_p)
    sizes = [min(batch_size or n, n - done) for done in range(0, n, batch_size or n)]
    with evaluating(model):
        if allow is None:
            drawn = free(model, tokenizer, start.ids, sizes, suppressed, processors, max_new_tokens, do_sample, seed)
        else:
            processors.insert(0, SuppressTokensLogitsProcessor(suppressed, str(model.device)))
            tokens = plan.tokens if plan else [None] * max_new_tokens
            noise = torch.Generator().manual_seed(seed) if do_sample else None
            eos = tokenizer.eos_token_id
            rows = (steered(model, start.ids, size, allow, tokens, processors, noise, eos) for size in sizes)
            drawn = list(chain(*rows))
    given = dict(enumerate(start.words)) if plan is None else plan.words
    sentences = [put_together(tokenizer, continues, start, given, one.ids) for one in drawn]
    return with_trees(model, sentences, drawn)


def check_request(
    model: SOMForCausalLM, prompt: str, n: int, max_depth: int | None, template: str | None, allow: Allow | None
) -> None:
    """Validates the arguments."""
    if not isinstance(prompt, str):
        raise ValueError(f"expected a text to continue, got {prompt!r}"[:200])
    if n < 1:
        raise ValueError(f"expected at least 1 text to make, got {n}")
    if max_depth is not None and max_depth < 1:
        raise ValueError(f"max_depth must be at least 1, got {max_depth}")
    if template is not None and (prompt.strip() or max_depth is not None or allow is not None):
        raise ValueError("a template is a whole sentence: it cannot be combined with a prompt, max_depth or allow")
    if (max_depth, template, allow) != (None, None, None):
        Method.of(model, "marginal")  # p' draws the attachments


def warpers(temperature: float, top_k: int, top_p: float) -> LogitsProcessorList:
    """What sampling does to the logits, in the library's order."""
    chosen = LogitsProcessorList()
    if temperature != 1.0:
        chosen.append(TemperatureLogitsWarper(temperature))
    if top_k:
        chosen.append(TopKLogitsWarper(top_k))
    if top_p != 1.0:
        chosen.append(TopPLogitsWarper(top_p))
    return chosen


def never_drawn(tokenizer: PreTrainedTokenizerBase, vocab_size: int, unknown: bool) -> list[int]:
    """Ids that must not be drawn: no words, unknown words unless they are wanted, and ids without a token."""
    ids = {*never_generated(tokenizer), *range(len(tokenizer), vocab_size)}
    return sorted(ids - getattr(tokenizer, "unknown_ids", set()) if unknown else ids)


def inner_pieces(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """Ids that cannot be a word alone: none in a word vocabulary."""
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    inner = zip(tokens, continuing_tokens(tokenizer), strict=True)
    return [token for token, (piece, continues) in enumerate(inner) if continues or piece == "Ġ"]


def spell(tokenizer: PreTrainedTokenizerBase, pieces: list[int]) -> str:
    """A word as its pieces spell it, without bytes that would break a line or a tree."""
    printable = (c for c in str(tokenizer.decode(pieces)) if c.isprintable() and not c.isspace())
    return "".join(printable) or str(tokenizer.convert_ids_to_tokens(pieces[0]))


def put_together(
    tokenizer: PreTrainedTokenizerBase,
    continues: Sequence[bool],
    start: Sentence,
    given: dict[int, str],
    ids: list[int],
) -> Sentence:
    """Puts the pieces of words together; words that were given stay, unless new pieces make them longer."""
    read, end = len(start.ids), len(ids) - (ids[-1] == tokenizer.eos_token_id and len(ids) > 1)
    new = [place for place in range(read, end) if not continues[ids[place]] or place == 1]
    starts, words = [*start.starts, *new], []
    for i, (place, stop) in enumerate(zip(starts, [*starts[1:], end], strict=True)):
        longer = place < read < stop
        words.append(given[i] if i in given and not longer else spell(tokenizer, ids[place:stop]))
    return Sentence(ids, words, offsets_in(running_text(words), words), starts)


def with_trees(model: SOMForCausalLM, sentences: Sequence[Sentence], drawn: Sequence[Drawn]) -> list[Generated]:
    """The texts with their trees, labelled where the model knows labels."""
    labels = label_trees(model, sentences, [one.depths for one in drawn])
    made = zip(sentences, drawn, labels, strict=True)
    return [
        Generated(
            running_text(sentence.words),
            Parse(sentence.words, sentence.offsets, sentence.of_words(one.depths), labels=known),
            one.log_prob,
        )
        for sentence, one, known in made
    ]


# ---------------------------------------------------------------------------------------------- free


def free(
    model: SOMForCausalLM,
    tokenizer: PreTrainedTokenizerBase,
    start: list[int],
    sizes: Sequence[int],
    suppressed: list[int],
    processors: LogitsProcessorList,
    max_new_tokens: int,
    do_sample: bool,
    seed: int,
) -> list[Drawn]:
    """By `model.generate`; the trees are those the model reads in the results."""
    # the processors already apply temperature, top_k and top_p; the library must not do so again
    options: dict[str, Any] = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if do_sample else {}
    rows: list[list[int]] = []
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(seed)
        for size in sizes:
            ids: Any = model.generate(  # type: ignore[misc]  # the library's type of a model that generates
                torch.tensor([start] * size, device=model.device),
                attention_mask=torch.ones(size, len(start), dtype=torch.long, device=model.device),
                suppress_tokens=suppressed,  # also in place of those in the checkpoint's generation_config.json
                logits_processor=processors,
                max_new_tokens=max_new_tokens,
                do_sample=do_sample,
                eos_token_id=tokenizer.eos_token_id,
                pad_token_id=tokenizer.pad_token_id,
                **options,
            )
            rows += ids.tolist()
    for row in rows:
        if tokenizer.eos_token_id in row[len(start) :]:
            del row[row.index(tokenizer.eos_token_id, len(start)) + 1 :]
    return [
        Drawn(row, scored.depths, sum(scored.log_probs[len(start) - 1 :]))
        for row, scored in zip(rows, score(model, rows), strict=True)
    ]


# ---------------------------------------------------------------------------------------------- steered


def shallow(max_depth: int, allow: Allow | None) -> Allow:
    """Depths up to a limit, and among those that are allowed anyway."""
    depths = range(1, max_depth + 1)
    return (lambda taken: depths) if allow is None else (lambda taken: set(depths) & set(allow(taken)))


@dataclass(frozen=True)
class Template:
    """A template, token by token up to EOS: the depth of each, and the token itself where it is given."""

    depths: list[int]  # BOS's first
    tokens: list[int | None]
    words: dict[int, str]  # those given

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, template: str, num_slots: int) -> Template:
        tree = Tree.parse(template)
        given = {place: word for place, word in enumerate(tree.words()) if word != FREE}
        pieces = encode_words(tokenizer, list(given.values()))  # type: ignore[arg-type]  # a fast one
        tokens: list[int | None] = []
        events: list[Event] = [Bracket.OPEN, "BOS"]
        for event in tree.events():
            ids: list[int | None] = [None] if event == FREE else [*pieces.pop(0)] if isinstance(event, str) else []
            tokens += ids
            events += [Bracket.OPEN, *["piece"] * len(ids), Bracket.CLOSE] if ids else [event]
        depths = gold_depths(first_siblings(Tree.from_events([*events, "EOS", Bracket.CLOSE])))
        if max(depths) > num_slots:
            raise ValueError(f"the template is {max(depths)} deep, the model has only {num_slots} slots")
        return cls(depths, [*tokens, tokenizer.eos_token_id], given)

    def allow(self, taken: Sequence[int]) -> list[int]:
        return [self.depths[len(taken)]]


def steered(
    model: SOMForCausalLM,
    start: list[int],
    n: int,
    allow: Allow,
    tokens: Iterable[int | None],
    processors: LogitsProcessorList,
    noise: torch.Generator | None,
    eos: int,
) -> list[Drawn]:
    """Draws attachment and word in turn from the joint model, or without noise takes the best of each."""
    som, cache = model.model, SOMCache()
    read = som(torch.tensor([start] * n, device=model.device), past_key_values=cache).depths.tolist()
    drawn = [Drawn(list(start), depths) for depths in read]
    active, state = list(drawn), cache.state  # a row of the state for each
    assert state is not None, "BOS was read"
    for token in tokens:
        rows, prior = torch.arange(len(active)), log_softmax(som.next_attachment_logits(state))
        attach = pick(prior + allowed_mask(allow, active, state.depth.tolist(), prior.shape[1]), noise)
        hidden = som.predicting_state(state, rows.to(model.device), attach.to(model.device))
        ids: Any = torch.tensor([one.ids for one in active], device=model.device)
        logits: Any = model.word_logits(hidden)
        words = pick(processors(ids, logits).cpu().double().log_softmax(dim=1), noise)
        words = words if token is None else torch.full_like(words, token)
        step = Step.of(model, state, words.to(model.device), rows)
        attach = torch.where(step.no_choice, step.posterior.argmax(1), attach)
        (gain, predicted), _ = step.gains(rows, attach)
        for one, word, depth, more in zip(active, words.tolist(), (attach + 1).tolist(), gain.tolist(), strict=True):
            one.ids.append(word)
            one.depths.append(depth)
            one.log_prob += more
        going = [row for row, one in enumerate(active) if one.ids[-1] != eos]
        if not going:
            break
        active = [active[row] for row in going]
        state = step.attach(rows, attach, predicted).select(torch.tensor(going))
    return drawn


def allowed_mask(allow: Allow, active: Sequence[Drawn], word_depths: Sequence[int], width: int) -> Tensor:
    """(R, width): 0 at the attachments that each sentence may have next, -inf at the others."""
    mask = torch.full((len(active), width), -torch.inf, dtype=torch.float64)
    for row, one in enumerate(active):
        deepest = min(word_depths[row] + 1, width)
        depths = [depth for depth in allow(one.depths) if 1 <= depth <= deepest]
        if not depths:
            raise ValueError(f"after depths {one.depths} none of depths 1 to {deepest} is allowed")
        mask[row, [depth - 1 for depth in depths]] = 0
    return mask


def pick(log_probs: Tensor, noise: torch.Generator | None) -> Tensor:
    """(R,): drawn from each row of (R, choices), or the best without noise."""
    if noise is None:
        return log_probs.argmax(dim=1)
    return torch.multinomial(log_probs.softmax(dim=1), 1, generator=noise)[:, 0]
