"""An unsupervised RNNG (URNNG): an RNNG that learns trees of its own, with the help of an inference network.

Kim, Rush, Yu, Kuncoro, Dyer & Melis, "Unsupervised Recurrent Neural Network Grammars" (NAACL 2019). Trees z are not
given. An inference network q(z | x), a CRF over binary trees whose score is the sum over a tree's spans, proposes them
after reading the whole sentence, and both are trained on the evidence lower bound

    log p(x) ≥ E_q[log p(x, z)] + H(q)

with trees sampled from q. The entropy H is exact, from the inside algorithm. The gradient of the first term with
respect to q is that of log q(z), weighted by how much better than those of the other samples log p(x, z) is.

The generative model is the RNNG of `som.baselines.rnng`, so that training can begin with one that has learnt from
trees (RNNG → URNNG: `--start RUN`); the paper's generates the same trees bottom-up. Since an untrained q would lead
such an RNNG astray, both p and q then learn from the given trees for the first `SUPERVISED` batches. Words are scored
by beam search; the tree is the most probable one of q, as in the paper. The authors' training is slower to start:
the weights of H and of the actions grow over two epochs, q has an optimiser of its own and positions beside its words.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from huggingface_hub.dataclasses import strict
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerFast
from transformers.modeling_outputs import CausalLMOutput

from modeling_som.operators_som import mean
from modeling_som.scoring_som import BATCH_TOKENS, batches, evaluating
from modeling_som.sentences_som import Sentence
from som.baselines.language_model import dropouts
from som.baselines.rnng import Items, RNNGConfig, RNNGForCausalLM, wide_size
from som.syntax import Tree, gold_depths, tree_from_depths
from som.training import TrainSettings, vocabulary

SUPERVISED = 150  # batches with given trees, where training begins with an RNNG: less than an epoch of a treebank
Stretch = tuple[int, int]  # first word, number of words
Choose = Callable[[Stretch], int]  # how many words of a span go to the left


# ---------------------------------------------------------------------------------------------- trees of a CRF


class Chart(NamedTuple):
    """A distribution over the binary trees of each sentence of a batch."""

    log_z: Tensor  # (B,)
    entropy: Tensor  # (B,)
    splits: list[Tensor]  # for each width, (B, spans, width - 1): log-probability of each split of a span


def pairs(table: Sequence[Tensor], width: int) -> Tensor:
    """(B, spans, width - 1): sums of the values of the two parts of every span of a width, at every split."""
    spans = table[1].shape[1] - width + 1
    sums = [table[left][:, :spans] + table[width - left][:, left : left + spans] for left in range(1, width)]
    return torch.stack(sums, dim=-1)


def of_sentences(table: Sequence[Tensor], lengths: Sequence[int]) -> Tensor:
    """(B,): the value of the span that is the whole sentence; nothing for an empty one."""
    return torch.stack([table[n][row, 0] if n else table[0].sum() for row, n in enumerate(lengths)])


def inside(scores: Tensor, lengths: Sequence[int]) -> Chart:
    """The inside algorithm over the scores of spans (B, n + 1, n + 1), from their first word to after their last."""
    words = scores.new_zeros(len(scores), scores.shape[1] - 1)
    beta, entropy, splits = [words[:, :0], words], [words[:, :0], words], [words[:, :0], words[..., None][..., :0]]
    for width in range(2, words.shape[1] + 1):
        sums = pairs(beta, width)
        total = sums.logsumexp(dim=-1)
        log_p = sums - total[..., None]
        beta.append(total + scores.diagonal(width, dim1=1, dim2=2))
        entropy.append((log_p.exp() * (pairs(entropy, width) - log_p)).sum(-1))
        splits.append(log_p)
    return Chart(of_sentences(beta, lengths), of_sentences(entropy, lengths), splits)


def best_splits(scores: Tensor) -> list[list[list[int]]]:
    """For each width, row and span, how many words go to the left in the tree of the highest score."""
    words = scores.new_zeros(len(scores), scores.shape[1] - 1)
    best = [words[:, :0], words]
    splits: list[list[list[int]]] = [[], []]
    for width in range(2, words.shape[1] + 1):
        total, split = pairs(best, width).max(dim=-1)
        best.append(total + scores.diagonal(width, dim1=1, dim2=2))
        splits.append((split + 1).tolist())
    return splits


def spans_of(length: int, choose: Choose) -> dict[Stretch, int]:
    """The spans of a tree over so many words, each with its split.

    >>> spans_of(3, lambda span: 1)
    {(0, 3): 1, (1, 2): 1}
    """
    spans: dict[Stretch, int] = {}
    todo = [(0, length)]
    while todo:
        span = todo.pop()
        start, width = span
        if width > 1:
            left = spans[span] = choose(span)
            todo += [(start + left, width - left), (start, left)]
    return spans


def siblings_of(length: int, spans: dict[Stretch, int]) -> list[int]:
    """The first siblings of BOS, so many words in a tree, and EOS.

    >>> siblings_of(4, {(0, 4): 2, (0, 2): 1, (2, 2): 1})
    [-1, 0, 1, 1, 3, 0]
    """
    siblings = [-1, *[0] * (length + 1)]
    for (start, _), left in spans.items():
        siblings[start + left + 1] = start + 1
    return siblings


def spans_from(siblings: Sequence[int]) -> dict[Stretch, int]:
    """The inverse of `siblings_of`.

    >>> spans_from([-1, 0, 1, 1, 3, 0])
    {(0, 4): 2, (0, 2): 1, (2, 2): 1}
    """

    def last_split(span: Stretch) -> int:
        start, width = span
        return max(left for left in range(1, width) if siblings[start + left + 1] == start + 1)

    return spans_of(len(siblings) - 2, last_split)


def sample(chart: Chart, lengths: Sequence[int], count: int) -> list[list[dict[Stretch, int]]]:
    """So many trees of each sentence, drawn from their distribution."""
    chances = [log_p.detach().exp().cumsum(-1)[..., :-1].tolist() for log_p in chart.splits]
    random = torch.rand(len(lengths), count, max(lengths, default=0) + 1).tolist()

    def draw(row: int, numbers: Iterator[float]) -> Choose:
        return lambda span: 1 + bisect(chances[span[1]][row][span[0]], next(numbers))

    return [[spans_of(n, draw(row, iter(numbers))) for numbers in random[row]] for row, n in enumerate(lengths)]


# ---------------------------------------------------------------------------------------------- model


@strict
class URNNGConfig(RNNGConfig):
    model_type = "urnng"
    inference_size: int = 100
    samples: int = 4  # trees per sentence in training; the paper's 8 take twice as long
    supervised_batches: int = 0  # of training, before it goes on without trees


class InferenceNetwork(nn.Module):
    """Scores of spans from a bidirectional LSTM: how its states differ between the ends of a span."""

    def __init__(self, config: URNNGConfig):
        super().__init__()
        size = config.inference_size
        self.lstm = nn.LSTM(config.hidden_size, size, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * size, config.hidden_size)
        self.norm = nn.LayerNorm(config.hidden_size)
        self.score = nn.Linear(config.hidden_size, 1)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, words: Tensor, lengths: Sequence[int]) -> Tensor:
        """(B, n + 1, n + 1): of the spans of words, from before their first to after their last, BOS and EOS beside
        them; sentences (B, n + 2, D) are padded on the right and have `lengths` words."""
        tokens = torch.tensor([n + 2 for n in lengths])
        packed = pack_padded_sequence(self.dropout(words), tokens, batch_first=True, enforce_sorted=False)
        states, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)  # (B, n + 2, 2 size)
        forwards, backwards = self.dropout(states).chunk(2, dim=-1)
        ends = torch.cat([forwards[:, :-1], -backwards[:, 1:]], dim=-1)  # (B, n + 1, 2 size) between two words each
        hidden = self.hidden(ends)  # the difference of two projections is the projection of the difference
        return self.score(self.norm(hidden[:, None] - hidden[:, :, None]).relu()).squeeze(-1)


class URNNGForCausalLM(RNNGForCausalLM):
    """An RNNG with an inference network, which reads the same embeddings."""

    config_class = URNNGConfig
    trained_batches: Tensor  # (), part of the weights, so that a resumed training goes on where it was

    def __init__(self, config: URNNGConfig):
        super().__init__(config)
        self.inference = InferenceNetwork(config)
        self.register_buffer("trained_batches", torch.zeros((), dtype=torch.long))
        self.post_init()

    def outputs(
        self, input_ids: Tensor, mask: Tensor, labels: Tensor | None, first_sibling: Tensor | None, items: Items
    ) -> CausalLMOutput:
        """In training, the loss is minus the lower bound; trees are looked at in `supervised_batches` alone. In
        evaluation, loss and logits are those of the RNNG with the most probable tree of q, another bound."""
        lengths = (mask.sum(1) - 2).tolist()  # words
        scores = self.inference(self.words(input_ids[:, : max(lengths) + 2]), lengths)
        if not self.training:
            best = viterbi_trees(scores, lengths)
            return super().outputs(input_ids, mask, labels, as_labels(best, input_ids), items)
        assert labels is not None, "training has labels"
        self.trained_batches += 1
        if self.trained_batches > self.config.supervised_batches or first_sibling is None:
            bound = self.lower_bound(input_ids, mask, labels, scores, lengths)
        else:
            bound = self.supervised(input_ids, mask, labels, scores, first_sibling)
        targets = labels.masked_fill(mask.cumsum(1) == 1, -100)
        return CausalLMOutput(loss=mean(-bound.sum(), targets, items))  # type: ignore[arg-type]

    def lower_bound(
        self, input_ids: Tensor, mask: Tensor, labels: Tensor, scores: Tensor, lengths: Sequence[int]
    ) -> Tensor:
        """(B,): an estimate of the evidence lower bound, whose gradient is an estimate of that of the bound."""
        K, chart = self.config.samples, inside(scores, lengths)
        drawn = sample(chart, lengths, K)
        log_q = tree_scores(scores, drawn) - chart.log_z[:, None]  # (B, K)
        trees = [siblings_of(n, spans) for n, row in zip(lengths, drawn, strict=True) for spans in row]
        ids, real, targets = (part.repeat_interleave(K, dim=0) for part in (input_ids, mask, labels))
        log_p = self.sentence_log_probs(ids, real, targets, as_labels(trees, ids)).unflatten(0, (-1, K))  # (B, K)
        others = (log_p.sum(1, keepdim=True) - log_p) / max(K - 1, 1)
        reward = (log_p - others).detach() * log_q
        return (log_p + reward - reward.detach()).mean(1) + chart.entropy

    def supervised(
        self, input_ids: Tensor, mask: Tensor, labels: Tensor, scores: Tensor, first_sibling: Tensor
    ) -> Tensor:
        """(B,): log p(x, z) + log q(z | x) of the given trees."""
        trees = [first_sibling[row][real].tolist() for row, real in enumerate(mask)]
        given = tree_scores(scores, [[spans_from(tree)] for tree in trees]).squeeze(1)
        log_q = given - inside(scores, [len(tree) - 2 for tree in trees]).log_z
        return self.sentence_log_probs(input_ids, mask, labels, first_sibling) + log_q


def tree_scores(scores: Tensor, trees: Sequence[Sequence[dict[Stretch, int]]]) -> Tensor:
    """(B, K): sums of the scores of the spans of K trees of each sentence."""
    index = [
        (row, k, start, start + width)
        for row, some in enumerate(trees)
        for k, spans in enumerate(some)
        for start, width in spans
    ]
    row, k, start, end = torch.tensor(index, dtype=torch.long, device=scores.device).reshape(-1, 4).unbind(1)
    table = scores.new_zeros(len(trees), len(trees[0]))
    return table.index_put((row, k), scores[row, start, end], accumulate=True)


def viterbi_trees(scores: Tensor, lengths: Sequence[int]) -> list[list[int]]:
    """First siblings of the best tree of each sentence."""
    splits = best_splits(scores)
    return [
        siblings_of(n, spans_of(n, lambda span, row=row: splits[span[1]][row][span[0]]))  # type: ignore[misc]
        for row, n in enumerate(lengths)
    ]


def as_labels(siblings: Sequence[Sequence[int]], like: Tensor) -> Tensor:
    """(B, T): first siblings as a batch has them."""
    return torch.tensor([[*row, *[-100] * (like.shape[1] - len(row))] for row in siblings], device=like.device)


@torch.inference_mode()
def urnng_trees(model: URNNGForCausalLM, sentences: Sequence[Sentence]) -> Iterator[Tree]:
    """The most probable tree of each sentence, after the inference network."""
    depths: dict[int, list[int]] = {}
    with evaluating(model):  # type: ignore[arg-type]  # only switches to evaluation
        for batch in batches([sentence.ids for sentence in sentences], None, BATCH_TOKENS, model.device):
            lengths = (batch.mask.sum(1) - 2).tolist()
            best = viterbi_trees(model.inference(model.words(batch.ids), lengths), lengths)
            depths.update(zip(batch.places, map(gold_depths, best), strict=True))
    for place, sentence in enumerate(sentences):
        yield tree_from_depths(sentence.of_words(depths[place]), sentence.words)


def urnng(settings: TrainSettings, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """A new URNNG: an RNNG of a SOM's size, and an inference network, which predicts no words."""
    size = settings.hidden_size
    sizes = {"hidden_size": size, "wide_size": wide_size(size), "inference_size": size // 2, **vocabulary(tokenizer)}
    batches = SUPERVISED if settings.start else 0
    return URNNGForCausalLM(URNNGConfig(**sizes, **dropouts(settings), supervised_batches=batches))
