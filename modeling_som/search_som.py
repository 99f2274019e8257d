"""Following many trees of a sentence at once: a particle filter and a beam search over the joint model of words and
trees, p(w, e) = Π p'_t(e) · softmax(h_t(e))[w]."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from .modeling_som import SOMForCausalLM
from .operators_som import chunk_on, groups_of_rows, weighted_sums
from .state_som import SOMState


def word_log_probs(model: SOMForCausalLM, states: Tensor, words: Tensor) -> Tensor:
    """(R,) on the CPU: log-probability of one word after each state (R, D); only some rows of logits at a time."""
    rows = max(1, chunk_on(states) // model.config.vocab_size)
    parts = [torch.empty(0, dtype=torch.float64)]
    for state, word in zip(states.split(rows), words.split(rows), strict=True):
        logits = model.word_logits(state)  # (rows, V)
        log_probs = logits.gather(1, word[:, None])[:, 0] - logits.logsumexp(dim=1)
        parts.append(log_probs.cpu().double())
    return refuse_nan(torch.cat(parts), "words")


class Mixtures(NamedTuple):
    """Predictions of the next word from R states, in groups whose states follow each other; tables are on the CPU."""

    log_probs: Tensor  # (R,) of one word after each state
    entropies: Tensor  # (groups,) in nats, of the whole mixture of the predictions of a group


def predict_mixtures(
    model: SOMForCausalLM, states: Tensor, words: Tensor, sizes: Tensor, log_weights: Tensor
) -> Mixtures:
    """One word after each state (R, D), as `word_log_probs` has it, and the entropy over all words of each group.

    `sizes` (groups,) are the numbers of states, `log_weights` (R,) sum to 1 over a group. Each logit is computed once.
    """
    groups, rows = groups_of_rows(sizes, chunk_on(states) // model.config.vocab_size)
    parts = [Mixtures(torch.empty(0, dtype=torch.float64), torch.empty(0, dtype=torch.float64))]
    tables = (states.split(rows), words.split(rows), sizes.split(groups), log_weights.split(rows))
    for state, word, size, log_weight in zip(*tables, strict=True):
        logits = model.word_logits(state)  # (rows, V)
        logits = logits - logits.amax(dim=1, keepdim=True)
        log_prob, share = logits.gather(1, word[:, None])[:, 0], logits.exp_()
        total = share.sum(dim=1)
        weight = log_weight.exp().to(share) / total
        entropy = torch.special.entr(weighted_sums(share, size, weight)).sum(dim=1)
        log_prob = refuse_nan((log_prob - total.log()).cpu().double(), "words")
        parts.append(Mixtures(log_prob, entropy.cpu().double()))
    return Mixtures(*map(torch.cat, zip(*parts, strict=True)))


def log_softmax(logits: Tensor) -> Tensor:
    """(R, N) on the CPU, in double precision; refuses what is no distribution."""
    return refuse_nan(logits.cpu().double().log_softmax(dim=1), "attachments")


def refuse_nan(log_probs: Tensor, of: str) -> Tensor:
    """The log-probabilities, if they are numbers."""
    if log_probs.isnan().any():
        raise ValueError(f"the model's scores of {of} are not numbers (NaN): its weights are not finite, or overflow")
    return log_probs


class Cloud(NamedTuple):
    """Some trees of the words read so far, of several sentences, each tree once."""

    log_probs: Tensor  # (S,) of the last word, estimated; over a sentence they sum to that of all its words
    # if entropies are asked for: (S,) of the last word after the trees kept before it, before any of the new are
    # dropped; and (S,) in nats, the entropy of the prediction of the last word from those trees
    prefix_log_probs: Tensor | None
    entropies: Tensor | None
    sentence: Tensor  # (R,) whose tree it is
    depths: Tensor  # (R, t)
    joint: Tensor  # (R,) log p(w, e) so far
    merit: Tensor  # (R,) by which trees are compared


def particle_filter(
    model: SOMForCausalLM, ids: Tensor, mask: Tensor, k: int, seed: int, entropies: bool = False
) -> Iterator[Cloud]:
    """Follows `k` trees per sentence of ids (S, T), longest first, and yields, word by word, where they are.

    Attachments are drawn from p and weighted by p' · softmax(h)[w] / p; when the weights' effective number falls below
    half of `k`, trees are drawn anew by weight. Trees that several particles share are computed once. Every sentence
    gets the same random numbers, so its score depends on the seed alone, not on its company, and the scores of two
    similar sentences differ by less noise.
    """
    S, N = len(ids), model.config.num_slots
    generator, state = torch.Generator().manual_seed(seed), first_state(model, ids)
    sentence, joint, depths = torch.arange(S), torch.zeros(S, dtype=torch.float64), torch.zeros(S, 1, dtype=torch.long)
    tree = sentence[:, None].expand(S, k)  # of each particle
    weight = torch.zeros(S, k, dtype=torch.float64)
    for t, S in sentences_at(mask):
        R = int((sentence < S).sum())  # trees of the sentences that go on, which come first
        sentence, joint, depths, tree, weight = sentence[:R], joint[:R], depths[:R], tree[:S], weight[:S]
        step = Step.of(model, state, ids[:, t], sentence)
        noise = torch.rand(k + 1, generator=generator, dtype=torch.float64)
        attach = draw(step.posterior[tree], noise[:k, None].expand(S, k, 1))[..., 0]
        share = shares_of_trees(tree, weight, R) if entropies else None
        grown, tree = torch.unique(tree * N + attach, return_inverse=True)
        source, attach = grown // N, grown % N
        (gain, predicted), entropy = step.gains(source, attach, share, sentence)
        sentence, joint = sentence[source], joint[source] + gain
        depths = torch.cat([depths[source], attach[:, None] + 1], dim=1)
        before, weight = weight.logsumexp(dim=1), weight + (gain - step.posterior[source, attach])[tree]
        state = step.attach(source, attach, predicted)
        log_probs = weight.logsumexp(dim=1) - before
        yield Cloud(log_probs, log_probs, entropy, sentence, depths, joint, joint)
        tree, weight = resample(tree, weight, noise[k])


def beam_search(model: SOMForCausalLM, ids: Tensor, mask: Tensor, k: int, entropies: bool = False) -> Iterator[Cloud]:
    """Follows the `k` best trees per sentence of ids (S, T), longest first, and yields, word by word, what they are.

    Trees of the same words compete, so none is ahead of another by the words that it has read. A tree's merit is the
    product of the two opinions of it: that of the joint model, p(w, e), and that of p on its decisions. Without
    `entropies`, nothing is predicted after attachments that cannot be among the best.
    """
    S, state = len(ids), first_state(model, ids)
    sentence, depths = torch.arange(S), torch.zeros(S, 1, dtype=torch.long)
    joint = merit = total = torch.zeros(S, dtype=torch.float64)
    for t, S in sentences_at(mask):
        R = int((sentence < S).sum())  # trees of the sentences that go on, which come first
        sentence, joint, merit, depths, total = sentence[:R], joint[:R], merit[:R], depths[:R], total[:S]
        step = Step.of(model, state, ids[:, t], sentence)
        if entropies:
            source, attach = step.posterior.isfinite().nonzero(as_tuple=True)  # every tree with every attachment
            (gain, predicted), entropy = step.gains(source, attach, joint - total[sentence], sentence)
        else:
            source, attach, (gain, predicted) = step.contenders(merit, sentence, k)
            entropy = None
        joint, merit = joint[source] + gain, merit[source] + gain + step.posterior[source, attach]
        prefix = logsumexp_of_each(sentence[source], joint, S) - total if entropies else None
        kept = best_of_each(sentence[source], merit, k)
        source, attach, joint, merit = source[kept], attach[kept], joint[kept], merit[kept]
        sentence, depths = sentence[source], torch.cat([depths[source], attach[:, None] + 1], dim=1)
        before, total = total, logsumexp_of_each(sentence, joint, S)
        state = step.attach(source, attach, predicted[kept.to(predicted.device)])
        yield Cloud(total - before, prefix, entropy, sentence, depths, joint, merit)


def first_state(model: SOMForCausalLM, ids: Tensor) -> SOMState:
    """The state after the first token of each sentence."""
    x = model.model.words(ids[:, 0])
    return model.model.attach(x, SOMState.empty(len(x), x), torch.zeros_like(ids[:, 0]))


class Gains(NamedTuple):
    """What the next word adds to P trees with an attachment each."""

    gain: Tensor  # (P,) on the CPU: log p'(e) softmax(h(e))[w]
    predicted: Tensor  # (P, D) h(e)


@dataclass(frozen=True)
class Step:
    """The next word of each of R trees, and what p and p' say of its attachment; tables are on the CPU."""

    model: SOMForCausalLM
    state: SOMState
    ids: Tensor  # (R,)
    x: Tensor  # (R, D)
    inside: Tensor | None  # (R,) on the device: where the token continues a word; None where tokens are words
    no_choice: Tensor  # (R,) the same on the CPU: such a token is attached by rule
    posterior: Tensor  # (R, N) log p, which has seen the word
    prior: Tensor  # (R, N) log p', which has not

    @classmethod
    def of(cls, model: SOMForCausalLM, state: SOMState, ids: Tensor, sentence: Tensor) -> Step:
        """`ids` are of the sentences; the trees of those that have ended come last and are left behind."""
        som, sentence = model.model, sentence.to(ids.device)
        state = SOMState(*(part[: len(sentence)] for part in state))
        ids = ids[sentence]
        x, inside = som.words(ids), som.continuing(ids)
        p, p_next = som.attachment_logits(x, state, inside), som.next_attachment_logits(state)
        no_choice = torch.zeros(len(ids), dtype=torch.bool) if inside is None else inside.cpu()
        return cls(model, state, ids, x, inside, no_choice, log_softmax(p), log_softmax(p_next))

    def gains(
        self, source: Tensor, attach: Tensor, share: Tensor | None = None, sentence: Tensor | None = None
    ) -> tuple[Gains, Tensor | None]:
        """What the word adds to the trees `source` (P,) with the attachments e; and, if the log of each tree's `share`
        of its `sentence` is given (R,), the entropy of what all trees of a sentence predict (S,).

        The attachment of a piece inside a word is no event: p' speaks of the next word, so all its guesses count."""
        every, asked = self.prior.isfinite(), torch.zeros_like(self.prior, dtype=torch.bool)
        asked[source, attach] = True
        asked |= every & (self.no_choice & asked.any(dim=1))[:, None]
        row, e = (asked if share is None else every).nonzero(as_tuple=True)
        states, words = self.words_after(row, e)
        if share is None or sentence is None:
            log_probs, entropies = word_log_probs(self.model, states, words), None
        else:
            sizes, weights = sentence[row].bincount(), share[row] + self.prior[row, e]
            log_probs, entropies = predict_mixtures(self.model, states, words, sizes, weights)
        joint = torch.full_like(self.prior, -torch.inf).index_put((row, e), self.prior[row, e] + log_probs)
        gain = torch.where(self.no_choice[source], joint.logsumexp(dim=1)[source], joint[source, attach])
        place = torch.zeros_like(asked, dtype=torch.long).index_put((row, e), torch.arange(len(row)))
        return Gains(gain, states[place[source, attach].to(states.device)]), entropies

    def contenders(self, merit: Tensor, sentence: Tensor, k: int) -> tuple[Tensor, Tensor, Gains]:
        """Trees and attachments that can be among the `k` best of a sentence when their gains are added, and these.

        The word's probability is at most 1, so p and p' bound what an attachment can reach. Those with the largest
        bounds are tried first; most of the others cannot reach the worst of these, and need no prediction."""
        source, attach = self.posterior.isfinite().nonzero(as_tuple=True)
        before = merit[source] + self.posterior[source, attach]
        bound = before + self.prior[source, attach].masked_fill(self.no_choice[source], 0)
        group = sentence[source]
        first = best_of_each(group, bound, k)
        best, _ = self.gains(source[first], attach[first])
        reached = before[first] + best.gain
        worst = torch.full_like(merit, torch.inf).scatter_reduce(0, group[first], reached, "amin")
        within = (bound >= worst[group]).index_fill(0, first, False).nonzero()[:, 0]
        others, _ = self.gains(source[within], attach[within])
        chosen = torch.cat([first, within])
        return source[chosen], attach[chosen], Gains(*map(torch.cat, zip(best, others, strict=True)))

    def words_after(self, source: Tensor, attach: Tensor) -> tuple[Tensor, Tensor]:
        """The states (P, D) that predict after the attachments, and the words (P,)."""
        source, attach = source.to(self.ids.device), attach.to(self.ids.device)
        return self.model.model.predicting_state(self.state, source, attach), self.ids[source]

    def attach(self, source: Tensor, attach: Tensor, predicted: Tensor) -> SOMState:
        """The states of the trees `source` with their words attached; h(e) was `predicted` with the gains."""
        source, attach = source.to(self.ids.device), attach.to(self.ids.device)
        inside = None if self.inside is None else self.inside[source]
        return self.model.model.attach(self.x[source], self.state.select(source), attach, inside, predicted)


def shares_of_trees(tree: Tensor, weight: Tensor, trees: int) -> Tensor:
    """(trees,): the log of each tree's share of its sentence, from the weights (S, k) of its particles."""
    share = weight - weight.logsumexp(dim=1, keepdim=True)
    return logsumexp_of_each(tree.flatten(), share.flatten(), trees)


def sentences_at(mask: Tensor) -> list[tuple[int, int]]:
    """Each place after the first, and how many sentences reach it; these come first."""
    return list(enumerate(mask.sum(dim=0).tolist()))[1:]


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


def resample(tree: Tensor, weight: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Draws anew (systematically) the particles (S, k) of sentences with too few effective ones."""
    S, k = weight.shape
    share = weight.softmax(dim=1)
    poor = 1 / share.square().sum(dim=1, keepdim=True) < k / 2  # (S, 1)
    again = tree.gather(1, draw(share.log(), ((torch.arange(k) + noise) / k).expand(S, k)))
    return torch.where(poor, again, tree), torch.where(poor, 0, weight - weight.logsumexp(dim=1, keepdim=True))


def agreed_tree(cloud: Cloud, sentence: int) -> list[int]:
    """Depths of the tree in the cloud that shares most constituents with all others, by their probability.

    Of these trees it is the one with the most right constituents to be expected (Goodman, 1996), that of EOS and those
    of pieces counted; the most probable tree may be an outsider.
    """
    trees = best_trees(cloud, sentence, len(cloud.sentence))
    constituents = [constituent_spans(depths[1:]) for depths, _ in trees]  # without BOS
    belief: Counter[tuple[int, int]] = Counter()  # of each constituent, how probable it is
    for (_, share), spans in zip(trees, constituents, strict=True):
        belief.update(dict.fromkeys(spans, share))
    shared = [sum(belief[span] for span in spans) for spans in constituents]
    return trees[shared.index(max(shared))][0]


def constituent_spans(depths: Sequence[int]) -> list[tuple[int, int]]:
    """First and 1 + last token of every constituent of two or more tokens in the binary tree of these depths.

    A token joins the constituent that begins with the last shallower token; it ends before the next one as shallow.

    >>> constituent_spans([1, 2, 2, 3])  # ((the cat) (sat down))
    [(0, 2), (2, 4), (0, 4)]
    """
    spans: list[tuple[int, int]] = []
    path: list[int] = []  # the first token, then those that have joined constituents which are still open
    for token, depth in enumerate([*depths, 0]):
        while len(path) > 1 and depths[path[-1]] >= depth:
            path.pop()
            spans.append((path[-1], token))
        path.append(token)
    return spans


def best_trees(cloud: Cloud, sentence: int, count: int) -> list[tuple[list[int], float]]:
    """The best trees of a sentence in the cloud: depths, and their share of the probability of all in it."""
    rows = (cloud.sentence == sentence).nonzero()[:, 0]
    order = cloud.merit[rows].topk(min(count, len(rows))).indices
    shares = cloud.joint[rows].softmax(dim=0)[order]
    return list(zip(cloud.depths[rows[order]].tolist(), shares.tolist(), strict=True))
