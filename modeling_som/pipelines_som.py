"""Pipelines that every checkpoint carries: they need transformers and torch, and nothing else.

    from transformers import pipeline

    parse = pipeline("parse", model=CHECKPOINT, trust_remote_code=True)
    parse("The dog barks.")["brackets"]
    surprisal = pipeline("surprisal", model=CHECKPOINT, trust_remote_code=True, method="beam")
    [[row["surprisal"] for row in rows] for rows in surprisal(["The dog barks.", "A cat sleeps."], batch_size=8)]

Input and output are those of all pipelines: a text gives a result, a list of texts a list of them, a generator or a
data set an iterator. A text is one sentence; a tuple of words is one too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from torch.utils.data import Dataset
from transformers import Pipeline

from .parses_som import parse_record, parse_sentences
from .scoring_som import Method
from .sentences_som import Sentence, encode
from .surprisal_som import read_words, with_end


def named_pipelines() -> dict[str, dict[str, Any]]:
    """What a checkpoint's configuration says of the pipelines, new each time: the library changes what it reads."""
    classes = {"parse": ParsePipeline, "surprisal": SurprisalPipeline}
    return {
        task: {"impl": f"pipelines_som.{one.__name__}", "pt": ["AutoModelForCausalLM"]}
        for task, one in classes.items()
    }


def has_no_rows(inputs: Any) -> bool:
    """Whether there is nothing to read; a streaming data set has no length to tell."""
    return hasattr(inputs, "__len__") and not len(inputs)


class SentencePipeline(Pipeline):
    """Reads sentences by a method: `method`, `k`, `seed` and `words` are those of `som.parse`."""

    model: Any  # a SOM, of which there may be two classes where it was loaded as remote code
    tokenizer: Any
    text_options: tuple[str, ...] = ("words",)
    reading_options = ("method", "k", "seed")
    _load_tokenizer: Any = True
    _load_processor: Any = False
    _load_image_processor: Any = False
    _load_video_processor: Any = False
    _load_feature_extractor: Any = False

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        # the library has put classes in place of their names, with which the configuration cannot be written
        self.model.config.custom_pipelines = named_pipelines()

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """As every pipeline, which looks at the first of several inputs, and so needs one."""
        if isinstance(inputs, list | tuple | Dataset) and has_no_rows(inputs):
            if isinstance(inputs, tuple):
                raise ValueError("the text is empty, expected at least one word")
            return [] if isinstance(inputs, list) else iter(())
        return super().__call__(inputs, *args, **kwargs)

    def _sanitize_parameters(self, **options: Any) -> tuple[dict, dict, dict]:
        """Options of the text, of the reading, and of the result, of which there are none."""
        known = (*self.text_options, *self.reading_options)
        if unknown := [name for name in options if name not in known]:
            raise ValueError(f"unknown option {unknown[0]}: the pipeline has {', '.join(known)}")
        of_text, of_reading = (
            {name: options[name] for name in names if name in options}
            for names in (self.text_options, self.reading_options)
        )
        return of_text, of_reading, {}

    def preprocess(self, input_: Any, **options: Any) -> dict[str, Any]:
        if isinstance(input_, Mapping) or not hasattr(input_, "__iter__"):
            raise ValueError(f"expected a text or a tuple of words, got {input_!r}"[:200])
        return {"sentences": encode(self.tokenizer, input_, **options)}

    def _forward(self, input_tensors: dict[str, Any], **options: Any) -> Any:
        """Reads a sentence, or a list of them if there is a batch size."""
        given = input_tensors["sentences"]
        single = isinstance(given, Sentence)
        found = list(self.read([given] if single else given, Method.of(self.model, **{"method": None, **options})))
        return {"found": found[0] if single else found}

    def postprocess(self, model_outputs: Any, **options: Any) -> Any:
        return model_outputs["found"]

    @abstractmethod
    def read(self, sentences: Sequence[Sentence], method: Method) -> Iterator[Any]:
        """The result of each sentence, plain data."""


class ParsePipeline(SentencePipeline):
    """The tree of a sentence: words, offsets, depths, brackets, log-probability; heads and relations, or None."""

    def read(self, sentences: Sequence[Sentence], method: Method) -> Iterator[dict[str, Any]]:
        for sentence, tree in parse_sentences(self.model, sentences, method, len(sentences)):
            depths = sentence.of_words(tree.depths)
            yield parse_record(sentence.words, sentence.offsets, depths, tree.log_prob, tree.labels)


class SurprisalPipeline(SentencePipeline):
    """A record of every word: surprisal with its parts, entropies, what the word does to the tree.

    `eos` adds the end of the sentence."""

    text_options = ("words", "eos")

    def preprocess(self, input_: Any, **options: Any) -> dict[str, Any]:
        inputs = super().preprocess(input_, **{"eos": False, **options})
        sentence, eos = inputs["sentences"], options.get("eos")
        return {"sentences": with_end(sentence, self.tokenizer.eos_token)} if eos else inputs

    def read(self, sentences: Sequence[Sentence], method: Method) -> Iterator[list[dict[str, Any]]]:
        for rows, _ in read_words(self.model, self.tokenizer, sentences, method, len(sentences)):
            records = [asdict(row) for row in rows]
            yield [{name: value for name, value in one.items() if name != "parses"} for one in records]
