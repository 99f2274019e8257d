"""The dense SOM: the recurrence and the prediction network written out, every slot of every step, row by row.

It shares nothing with the model but its weights. Slow and obvious; the model is proved against it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from som.syntax.oracle import gold_depths, left_branching_siblings, oracle_labels

LIVE_NOWHERE = -torch.inf


def segments(config, x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., : config.semantic_size], x[..., config.semantic_size :]


def norm(config, module, x: Tensor) -> Tensor:
    parts = [(module.semantic, segments(config, x)[0])]
    if config.syntactic_size:
        parts.append((module.syntactic, segments(config, x)[1]))
    return torch.cat([F.layer_norm(p, p.shape[-1:], m.weight, m.bias, m.eps) for m, p in parts], dim=-1)


def cell(config, module, a: Tensor, b: Tensor) -> Tensor:
    """[f, i, c, u] = W2 ReLU(W1 [a; b] + b1) + b2;  LN(σ(f)⊙a + σ(i)⊙b + σ(c)⊙u)."""
    (a_sem, a_syn), (b_sem, b_syn) = segments(config, a), segments(config, b)
    hidden, gates = module.hidden, module.gates
    h_sem = (hidden.semantic.weight @ torch.cat([a_sem, b_sem, a_syn, b_syn]) + hidden.semantic.bias).relu()
    h_syn = a.new_zeros(0)
    if config.syntactic_size:
        h_syn = (hidden.syntactic.weight @ torch.cat([a_syn, b_syn]) + hidden.syntactic.bias).relu()
    y = (gates.semantic.weight @ torch.cat([h_sem, h_syn]) + gates.semantic.bias).view(4, -1)
    if config.syntactic_size:
        syn = gates.syntactic.weight @ h_syn + gates.syntactic.bias
        y = torch.cat([y, syn.view(4, -1)], dim=1)
    f, i, c, u = y
    return norm(config, module.norm, f.sigmoid() * a + i.sigmoid() * b + c.sigmoid() * u)


def parser_input(config, x: Tensor) -> Tensor:
    semantic, syntactic = segments(config, x)
    return torch.cat([semantic.detach(), syntactic]) if config.syntactic_size else x


def attach_scores(model, x: Tensor, candidates: list[Tensor], depth: int) -> Tensor:
    """α_e = w·ReLU(LN(W_q x) + LN(W_k C[e])) / √D for 0 ≤ e ≤ min(d, N − 1), -inf elsewhere."""
    config, parser = model.config, model.model.parser
    scores = []
    for e in range(config.num_slots):
        q = parser.query_norm(parser.query.weight @ parser_input(config, x))
        k = parser.key_norm(parser.key.weight @ parser_input(config, candidates[e]))
        scores.append(parser.score.weight[0] @ (q + k).relu() / config.hidden_size**0.5)
    return torch.stack([s if e <= depth else torch.full_like(s, LIVE_NOWHERE) for e, s in enumerate(scores)])


def next_attach_scores(model, candidates: list[Tensor], depth: int) -> Tensor:
    config, parser = model.config, model.model.next_parser
    scores = []
    for e in range(config.num_slots):
        hidden = (parser.project.weight @ parser_input(config, candidates[e]) + parser.project.bias).relu()
        scores.append(parser.score.weight[0] @ hidden / config.hidden_size**0.5)
    return torch.stack([s if e <= depth else torch.full_like(s, LIVE_NOWHERE) for e, s in enumerate(scores)])


def predicted_state(model, memory: list[Tensor], candidates: list[Tensor], guess: int) -> Tensor:
    """The second cell, from the root down over M[0], …, M[e' − 1], C[e'], starting from zero."""
    state = torch.zeros_like(memory[0])
    for e in range(guess):
        state = cell(model.config, model.model.predict_cell, state, memory[e])
    return cell(model.config, model.model.predict_cell, state, candidates[guess])


def read(model, ids: list[int], decide) -> dict:
    """Reads one sentence; `decide(t, attach_scores)` chooses the attachment of token t ≥ 1."""
    config, N = model.config, model.config.num_slots
    zero = model.model.embed_tokens.weight.new_zeros(config.hidden_size)
    memory, candidates, word_depth = [zero] * N, [zero] * N, -1
    fields = ("depths", "word_depths", "attach", "next_attach", "memory", "candidates")
    trace: dict[str, list] = {field: [] for field in fields}
    for t, word in enumerate(ids):
        x = norm(config, model.model.norm, model.model.embed_tokens.weight[word])
        inside = t > 0 and continues(model, word)
        if t == 0:
            trace["attach"].append(torch.full((N,), LIVE_NOWHERE, dtype=x.dtype))
            depth = 0
        else:
            scores = attach_scores(model, x, candidates, word_depth)
            e = min(word_depth, N - 1) if inside else decide(t, scores)
            trace["attach"].append(certainly(e, scores) if inside else scores)
            memory = memory[:e] + [candidates[e]] + memory[e + 1 :]
            depth = e + 1
        word_depth = depth - inside
        below, candidates = x, list(candidates)
        if depth < N:
            candidates[depth] = x
        for e in reversed(range(depth)):
            below = candidates[e] = cell(config, model.model.cell, memory[e], below)
        trace["depths"].append(depth)
        trace["word_depths"].append(word_depth)
        trace["memory"].append(memory)
        trace["candidates"].append(candidates)
        if config.prediction_network:
            trace["next_attach"].append(next_attach_scores(model, candidates, word_depth))
    return trace


def continues(model, token: int) -> bool:
    """Whether a token is a piece that continues a word: it is then attached to that word, whatever p says."""
    return model.config.word_pieces and bool(model.model.continues[token])


def certainly(e: int, scores: Tensor) -> Tensor:
    """Scores that leave no choice but e."""
    return torch.full_like(scores, LIVE_NOWHERE).index_fill(0, torch.tensor(e), 0.0)


def word_logits(model, trace: dict, t: int, guess: int | None) -> Tensor:
    """(V,): after one guess, or the log of the mixture over p' if `guess` is None."""
    config, memory, candidates = model.config, trace["memory"][t], trace["candidates"][t]
    if not config.prediction_network:
        return model.lm_head.weight @ candidates[0] + model.lm_head.bias
    if guess is not None:
        return model.lm_head.weight @ predicted_state(model, memory, candidates, guess) + model.lm_head.bias
    log_prior = trace["next_attach"][t].log_softmax(0)
    live = range(min(trace["word_depths"][t], config.num_slots - 1) + 1)
    branches = [word_logits(model, trace, t, e).log_softmax(0) + log_prior[e] for e in live]
    return torch.stack(branches).logsumexp(0)


def labels_of(model, first_sibling: list[int], depths: list[int]) -> list[int]:
    oracle = model.config.oracle
    oracle = "dynamic" if oracle == "static" else oracle  # the same on the gold path, and right off it
    return oracle_labels(oracle, first_sibling, depths, model.config.num_slots)


def gold(model, first_sibling: list[int]) -> list[int]:
    if model.config.oracle == "left_branching":
        first_sibling = left_branching_siblings(len(first_sibling))
    return gold_depths(first_sibling, model.config.num_slots)


def forward(model, ids: list[int], first_sibling: list[int], decide, guesses: list[int | None]) -> dict:
    """Logits, p, p', depths, oracle's labels and the summed losses of one sentence."""
    trace = read(model, ids, decide)
    logits = torch.stack([word_logits(model, trace, t, guess) for t, guess in enumerate(guesses)])
    labels = labels_of(model, first_sibling, trace["depths"])
    labels = [-100 if t and continues(model, ids[t]) else label for t, label in enumerate(labels)]
    decided = [t for t in range(1, len(ids)) if labels[t] != -100]
    lm = F.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="sum")
    structure = sum(-trace["attach"][t].log_softmax(0)[labels[t] - 1] for t in decided)
    if model.config.prediction_network:
        structure += sum(-trace["next_attach"][t - 1].log_softmax(0)[labels[t] - 1] for t in decided)
    return {
        "logits": logits,
        "depths": trace["depths"],
        "oracle_depths": labels,
        "attach_logits": torch.stack(trace["attach"]),
        "next_attach_logits": torch.stack(trace["next_attach"]) if trace["next_attach"] else None,
        "lm": lm,
        "structure": structure,
        "words": len(ids) - 1,
        "decisions": len(decided),
    }


def tag_logits(model, trace: dict, ids: list[int]) -> dict[tuple[str, int], Tensor]:
    """Scores of the tags of every leaf and inner node of the tree that was built, by kind and token.

    Node i joins a left sister and what begins with token i; the vector of a subtree is the candidate at its depth when
    its last token was read."""
    depths, found = trace["depths"], {}
    words = [t for t in range(len(ids)) if not (t and continues(model, ids[t]))]
    for i in (t for t in words if t >= 2):
        depth = max(depths[i], 2)
        end = next((m for m in words if m > i and depths[m] <= depths[i]), len(ids))
        start = max(t for t in words if t < i and depths[t] < depth)
        left, right = (
            max((t for t in words if first < t < stop and depths[t] == at), default=-1)
            for first, stop, at in ((start, i, depth), (i, end, depths[i] + 1))
        )
        last = end - 1 if depths[i] >= 2 else i  # EOS closes the words' tree and has no node of its own
        places = ((i - 1, depth - 1), (last, depths[i]), (last, depths[i] - 1))
        a, b, parent = (subtree(model, trace, ids, *place) for place in places)
        found["leaf" if left < 0 else "node", start if left < 0 else left] = score_tags(model, a, b, parent, 0)
        if depths[i] >= 2:
            found["leaf" if right < 0 else "node", i if right < 0 else right] = score_tags(model, b, a, parent, 1)
    return found


def subtree(model, trace: dict, ids: list[int], t: int, depth: int) -> Tensor:
    """The subtree at a depth that ends with token t; a leaf at the last depth has no slot."""
    if depth < model.config.num_slots:
        return trace["candidates"][t][depth]
    return norm(model.config, model.model.norm, model.model.embed_tokens.weight[ids[t]])


def score_tags(model, child: Tensor, sister: Tensor, parent: Tensor, side: int) -> Tensor:
    """W2 ReLU(W1 [x; sister; parent] + the side's vector)."""
    config, tagger = model.config, model.model.tagger
    parts = [segments(config, x)[1] if config.syntactic_size else x for x in (child, sister, parent)]
    parts = parts if config.tag_gradient else [part.detach() for part in parts]
    hidden = tagger.hidden.weight @ torch.cat(parts) + tagger.hidden.bias + tagger.side.weight[side]
    return tagger.score.weight @ hidden.relu() + tagger.score.bias


def gold_nodes(first_sibling: list[int], inside: list[bool]) -> dict[int, tuple[int, int]]:
    """What every inner node of the gold tree spans."""
    depths = gold_depths(first_sibling)
    nodes = {}
    for i in range(2, len(depths)):
        if depths[i] >= 2 and not inside[i]:
            end = next(m for m in range(i + 1, len(depths)) if depths[m] <= depths[i])
            nodes[i] = (first_sibling[i], end)
    return nodes
