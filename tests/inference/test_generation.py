"""Text that `generate` and the text-generation pipeline make: natural spaces, no unknown words, stop strings."""

import json

import pytest
import torch
from conftest import make_model as random_model
from transformers import AutoModelForCausalLM, pipeline

from modeling_som.sentences_som import encode
from modeling_som.tokenization_som import continuing_tokens, load_tokenizer, never_generated
from som.cli import main
from som.data.vocabularies import make_tokenizer
from som.inference import generation, parse
from som.inference.generation import generate
from som.inference.loading import SHIPPED
from som.training.models import make_model, vocabulary
from som.training.settings import make_settings

SENTENCES = [
    "the cat did n't see the dog .",
    "the dog 's bone , which the cat saw , is here .",
    '" go ! " the dog ( it barked ) said .',
]
CORPUS = [sentence.split() for sentence in [*SENTENCES, *SENTENCES, "a Whale sings 12 songs"]]
KINDS = ["word", "bpe:300"]


@pytest.fixture(params=KINDS)
def pair(request):
    """A random model, which generates whatever it may, set up as training does."""
    tokenizer = make_tokenizer(request.param, CORPUS)
    model = random_model(dtype=torch.float32, **vocabulary(tokenizer))
    model.generation_config = make_model(make_settings(hidden_size=8), tokenizer).generation_config
    return model, tokenizer


def sampled(model, tokenizer, prompt: str = "the cat", n: int = 40, **options) -> list[list[int]]:
    torch.manual_seed(0)
    ids = tokenizer(prompt, return_tensors="pt")
    rows = model.generate(**ids, do_sample=True, max_new_tokens=12, num_return_sequences=n, **options)
    return rows[:, ids.input_ids.shape[1] :].tolist()


def test_a_trained_model_never_generates_unknown_words_or_special_tokens_on_its_own(pair, tmp_path):
    model, tokenizer = pair
    assert model.generation_config.suppress_tokens == never_generated(tokenizer)
    model.save_pretrained(tmp_path)
    loaded = AutoModelForCausalLM.from_pretrained(tmp_path)
    for row in sampled(loaded, tokenizer, temperature=5.0):
        end = row.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in row else len(row)
        assert set(row[:end]).isdisjoint(never_generated(tokenizer))


def test_the_shipped_model_never_generates_unknown_words_on_its_own():
    config = json.loads((SHIPPED / "generation_config.json").read_text("utf-8"))
    assert config["suppress_tokens"] == never_generated(load_tokenizer(SHIPPED))


def test_the_pipeline_appends_new_text_to_the_prompt_as_the_whole_text_would_have_it(pair):
    model, tokenizer = pair
    pipe = pipeline("text-generation", model=model, tokenizer=tokenizer)
    options = {"max_new_tokens": 12, "do_sample": True, "num_return_sequences": 20}
    prompt, texts = "the cat", {}
    for full in (True, False):
        torch.manual_seed(0)
        texts[full] = [made["generated_text"] for made in pipe(prompt, return_full_text=full, **options)]
    torch.manual_seed(0)
    made = [row["generated_token_ids"] for row in pipe(prompt, return_tensors=True, **options)]
    assert texts[True] == [tokenizer.decode(ids, skip_special_tokens=True).removeprefix(" ") for ids in made]
    assert texts[True] == [prompt + text for text in texts[False]]
    assert {text[:1].isalnum() for text in texts[False]} == ({False} if hasattr(tokenizer, "known") else {False, True})


@pytest.mark.parametrize("stop", [".", "n't", "dog", "dog's", "the cat"])
def test_generation_stops_at_a_string_of_the_text(stop):
    tokenizer = make_tokenizer("word", CORPUS)
    model = random_model(dtype=torch.float32, **vocabulary(tokenizer))
    stopped = 0
    for seed in range(60):
        torch.manual_seed(seed)
        ids = tokenizer("here", return_tensors="pt")
        row = model.generate(
            **ids, do_sample=True, temperature=5.0, max_new_tokens=30, stop_strings=[stop], tokenizer=tokenizer,
            suppress_tokens=[*never_generated(tokenizer), tokenizer.eos_token_id],
        )[0].tolist()  # fmt: skip
        text = tokenizer.decode(row)
        assert stop not in tokenizer.decode(row[:-1]) and (stop in text or len(row) == ids.input_ids.shape[1] + 30)
        stopped += stop in text
    assert stopped


def test_made_up_texts_are_those_of_the_decoder():
    tokenizer = make_tokenizer("word", CORPUS)
    model = random_model(dtype=torch.float32, **vocabulary(tokenizer))
    for one in generate(model, tokenizer, "the cat", n=20, max_new_tokens=12):
        assert [one.text[start:end] for start, end in one.parse.offsets] == one.parse.words
        assert one.text == tokenizer.decode(encode(tokenizer, one.parse.words).ids[1:-1]).strip()


def test_words_that_were_given_stay_in_natural_text():
    tokenizer = make_tokenizer("word", CORPUS)
    model = random_model(dtype=torch.float32, **vocabulary(tokenizer))
    (made,) = generate(model, tokenizer, template="((the Walrus) (did n't (see the dog)) .)")
    assert made.text == "the Walrus didn't see the dog."


@pytest.mark.parametrize("options", [{}, {"max_depth": 3}])
def test_no_text_begins_with_a_piece_that_continues_a_word(pair, options, monkeypatch):
    model, tokenizer = pair
    drawn = []
    with_trees = generation.with_trees
    monkeypatch.setattr(
        generation,
        "with_trees",
        lambda model, sentences, made: drawn.extend(made) or with_trees(model, sentences, made),
    )
    generate(model, tokenizer, n=30, temperature=5.0, max_new_tokens=3, **options)
    first = {one.ids[1] for one in drawn}
    continuing = continuing_tokens(tokenizer)
    assert len(first) > 5 and not any(continuing[token] for token in first) and tokenizer.eos_token_id not in first
    assert hasattr(tokenizer, "known") or any(continuing[one.ids[2]] for one in drawn if len(one.ids) > 2)


def test_made_up_texts_have_the_labels_that_the_parser_gives_them(tmp_path, capsys):
    tokenizer = make_tokenizer("word", CORPUS)
    tags = ["partial", "head", "root", "det", "nsubj"]
    model = random_model(dtype=torch.float32, tree_tags=tags, **vocabulary(tokenizer))
    ended = [one for one in generate(model, tokenizer, "the cat", n=5) if len(one.parse.words) < 62]
    for one in ended:
        labels = parse(model, tokenizer, one.parse.words).labels
        assert (labels.leaf, labels.node, labels.heads) == (
            one.parse.labels.leaf,
            one.parse.labels.node,
            one.parse.heads,
        )
    assert ended
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert main(["generate", "--model", str(tmp_path), "-n", "2", "--format", "conllu", "the cat"]) == 0
    assert "# sent_id = 1-2\n" in capsys.readouterr().out


def test_the_command_prints_natural_text(tmp_path, capsys):
    tokenizer = make_tokenizer("word", CORPUS)
    random_model(dtype=torch.float32, **vocabulary(tokenizer)).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    template = "((the Walrus) (did n't (see the dog)) .)"
    assert main(["generate", "--model", str(tmp_path), "--template", template, "--format", "text"]) == 0
    assert capsys.readouterr().out == "the Walrus didn't see the dog.\n"
