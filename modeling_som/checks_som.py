"""Validates the inputs of a model before any computation, and says in one line what is wrong with them."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from .configuration_som import SOMConfig
from .layout_som import on_host
from .sentences_som import NONE
from .state_som import SOMCache, SOMState


def validate_tags(
    config: SOMConfig,
    leaf_tag: Tensor | None,
    node_tag: Tensor | None,
    output_tags: bool,
    first_sibling: Tensor | None,
    state: SOMState | None,
) -> bool:
    """Whether tags are asked for; validates how, but not the labels themselves."""
    tags = {"leaf_tag": leaf_tag, "node_tag": node_tag}
    given = [tag is not None for tag in tags.values()]
    if not any(given) and not output_tags:
        return False
    if not config.tree_tags:
        raise ValueError("this model has no tags: its configuration's tree_tags are empty")
    if any(given) and not (all(given) and first_sibling is not None):
        raise ValueError("leaf_tag, node_tag and first_sibling label a tree together: expected all or none")
    if state is not None:
        raise ValueError("tags are of whole sentences and cannot be combined with past_key_values")
    for name, tag in tags.items():
        if tag is not None and first_sibling is not None and tag.shape != first_sibling.shape:
            raise ValueError(f"{name} must have the shape {tuple(first_sibling.shape)}, got {tuple(tag.shape)}")
    return True


def validate_tokens(config: SOMConfig, input_ids: Tensor | None, inputs_embeds: Tensor | None) -> tuple[int, int]:
    """The batch size and the number of tokens, B and T."""
    exporting = torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
    if exporting or torch.jit.is_tracing():
        raise NotImplementedError("a SOM cannot be exported: the tree decides what is computed")
    tokens = inputs_embeds if input_ids is None else input_ids
    if tokens is None or (input_ids is not None and inputs_embeds is not None):
        raise ValueError("exactly one of input_ids and inputs_embeds must be given")
    if tokens.ndim != (3 if input_ids is None else 2) or tokens.numel() == 0:
        raise ValueError(f"the input must be (batch, tokens) with at least one token, got {tuple(tokens.shape)}")
    if input_ids is None and tokens.shape[2] != config.hidden_size:
        raise ValueError(f"inputs_embeds must end in hidden_size {config.hidden_size}, got {tokens.shape[2]}")
    if input_ids is None and config.word_pieces:
        raise ValueError("a model of word pieces needs input_ids, which tell where words begin")
    return tokens.shape[0], tokens.shape[1]


def validate_cache(past_key_values: SOMCache | None, B: int, first_sibling: Tensor | None) -> SOMState | None:
    """The state that the input continues."""
    if past_key_values is not None and not isinstance(past_key_values, SOMCache):
        raise ValueError(f"past_key_values must be a SOMCache, got a {type(past_key_values).__name__}")
    state = None if past_key_values is None else past_key_values.state
    if state is not None and len(state.depth) != B:
        raise ValueError(f"past_key_values hold {len(state.depth)} sequences, the input has {B}")
    if state is not None and first_sibling is not None:
        raise ValueError("first_sibling labels whole sentences and cannot be combined with past_key_values")
    return state


def validate_inputs(
    config: SOMConfig,
    input_ids: Tensor | None,
    inputs_embeds: Tensor | None,
    attention_mask: Tensor | None,
    past_key_values: SOMCache | None,
    position_ids: Tensor | None,
    labels: Mapping[str, Tensor | None],
    continues: Tensor | None,
    training: bool,
) -> dict[str, Tensor]:
    """Returns what is known of the tokens, numbers (B, T) on the CPU: the inputs and labels that were given; `mask`,
    if some tokens are masked; `inside`, which tokens continue a word, if `continues` (V,) tells it of the vocabulary;
    `before`, how deep the state is."""
    B, T = validate_tokens(config, input_ids, inputs_embeds)
    for name, tensor in labels.items():
        if tensor is not None and tensor.shape != (B, T):
            raise ValueError(f"{name} must have the tokens' shape {(B, T)}, got {tuple(tensor.shape)}")
    if position_ids is not None and position_ids.shape not in ((B, T), (1, T), (T,)):
        raise ValueError(f"position_ids must have the tokens' shape {(B, T)}, got {tuple(position_ids.shape)}")
    if attention_mask is not None and (attention_mask.shape[:-1] != (B,) or attention_mask.shape[-1] < T):
        raise ValueError(f"attention_mask must cover the tokens' {(B, T)}, got {tuple(attention_mask.shape)}")
    state = validate_cache(past_key_values, B, labels["first_sibling"])
    mask = None if attention_mask is None else attention_mask[:, -T:].bool()
    positions = None if position_ids is None else position_ids.expand(B, T)
    known = {"input_ids": input_ids, "mask": mask, "positions": positions, **labels}
    if continues is not None and input_ids is not None:
        known["inside"] = continues[input_ids.clamp(0, config.vocab_size - 1)]
    host = on_host({**known, "before": None if state is None else state.depth[:, None].expand(B, T)})
    return validate_numbers(config, host, training)


def validate_numbers(config: SOMConfig, host: dict[str, Tensor], training: bool) -> dict[str, Tensor]:
    """The checks that look at numbers."""
    mask, inside, before = (host.get(name) for name in ("mask", "inside", "before"))
    before = None if before is None else before[:, 0]
    if mask is not None:
        mask = None if mask.all() else mask.bool()
        host = {name: numbers for name, numbers in host.items() if name != "mask"}
        host |= {} if mask is None else {"mask": mask}
    if inside is not None:  # the first token of a row continues no word
        begins = (torch.ones_like(inside) if mask is None else mask).cumsum(1) == 1
        begins = begins if before is None else begins & (before < 0)[:, None]
        host["inside"] = inside.bool() & ~begins
    rules = broken_rules(config, host, mask, before, training)
    broken = torch.stack([wrong.any() for wrong in rules.values()]).tolist() if rules else []
    for (rule, wrong), found in zip(rules.items(), broken, strict=True):
        if found:
            raise ValueError(f"{rule}: not so in {first_place(wrong)}")
    return host


def broken_rules(
    config: SOMConfig, host: Mapping[str, Tensor], mask: Tensor | None, before: Tensor | None, training: bool
) -> dict[str, Tensor]:
    """The rules that numbers must keep, and where they do not (B, T)."""
    names = ("input_ids", "positions", "first_sibling", "depths", "inside")
    input_ids, positions, first_sibling, depths, inside = (host.get(name) for name in names)
    rules = {}
    if input_ids is not None:
        rules[f"input_ids must be in 0…{config.vocab_size - 1}"] = (input_ids < 0) | (input_ids >= config.vocab_size)
    if first_sibling is not None:
        must_label = training and depths is None and config.oracle == "static"
        rule = "first_sibling must point at an earlier token of its row (-1 at the first token"
        rule += " and, for the static oracle, no -100)" if must_label else ", -100 for no label)"
        rules[rule] = wrong_siblings(first_sibling, mask) & (must_label | (first_sibling != NONE))
    if depths is not None:
        rule = f"depths must start at 0 and then be in 1…min(depth before + 1, {config.num_slots})"
        rules[rule] = unreachable(depths, mask, before, config.num_slots, inside)
    for name in host.keys() & {"leaf_tag", "node_tag"}:
        rules[f"{name} must be in 0…{len(config.tree_tags) - 1}, or -100 for none"] = outside(
            host[name], len(config.tree_tags)
        )
    if positions is not None:
        rule = "position_ids must increase along a row, since a row is one sentence (packed sentences need rows)"
        rules[rule] = restarts(positions, mask, before)
    return rules


def validate_labels(config: SOMConfig, labels: Tensor, tokens: Tensor | None) -> None:
    """Validates the labels of words."""
    shape = labels.shape if tokens is None else tokens.shape[:2]
    if labels.shape != shape:
        raise ValueError(f"labels must have the tokens' shape {tuple(shape)}, got {tuple(labels.shape)}")
    wrong = outside(labels.cpu(), config.vocab_size)
    if wrong.any():
        rule = f"labels must be in 0…{config.vocab_size - 1}, or -100 for none"
        raise ValueError(f"{rule}: not so in {first_place(wrong)}")


def outside(labels: Tensor, size: int) -> Tensor:
    """(B, T): where a label is neither in 0…size - 1 nor -100."""
    return (labels != NONE) & ((labels < 0) | (labels >= size))


def first_place(wrong: Tensor) -> str:
    """Where the first of some mistakes (B, T) is."""
    row, column = wrong.nonzero()[0].tolist()
    return f"row {row}, column {column}"


def wrong_siblings(first_sibling: Tensor, mask: Tensor | None) -> Tensor:
    """(B, T): where a real token's label does not point at an earlier token of its row."""
    real = torch.ones_like(first_sibling, dtype=torch.bool) if mask is None else mask.to(first_sibling.device)
    column = real.cumsum(1) - 1
    return real & torch.where(column == 0, first_sibling != -1, (first_sibling < 0) | (first_sibling >= column))


def unreachable(
    depths: Tensor, mask: Tensor | None, state_depth: Tensor | None, num_slots: int, inside: Tensor | None = None
) -> Tensor:
    """(B, T): where a real token's depth cannot follow the depth of the word before it."""
    inside = torch.zeros_like(depths, dtype=torch.bool) if inside is None else inside.to(depths.device)
    B, T = depths.shape
    real = torch.ones_like(depths, dtype=torch.bool) if mask is None else mask.to(depths.device)
    before = depths.new_full((B, 1), -1) if state_depth is None else state_depth[:, None].to(depths.device)
    taken = torch.cat([before, depths - inside.long()], dim=1)
    columns = torch.arange(1, T + 1, device=depths.device)
    last = torch.where(real, columns, 0).cummax(1).values  # column of `taken` with the last real token up to here
    last = F.pad(last[:, :-1], (1, 0))
    before = taken.gather(1, last)
    deepest = (before + 1).clamp(max=num_slots)
    lowest = torch.where(inside, deepest, torch.where(before < 0, 0, 1))
    return real & ((depths < lowest) | (depths > deepest))


def restarts(positions: Tensor, mask: Tensor | None, state_depth: Tensor | None) -> Tensor:
    """(B, T): where a real token's position is not after those before it; one of position 0 follows nothing."""
    real = torch.ones_like(positions, dtype=torch.bool) if mask is None else mask.to(positions.device)
    begun = positions.new_full((len(positions),), -1) if state_depth is None else state_depth.to(positions)
    before = torch.cat([begun[:, None].clamp(max=0), torch.where(real, positions, -1)], dim=1)
    before = before.cummax(1).values[:, :-1]  # the largest position so far
    return real & (positions <= before)
