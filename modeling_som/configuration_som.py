"""Configuration of Syntactic Ordered Memory (SOM)."""

from dataclasses import field, fields
from difflib import get_close_matches
from typing import Any

from huggingface_hub.dataclasses import strict
from transformers import GenerationConfig, PreTrainedConfig

ORACLES = ("dynamic", "dynamic_paper", "static", "left_branching")
NEXT_ATTACHMENTS = ("sampled", "oracle", "marginal")
# what the library reads from a configuration, or puts there, beyond its declared fields and properties
LIBRARY_KEYS = {
    *GenerationConfig().to_dict(),
    *("attn_implementation", "auto_map", "custom_pipelines", "experts_implementation", "finetuning_task"),
    *("per_layer_config", "quantization_config", "task_specific_params"),
}


@strict
class SOMConfig(PreTrainedConfig):
    r"""Sizes, dropout rates and training choices of a SOM: settings of the paper and named variants of them.

    Args:
        hidden_size: D, the size of a slot and of a word.
        syntactic_size: D_syn. Above 0 the model is the disentangled dSOM with D_sem = hidden_size - syntactic_size.
        num_slots: N, the deepest attachment is N - 1; about 15 for dependency trees, 30 for constituency trees.
        embedding_dropout: share of word types whose embedding is zeroed in a training step.
        dropout: rate before every linear map but the output layer; `output_dropout` before that one.
        oracle: what labels the decisions: `dynamic` (optimal), `dynamic_paper` (as printed), `static` (training
            follows the gold tree), `left_branching` (trivial trees).
        prediction_network: without it the word is predicted from the root candidate and there is no second parser.
        next_attachment: what the LM loss conditions on in training: a `sampled` guess of the second parser, the
            `oracle`'s label, or the `marginal` over the second parser's distribution.
        word_pieces: tokens are pieces of words (BPE). The model's buffer `continues` marks those that continue a word;
            they are attached to their word by rule, so that the word stays the unit of the tree.
        tree_tags: tags of nodes of the tree, such as relations; empty for a model without a classifier of them.
        tag_gradient: the loss of the tags also trains what they are read from, not only their classifier.
        marginal: in evaluation and generation, return the log of the mixture over the second parser's distribution.
        initializer_range: weights are drawn with standard deviation initializer_range / sqrt(inputs).
    """

    model_type = "som"
    keys_to_ignore_at_inference = [  # all but the logits, so that the Trainer's metrics get what they expect
        *("past_key_values", "lm_loss", "structure_loss", "tag_loss", "leaf_tag_logits", "node_tag_logits"),
        *("depths", "oracle_depths", "attach_logits", "next_attach_logits"),
    ]

    vocab_size: int = 50257
    hidden_size: int = 400
    syntactic_size: int = 0
    num_slots: int = 15
    embedding_dropout: float | int = 0.1
    dropout: float | int = 0.3
    output_dropout: float | int = 0.5
    oracle: str = "dynamic"
    prediction_network: bool = True
    next_attachment: str = "sampled"
    word_pieces: bool = False
    tree_tags: list[str] = field(default_factory=list)
    marginal: bool = False
    lm_loss_weight: float | int = 1.0
    structure_loss_weight: float | int = 1.0
    tag_loss_weight: float | int = 1.0
    tag_gradient: bool = True
    layer_norm_eps: float = 1e-5
    initializer_range: float | int = 1.0
    use_cache: bool = True
    tie_word_embeddings: bool = True
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    pad_token_id: int | None = None
    num_hidden_layers: int = 1  # for the library, which sizes caches by it; a SOM has one recurrent state

    def __post_init__(self, **kwargs: Any) -> None:
        """Refuses unknown keys: misspelt ones, and in a file those of a newer version, which may change what
        the weights mean. Those of the library and of its tools pass, as do private ones."""
        for key in kwargs:
            if not (key.startswith("_") or key in LIBRARY_KEYS or hasattr(PreTrainedConfig, key)):
                similar = get_close_matches(key, [one.name for one in fields(self)], n=1)
                hint = f"did you mean {similar[0]}?" if similar else "is it one of a newer version?"
                raise ValueError(f"unknown setting {key} of a SOM: {hint}")
        super().__post_init__(**kwargs)

    @property
    def layer_types(self) -> list[str]:
        """Tells the library that the cache is a recurrent state, not a list of keys and values."""
        return ["linear_attention"] * self.num_hidden_layers

    @property
    def semantic_size(self) -> int:
        return self.hidden_size - self.syntactic_size

    def validate_architecture(self) -> None:
        """Validates that the settings fit together."""
        if self.num_hidden_layers != 1:
            raise ValueError(f"num_hidden_layers must be 1, a SOM has no more layers, got {self.num_hidden_layers}")
        if self.num_slots < 1:
            raise ValueError(f"num_slots must be at least 1, got {self.num_slots}")
        if self.hidden_size < 1 or not 0 <= self.syntactic_size < self.hidden_size:
            raise ValueError(
                f"syntactic_size must be in 0…hidden_size - 1, got {self.syntactic_size} of {self.hidden_size}"
            )
        for name in ("embedding_dropout", "dropout", "output_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} must be in [0, 1), got {getattr(self, name)}")
        if len(set(self.tree_tags)) < len(self.tree_tags):
            raise ValueError("tree_tags must name every tag once")
        if self.oracle not in ORACLES:
            raise ValueError(f"oracle must be one of {', '.join(ORACLES)}, got {self.oracle!r}")
        if self.next_attachment not in NEXT_ATTACHMENTS:
            raise ValueError(
                f"next_attachment must be one of {', '.join(NEXT_ATTACHMENTS)}, got {self.next_attachment!r}"
            )
        if not self.prediction_network and (self.marginal or self.next_attachment != "sampled"):
            raise ValueError(
                "marginal and next_attachment choose among guesses of the prediction network, which is off"
            )


SOMConfig.register_for_auto_class()

__all__ = ["SOMConfig"]
