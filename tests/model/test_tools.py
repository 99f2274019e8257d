"""Other people's tools on a saved checkpoint: without options, their numbers are those of `som surprisal`.

BOS is counted once as context, the first word is scored, and EOS is scored only where a tool is asked for it.
"""

import json
import math
import os
import subprocess
import sys
from itertools import pairwise
from xml.etree import ElementTree

import nltk
import pytest
import svgling
import torch

import som
from modeling_som.sentences_som import encode
from som.cli import main

TEXTS = ["the old dog sees a Whale.", "Fido", "the cat sleeps", "a dog and a dog and a cat see the old zebra 's cat"]
CLOSE = {"abs": 1e-4, "rel": 0}


@pytest.fixture
def pair(checkpoint):
    return som.load(checkpoint)


@pytest.fixture
def printed(checkpoint, capsys) -> list[list[dict]]:
    """What `som surprisal` says of each text: its words."""
    assert main(["surprisal", "--model", checkpoint, "--format", "json", *TEXTS]) == 0
    return [result["words"] for result in json.loads(capsys.readouterr().out)]


def by_word(tokenizer, text: str, numbers: list[float]) -> list[float]:
    """Sums over the pieces of each word, of numbers that go with the tokens after BOS."""
    sentence = encode(tokenizer, text, eos=False)
    return [sum(numbers[start - 1 : end - 1]) for start, end in pairwise([*sentence.starts, len(sentence.ids)])]


# minicons


def test_minicons_has_the_same_surprisals(checkpoint, pair, printed):
    scorer = pytest.importorskip("minicons.scorer", reason="minicons is not installed: pip install 'som-lm[tools]'")
    incremental = scorer.IncrementalLMScorer(checkpoint, "cpu")
    by_token = incremental.token_score(TEXTS, surprisal=True, base_two=True)  # a batch of several lengths
    for text, tokens, words in zip(TEXTS, by_token, printed, strict=True):
        assert tokens[0] == (pair[1].bos_token, 0)
        ours = [word["surprisal"] for word in words]
        assert by_word(pair[1], text, [bits for _, bits in tokens[1:]]) == pytest.approx(ours, **CLOSE)
    split = [" ".join(word["word"] for word in words) for words in printed]
    by_words = incremental.word_score_tokenized(split, str.split, surprisal=True, base_two=True)
    ours = [(word["word"], pytest.approx(word["surprisal"], **CLOSE)) for words in printed for word in words]
    assert [word for words in by_words for word in words] == ours


def test_minicons_has_the_same_likelihoods_with_and_without_the_end(checkpoint, pair):
    scorer = pytest.importorskip("minicons.scorer", reason="minicons is not installed: pip install 'som-lm[tools]'")
    incremental = scorer.IncrementalLMScorer(checkpoint, "cpu")
    for eos in (False, True):
        ours = [som.log_likelihood(*pair, text, eos=eos) for text in TEXTS]
        theirs = incremental.sequence_score(TEXTS, reduction=lambda tokens: tokens.sum().item(), eos_token=eos)
        assert theirs == pytest.approx(ours, **CLOSE)


ELSEWHERE = """
import json, sys
from minicons.scorer import IncrementalLMScorer
scorer = IncrementalLMScorer({path!r}, "cpu", tokenizer={path!r}, trust_remote_code=True)
print(json.dumps(scorer.sequence_score({texts!r}, reduction=lambda tokens: tokens.sum().item())))
assert "som" not in sys.modules
"""


def test_minicons_needs_no_package_if_it_may_run_the_checkpoint_s_code(checkpoint, pair, tmp_path):
    pytest.importorskip("minicons", reason="minicons is not installed: pip install 'som-lm[tools]'")
    environment = {**os.environ, "HF_MODULES_CACHE": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-c", ELSEWHERE.format(path=checkpoint, texts=TEXTS)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours = [som.log_likelihood(*pair, text, eos=False) for text in TEXTS]
    assert json.loads(done.stdout.splitlines()[-1]) == pytest.approx(ours, **CLOSE)


# lm-evaluation-harness


@pytest.fixture
def harness(checkpoint):
    """Its `hf` model, and a function that makes requests."""
    huggingface = pytest.importorskip(
        "lm_eval.models.huggingface", reason="lm-eval is not installed: pip install 'som-lm[tools]'"
    )
    from lm_eval.api.instance import Instance

    model = huggingface.HFLM(pretrained=checkpoint, device="cpu", trust_remote_code=True, batch_size=3)
    return model, lambda kind, *texts: Instance(request_type=kind, doc={}, arguments=texts, idx=0)


def test_the_harness_has_the_same_likelihoods(harness, pair):
    model, request = harness
    theirs = model.loglikelihood([request("loglikelihood", "", text) for text in TEXTS], disable_tqdm=True)
    ours = [som.log_likelihood(*pair, text, eos=False) for text in TEXTS]
    assert [log_prob for log_prob, _ in theirs] == pytest.approx(ours, **CLOSE)


def test_the_harness_has_the_same_likelihoods_of_continuations(harness, pair):
    model, request = harness
    (start, rest) = "the old dog", " sees a Whale."
    ((theirs, _),) = model.loglikelihood([request("loglikelihood", start, rest)], disable_tqdm=True)
    ours = som.log_likelihood(*pair, start + rest, eos=False) - som.log_likelihood(*pair, start, eos=False)
    assert theirs == pytest.approx(ours, **CLOSE)


# evaluate's perplexity


def perplexities(pair) -> list[float]:
    """With BOS in front and without EOS, as the metric counts by default."""
    words = [encode(pair[1], text, eos=False).ids[1:] for text in TEXTS]
    log_probs = [som.log_likelihood(*pair, text, eos=False) for text in TEXTS]
    return [math.exp(-log_prob / len(ids)) for log_prob, ids in zip(log_probs, words, strict=True)]


@pytest.mark.parametrize("side", ["right", "left"])
@torch.no_grad()
def test_the_calls_of_the_perplexity_metric_give_the_same(pair, side):
    # it pads the texts without BOS, on the tokenizer's side, then puts a column of BOS in front
    model, tokenizer = pair
    padded = tokenizer(TEXTS, add_special_tokens=False, padding=True, padding_side=side, return_tensors="pt")
    ids = torch.cat([torch.full((len(TEXTS), 1), tokenizer.bos_token_id), padded.input_ids], dim=1)
    mask = torch.cat([torch.ones(len(TEXTS), 1, dtype=torch.long), padded.attention_mask], dim=1)
    logits = model(ids, attention_mask=mask).logits[:, :-1].transpose(1, 2)
    nats = torch.nn.functional.cross_entropy(logits, ids[:, 1:], reduction="none") * mask[:, 1:]
    assert (nats.sum(1) / mask[:, 1:].sum(1)).exp().tolist() == pytest.approx(perplexities(pair), rel=1e-4)


def test_the_perplexity_metric_gives_the_same_text_by_text(checkpoint, pair):
    import evaluate

    try:
        metric = evaluate.load("perplexity", module_type="metric")
    except Exception as error:
        pytest.skip(f"evaluate's perplexity is a script of the Hub, which could not be downloaded: {error}")
    theirs = [metric.compute(model_id=checkpoint, predictions=[text], device="cpu") for text in TEXTS]
    assert [result["mean_perplexity"] for result in theirs] == pytest.approx(perplexities(pair), rel=1e-4)


# adapters and quantization

ADAPTERS: dict[str, dict] = {
    "all linear maps": {"target_modules": "all-linear"},
    "embedding and output layer": {"target_modules": ["embed_tokens", "lm_head"]},
    "whole layers": {"target_modules": ["query", "key"], "modules_to_save": ["embed_tokens", "lm_head"]},
}


@pytest.mark.parametrize("settings", ADAPTERS.values(), ids=ADAPTERS)
def test_peft_adapters_start_as_the_model_and_learn(pair, settings):
    peft = pytest.importorskip("peft", reason="peft is not installed: pip install 'som-lm[tools]'")
    model, tokenizer = pair
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
    before = model(**batch, labels=labels)
    adapted = peft.get_peft_model(model, peft.LoraConfig(task_type="CAUSAL_LM", **settings)).eval()
    torch.testing.assert_close(adapted(**batch).logits, before.logits)
    learning = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.SGD(learning, lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        adapted(**batch, labels=labels).loss.backward()
        optimizer.step()
    with torch.no_grad():
        assert adapted(**batch, labels=labels).loss < before.loss - 0.01
        adapted.generate(**batch, max_new_tokens=3)


@torch.no_grad()
def test_torchao_quantizes_every_linear_map(pair, monkeypatch):
    quantization = pytest.importorskip("torchao.quantization", reason="torchao is not installed")
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    model, tokenizer = pair
    batch = tokenizer(TEXTS[:1], return_tensors="pt")
    exact = model(**batch).logits
    quantization.quantize_(model, quantization.Int8WeightOnlyConfig())
    layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    assert all(type(layer.weight) not in (torch.Tensor, torch.nn.Parameter) for layer in layers)
    torch.testing.assert_close(model(**batch).logits, exact, atol=0.5, rtol=0)
    model.generate(**batch, max_new_tokens=3)


# trees


@pytest.fixture
def trees(checkpoint, tmp_path):
    """Runs `som parse` and returns the file that it wrote."""

    def write(form: str, *texts: str):
        file = tmp_path / form
        assert main(["parse", "--model", checkpoint, "--format", form, "--out", str(file), *texts]) == 0
        return file

    return write


def test_nltk_reads_and_svgling_draws_printed_trees(trees, pair):
    lines = trees("evalb", *TEXTS).read_text().splitlines()
    for line, text in zip(lines, TEXTS, strict=True):
        tree, ours = nltk.Tree.fromstring(line), som.parse(*pair, text).to_nltk()
        assert tree.leaves() == ours.leaves() == encode(pair[1], text).words
        spans = {ours.leaf_treeposition(i)[:-1] for i in range(len(ours.leaves()))}
        assert {tree.leaf_treeposition(i)[:-2] for i in range(len(tree.leaves()))} == spans
        assert svgling.draw_tree(tree).get_svg().tostring().startswith("<svg")


def test_a_drawn_tree_is_a_picture_with_all_words(trees, pair):
    picture = ElementTree.fromstring(trees("svg", TEXTS[0]).read_text())
    drawn = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert [text for text in drawn if text != "*"] == encode(pair[1], TEXTS[0]).words


def test_pyevalb_scores_printed_files(trees, tmp_path):
    scorer = pytest.importorskip("PYEVALB.scorer", reason="PYEVALB is not installed: pip install 'som-lm[dev]'")
    file, results = str(trees("evalb", *TEXTS)), tmp_path / "results"
    scorer.Scorer().evalb(file, file, str(results))
    assert f"Number of Valid sentence:\t{len(TEXTS)}.00\n" in results.read_text()
    assert "Bracketing FMeasure:\t100.00\n" in results.read_text()
