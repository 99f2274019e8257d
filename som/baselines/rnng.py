"""A recurrent neural network grammar (RNNG): a generative model of sentences and their trees.

Dyer, Kuncoro, Ballesteros & Smith, "Recurrent Neural Network Grammars" (NAACL 2016). A sentence is generated with its
tree, top-down and from left to right, by three actions: NT opens a constituent, GEN generates a word, REDUCE closes
the innermost constituent and replaces it on the stack by its composition. What stands on the stack is read by a stack
LSTM, whose state at the top predicts actions and words; that stack alone, as Kuncoro et al. (2017) found best.
Constituents have no labels.

Prepared data hold binarised trees, (a b c) as ((a b) c), where nothing tells ((a b) c) from (a b c). So an RNNG is
trained on the flat reading: a constituent that begins with another constituent is one with it. Every constituent then
begins with a word, so that NT comes once at most before a word; and each of these trees is one binary tree, so that
its parses can be measured like those of a SOM. The root is the constituent of BOS, which stays open.

Words are scored by word-synchronous beam search (Stern, Fried & Klein, 2017): the probability of the words so far,
summed over the trees in the beam, a lower bound of that over all trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import nlargest
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from modeling_som.operators_som import mean
from modeling_som.scoring_som import Padded, Scored, batches, evaluating
from modeling_som.sentences_som import NONE
from som.baselines.language_model import LanguageModel, dropouts
from som.training import TrainSettings, vocabulary

NT, GEN, REDUCE = range(3)
WORD_BEAM = 10  # trees kept after each word
FEWEST_ACTIONS = 8  # sequences of actions up to the next word that are tried at least
BATCH_TREES = 1024

State = tuple[Tensor, Tensor, Tensor, Tensor]  # h and c of the two layers of the stack LSTM
Items = Tensor | int | None  # what a summed loss is divided by, if not by the number of its own words


# ---------------------------------------------------------------------------------------------- derivations


class Action(NamedTuple):
    """An action that was chosen among several."""

    push: int  # the top of the stack, whose state decides
    action: int
    may_reduce: bool
    token: int  # the next one to be generated


class Begun(NamedTuple):
    """A constituent that is open."""

    start: int  # its first token, counted from BOS
    below: int  # the push under its bracket
    children: list[int]  # so far, as items


class Derivations:
    """The derivations of a batch's trees, as indices: which items are composed, pushed, and predicted from.

    Items are the tokens of the batch, then the bracket that NT pushes, then the constituents. With all actions known,
    constituents of the same height are composed at once, and pushes at the same height of the stack, too.

    >>> plan = Derivations(tokens=6)
    >>> plan.add(0, [-1, 0, 1, 1, 3, 0])  # BOS (the cat (sat down)) EOS
    >>> plan.children, plan.heights
    ([[3, 4], [1, 2, 7]], [1, 2])
    >>> "".join("NGR"[choice.action] for choice in plan.choices)
    'NGNGRRG'
    """

    def __init__(self, tokens: int):
        self.bracket = tokens
        self.children: list[list[int]] = []  # of each constituent, as items
        self.heights: list[int] = []
        self.items = [tokens]  # of each push; the first one stands for the empty stack
        self.below = [0]
        self.level = [0]
        self.choices: list[Action] = []
        self.predicting: list[int] = []  # for each token after BOS, the push from whose state it is generated

    def add(self, first: int, siblings: Sequence[int]) -> None:
        """Adds the sentence of the tokens first, first + 1, …; one opens a constituent if the next one is in it."""
        stack = [Begun(0, 0, [first])]
        top = self.push(first, self.push(self.bracket, 0))
        for t in range(1, len(siblings)):
            if siblings[t] not in (one.start for one in stack):
                raise ValueError(f"first_sibling must describe a tree, token {t} has {siblings[t]}")
            while stack[-1].start != siblings[t]:
                self.choices.append(Action(top, REDUCE, True, first + t))
                top = self.reduce(stack)
            opens = t in siblings[t + 1 : t + 2]
            may_reduce = len(stack) > 1 and len(stack[-1].children) > 1
            self.choices.append(Action(top, NT if opens else GEN, may_reduce, first + t))
            if opens:
                stack.append(Begun(t, top, []))
                top = self.push(self.bracket, top)
            self.predicting.append(top)
            stack[-1].children.append(first + t)
            top = self.push(first + t, top)

    def reduce(self, stack: list[Begun]) -> int:
        """Closes the innermost constituent; the push of its composition."""
        closed = stack.pop()
        stack[-1].children.append(self.compose(closed.children))
        return self.push(stack[-1].children[-1], closed.below)

    def compose(self, children: list[int]) -> int:
        """The new constituent, as an item."""
        inside = [self.heights[child - self.bracket - 1] for child in children if child > self.bracket]
        self.children.append(children)
        self.heights.append(1 + max(inside, default=0))
        return self.bracket + len(self.children)

    def push(self, item: int, below: int) -> int:
        self.items.append(item)
        self.below.append(below)
        self.level.append(self.level[below] + 1)
        return len(self.items) - 1


def ranks(order: Tensor) -> Tensor:
    """Where each index stands in an order.

    >>> ranks(torch.tensor([2, 0, 1])).tolist()
    [1, 2, 0]
    """
    return torch.empty_like(order).scatter_(0, order, torch.arange(len(order)))


# ---------------------------------------------------------------------------------------------- model


@strict
class RNNGConfig(PreTrainedConfig):
    model_type = "rnng"
    vocab_size: int = 10_000
    hidden_size: int = 200
    wide_size: int = 374
    embedding_dropout: float = 0.1
    dropout: float = 0.2
    output_dropout: float = 0.3
    tie_word_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | None = None
    pad_token_id: int = 0


class Composition(nn.Module):
    """A constituent from its children: an LSTM reads them from the left, another from the right, each after NT."""

    def __init__(self, size: int):
        super().__init__()
        self.forwards, self.backwards = (nn.LSTM(size, size, batch_first=True) for _ in range(2))
        self.project = nn.Linear(2 * size, size)

    def forward(self, bracket: Tensor, children: Tensor, lengths: Tensor) -> Tensor:  # (D,), (C, K, D), (C,) → (C, D)
        opening = bracket.expand(len(children), 1, -1)
        steps = torch.arange(children.shape[1], device=lengths.device)
        backward = (lengths[:, None] - 1 - steps).clamp(min=0)[..., None].expand_as(children)
        ends = lengths[:, None, None].expand(-1, 1, bracket.shape[0])  # beyond it there is only padding
        read = [
            lstm(torch.cat([opening, some], dim=1))[0].gather(1, ends).squeeze(1)
            for lstm, some in ((self.forwards, children), (self.backwards, children.gather(1, backward)))
        ]
        return self.project(torch.cat(read, dim=1)).tanh()


class RNNGForCausalLM(LanguageModel):
    """An RNNG whose stack LSTM has two layers, D → wide → D."""

    config_class = RNNGConfig

    def __init__(self, config: RNNGConfig):
        super().__init__(config)
        D, wide = config.hidden_size, config.wide_size
        self.bracket = nn.Embedding(1, D)
        self.composition = Composition(D)
        self.wide, self.narrow = nn.LSTMCell(D, wide), nn.LSTMCell(wide, D)
        self.actions = nn.Linear(D, 3)
        self.post_init()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        first_sibling: Tensor | None = None,
        num_items_in_batch: Items = None,
        **kwargs: Any,
    ) -> CausalLMOutput:
        mask = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        return self.outputs(input_ids, mask, labels, first_sibling, num_items_in_batch)

    def outputs(
        self, input_ids: Tensor, mask: Tensor, labels: Tensor | None, first_sibling: Tensor | None, items: Items
    ) -> CausalLMOutput:
        """The joint probability of words and given trees: the loss, and in evaluation the logits.

        The probability of the actions before a word is part of the word's, so that the logits of one position are the
        logarithms of a distribution: what is left for other actions goes to padding, which is never a word."""
        if first_sibling is None or (first_sibling[mask] == NONE).any():
            raise ValueError("an RNNG needs the tree of every sentence, first_sibling; score_rnng finds trees")
        actions, words = self.log_probs(input_ids, mask, first_sibling)  # (P,), (P, V)
        after_bos = mask & (mask.cumsum(1) > 1)
        loss = None
        if labels is not None:
            targets = labels[after_bos]  # (P,)
            loss = mean(-chosen(actions, words, targets).sum(), targets, items)
        logits = None if self.training else self.joint_logits(actions, words, after_bos)
        return CausalLMOutput(loss=loss, logits=logits)  # type: ignore[arg-type]

    def sentence_log_probs(self, input_ids: Tensor, mask: Tensor, labels: Tensor, first_sibling: Tensor) -> Tensor:
        """(B,): log-probability of each sentence with its tree."""
        actions, words = self.log_probs(input_ids, mask, first_sibling)
        after_bos = mask & (mask.cumsum(1) > 1)
        row, _ = after_bos.nonzero(as_tuple=True)
        return actions.new_zeros(len(mask)).index_add(0, row, chosen(actions, words, labels[after_bos]))

    def joint_logits(self, actions: Tensor, words: Tensor, after_bos: Tensor) -> Tensor:
        """(B, T, V): of the next token and the given actions before it; zeros where there is no next token."""
        joint = words + actions[:, None]
        elsewhere, pad = (-actions.exp()).log1p().clamp(min=-1e4), self.config.pad_token_id
        joint[:, pad] = joint[:, pad].logaddexp(elsewhere)
        logits = joint.new_zeros(*after_bos.shape, joint.shape[1])
        logits[after_bos.roll(-1, dims=1)] = joint
        return logits

    def log_probs(self, input_ids: Tensor, mask: Tensor, first_sibling: Tensor) -> tuple[Tensor, Tensor]:
        """For every token after BOS: log-probability of the actions before it (P,), and of all words then (P, V)."""
        x = self.words(input_ids[mask])
        plan = Derivations(len(x))
        lengths = mask.sum(1).tolist()
        for row in range(len(lengths)):
            plan.add(sum(lengths[:row]), first_sibling[row][mask[row]].tolist())
        tops = self.read_stacks(self.compose_all(x, plan), plan)  # (pushes, D)
        choices = torch.tensor(plan.choices, device=x.device).reshape(-1, 4)
        push, action, may_reduce, token = choices.unbind(1)
        taken = self.action_log_probs(tops.index_select(0, push), may_reduce.bool()).gather(1, action[:, None])
        actions = taken.new_zeros(len(x)).index_add(0, token, taken.squeeze(1))
        after_bos = torch.cat([torch.arange(length, device=x.device) for length in lengths]) > 0
        predicting = torch.tensor(plan.predicting, dtype=torch.long, device=x.device)
        return actions[after_bos], self.word_log_probs(tops.index_select(0, predicting))

    def compose_all(self, words: Tensor, plan: Derivations) -> Tensor:
        """(items, D): tokens, the bracket, and all constituents, from the lowest to the highest."""
        items = [torch.cat([words, self.bracket.weight])]
        heights = torch.tensor(plan.heights, dtype=torch.long)
        order = heights.argsort(stable=True)
        place = (torch.cat([torch.arange(len(items[0])), len(items[0]) + ranks(order)])).tolist()
        for some in order.split(heights.bincount().tolist()[1:]) if len(order) else ():
            children = [[place[child] for child in plan.children[one]] for one in some.tolist()]
            lengths = torch.tensor([len(row) for row in children], device=words.device)
            longest = int(lengths.max())
            index = torch.tensor([row + [0] * (longest - len(row)) for row in children], device=words.device)
            below = torch.cat(items).index_select(0, index.flatten()).unflatten(0, index.shape)
            items.append(self.composition(self.bracket.weight[0], below, lengths))
        return torch.cat([items[0], torch.cat(items[1:])[ranks(order)]]) if len(order) else items[0]

    def read_stacks(self, items: Tensor, plan: Derivations) -> Tensor:
        """(pushes, D): the state of the stack LSTM after every push."""
        level = torch.tensor(plan.level)
        order = level.argsort(stable=True)
        sizes = level.bincount().tolist()
        place = ranks(order)
        starts = torch.tensor([0, *sizes]).cumsum(0)
        state, tops = self.empty_state(items), [self.empty_state(items)[2]]
        for height, some in enumerate(order.split(sizes)[1:]):
            below = (place[torch.tensor(plan.below)[some]] - starts[height]).to(items.device)
            pushed = torch.tensor(plan.items)[some].to(items.device)
            state = self.push(items.index_select(0, pushed), [part.index_select(0, below) for part in state])
            tops.append(state[2])
        return torch.cat(tops).index_select(0, place.to(items.device))

    def empty_state(self, like: Tensor) -> State:
        sizes = (self.config.wide_size, self.config.wide_size, self.config.hidden_size, self.config.hidden_size)
        return tuple(like.new_zeros(1, size) for size in sizes)  # type: ignore[return-value]

    def push(self, x: Tensor, below: Sequence[Tensor]) -> State:
        """The state of the stack LSTM with items x (R, D) on top of stacks whose states were `below`."""
        wide = self.wide(x, (below[0], below[1]))
        narrow = self.narrow(F.dropout(wide[0], self.config.dropout, self.training), (below[2], below[3]))
        return *wide, *narrow

    def action_log_probs(self, tops: Tensor, may_reduce: Tensor) -> Tensor:
        """(R, 3): of NT, GEN and REDUCE."""
        scores = self.actions(F.dropout(self.output_norm(tops), self.config.dropout, self.training))
        forbidden = F.pad(~may_reduce[:, None], (2, 0))
        return scores.masked_fill(forbidden, -torch.inf).log_softmax(dim=1)

    def word_log_probs(self, tops: Tensor) -> Tensor:  # (R, D) → (R, V)
        hidden = F.dropout(self.output_norm(tops), self.config.output_dropout, self.training)
        return self.lm_head(hidden).log_softmax(dim=1)


def chosen(actions: Tensor, words: Tensor, targets: Tensor) -> Tensor:
    """(P,): log-probability of every target with the actions before it; 0 where there is none."""
    log_probs = actions + words.gather(1, targets.clamp(min=0)[:, None]).squeeze(1)
    return log_probs.masked_fill(targets == NONE, 0)


# ---------------------------------------------------------------------------------------------- beam search


class Open(NamedTuple):
    """An open constituent."""

    outer: Open | None
    below: int  # the push under its bracket
    children: tuple[int, ...]  # pushes of its children


class Hypothesis(NamedTuple):
    """One derivation of the words read so far, and on the way to the next word."""

    sentence: int  # row of the batch
    log_prob: float
    top: int  # the last push
    innermost: Open
    depths: tuple[int, ...]  # of its tokens, as in a SOM: the number of constituents that were open
    depth: int  # constituents that are open now
    opens: bool = False  # a constituent, right before the next word

    @property
    def may_reduce(self) -> bool:
        return self.depth > 1 and len(self.innermost.children) > 1


class Pushes:
    """All pushes of a search. What they were made from stays, so that stacks can share their lower parts."""

    def __init__(self, model: RNNGForCausalLM):
        self.model = model
        like = model.bracket.weight
        self.parts = [like.new_zeros(1, like.shape[1]), *model.empty_state(like)]  # items, and states after them
        self.size = 1

    def __getitem__(self, pushes: Sequence[int]) -> list[Tensor]:
        index = torch.tensor(pushes, dtype=torch.long, device=self.parts[0].device)
        return [part.index_select(0, index) for part in self.parts]

    def tops(self, pushes: Sequence[int]) -> Tensor:
        return self.parts[3].index_select(0, torch.tensor(pushes, dtype=torch.long, device=self.parts[3].device))

    def push(self, items: Tensor, below: Sequence[int]) -> range:
        """Pushes items (R, D); their numbers."""
        new = (items, *self.model.push(items, self[below][1:]))
        pushed = range(self.size, self.size + len(items))
        if pushed.stop > len(self.parts[0]):
            self.parts = [torch.cat([part, part.new_zeros(pushed.stop, part.shape[1])]) for part in self.parts]
        for part, rows in zip(self.parts, new, strict=True):
            part[pushed.start : pushed.stop] = rows
        self.size = pushed.stop
        return pushed

    def push_brackets(self, below: Sequence[int]) -> range:
        return self.push(self.model.bracket.weight.expand(len(below), -1), below)

    def push_words(self, words: Sequence[int], below: Sequence[int]) -> range:
        return self.push(self.model.words(torch.tensor(words, device=self.parts[0].device)), below)

    def push_composed(self, constituents: Sequence[Open]) -> range:
        lengths = torch.tensor([len(one.children) for one in constituents], device=self.parts[0].device)
        longest = int(lengths.max())
        padded = [push for one in constituents for push in (*one.children, *[0] * (longest - len(one.children)))]
        children = self[padded][0].unflatten(0, (-1, longest))
        items = self.model.composition(self.model.bracket.weight[0], children, lengths)
        return self.push(items, [one.below for one in constituents])


@torch.inference_mode()
def score_rnng(
    model: RNNGForCausalLM,
    sequences: Sequence[Sequence[int]],
    word_beam: int = WORD_BEAM,
    action_beam: int | None = None,
) -> Iterator[Scored]:
    """Scores sequences of ids, in their order; the depths are those of the most probable tree in the beam. Up to
    each word, twice as many sequences of actions are tried as trees are kept after it, but no fewer than a few."""
    action_beam = action_beam or max(2 * word_beam, FEWEST_ACTIONS)
    results: dict[int, Scored] = {}
    with evaluating(model):  # type: ignore[arg-type]  # only switches to evaluation
        for batch in batches(sequences, None, BATCH_TREES, model.device, action_beam):
            results.update(zip(batch.places, search(model, batch, word_beam, action_beam), strict=True))
    for place in range(len(sequences)):
        yield results.pop(place)


def search(model: RNNGForCausalLM, batch: Padded, word_beam: int, action_beam: int) -> list[Scored]:
    """Word-synchronous beam search for a batch of sentences, longest first."""
    pushes, ids, lengths = Pushes(model), batch.ids.tolist(), batch.mask.sum(1).tolist()
    brackets = pushes.push_brackets([0] * len(ids))
    bos = pushes.push_words([row[0] for row in ids], brackets)
    beams = [[Hypothesis(i, 0.0, bos[i], Open(None, 0, (bos[i],)), (0,), 1)] for i in range(len(ids))]
    totals: list[list[float]] = [[0.0] for _ in ids]
    for t in range(1, lengths[0]):
        reading = [hypothesis for i, beam in enumerate(beams) if t < lengths[i] for hypothesis in beam]
        ready = before_next_word(pushes, reading, action_beam)
        for beam in after_next_words(pushes, ready, [row[t] for row in ids], word_beam):
            beams[beam[0].sentence] = beam
            scores = torch.tensor([one.log_prob for one in beam], dtype=torch.float64)
            totals[beam[0].sentence].append(scores.logsumexp(0).item())
    best = [max(beam, key=lambda one: one.log_prob) for beam in beams]
    return [
        Scored([after - before for before, after in zip(row, row[1:], strict=False)], list(one.depths))
        for row, one in zip(totals, best, strict=True)
    ]


def by_sentence(hypotheses: Sequence[Hypothesis], keep: int) -> list[list[Hypothesis]]:
    """The best hypotheses of each sentence."""
    groups: dict[int, list[Hypothesis]] = {}
    for one in hypotheses:
        groups.setdefault(one.sentence, []).append(one)
    return [nlargest(keep, group, key=lambda one: one.log_prob) for group in groups.values()]


def before_next_word(pushes: Pushes, reading: list[Hypothesis], action_beam: int) -> list[Hypothesis]:
    """The best ways for each sentence to get to where the next word is generated."""
    ready: list[Hypothesis] = []
    while reading:
        may_reduce = torch.tensor([one.may_reduce for one in reading], device=pushes.parts[0].device)
        log_probs = pushes.model.action_log_probs(pushes.tops([one.top for one in reading]), may_reduce).tolist()
        reducing = []
        for one, scores in zip(reading, log_probs, strict=True):
            nt, gen, reduce = (one._replace(log_prob=one.log_prob + score) for score in scores)
            ready += [nt._replace(opens=True), gen]
            if one.may_reduce:
                reducing.append(reduce)
        ready = [one for group in by_sentence(ready, action_beam) for one in group]
        reading = reduced(pushes, worth_reducing(reducing, ready, action_beam))
    return opened(pushes, ready)


def worth_reducing(reducing: list[Hypothesis], ready: list[Hypothesis], action_beam: int) -> list[Hypothesis]:
    """Those that can still be among the best: further actions only cost probability."""
    groups = by_sentence(ready, action_beam)
    full = {group[-1].sentence: group[-1].log_prob for group in groups if len(group) == action_beam}
    return [one for one in reducing if one.log_prob > full.get(one.sentence, -torch.inf)]


def reduced(pushes: Pushes, reducing: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses with their innermost constituents closed."""
    if not reducing:
        return []
    closed = []
    for one, top in zip(reducing, pushes.push_composed([one.innermost for one in reducing]), strict=True):
        outer = one.innermost.outer
        assert outer is not None, "the root stays open"
        outer = outer._replace(children=(*outer.children, top))
        closed.append(one._replace(top=top, innermost=outer, depth=one.depth - 1))
    return closed


def opened(pushes: Pushes, ready: list[Hypothesis]) -> list[Hypothesis]:
    """The hypotheses with the depth of the next word written down, and a constituent opened where it is wanted."""
    below = [one.top for one in ready if one.opens]
    brackets = iter(pushes.push_brackets(below) if below else ())
    result = []
    for one in ready:
        depths = (*one.depths, one.depth)
        if one.opens:
            innermost = Open(one.innermost, one.top, ())
            one = one._replace(top=next(brackets), innermost=innermost, depth=one.depth + 1, opens=False)
        result.append(one._replace(depths=depths))
    return result


def after_next_words(
    pushes: Pushes, ready: list[Hypothesis], words: Sequence[int], word_beam: int
) -> list[list[Hypothesis]]:
    """The beams after the next word of each sentence."""
    log_probs = pushes.model.word_log_probs(pushes.tops([one.top for one in ready]))
    wanted = torch.tensor([words[one.sentence] for one in ready], device=log_probs.device)
    scores = log_probs.gather(1, wanted[:, None]).squeeze(1).tolist()
    scored = [one._replace(log_prob=one.log_prob + score) for one, score in zip(ready, scores, strict=True)]
    beams = by_sentence(scored, word_beam)
    kept = [one for beam in beams for one in beam]
    tops = iter(pushes.push_words([words[one.sentence] for one in kept], [one.top for one in kept]))
    return [[with_word(one, next(tops)) for one in beam] for beam in beams]


def with_word(one: Hypothesis, top: int) -> Hypothesis:
    innermost = one.innermost._replace(children=(*one.innermost.children, top))
    return one._replace(top=top, innermost=innermost)


def wide_size(size: int) -> int:
    """The stack LSTM has 4 (D + wide)² weights and the composition 18 D², together the 51 D² of a SOM."""
    return round(size * ((33 / 4) ** 0.5 - 1))


def rnng(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new RNNG of a SOM's size."""
    size = settings.hidden_size
    sizes = {"hidden_size": size, "wide_size": wide_size(size), **vocabulary(tokenizer)}
    return RNNGForCausalLM(RNNGConfig(**sizes, **dropouts(settings)))
