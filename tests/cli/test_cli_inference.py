"""The commands som parse, generate and surprisal, called as a user does, on a small saved model."""

import json
from types import SimpleNamespace

import pytest

from som.cli import main
from som.inference import loading
from som.inference.loading import load
from som.inference.parsing import CONLL_HEADER, parse_all
from som.inference.surprisal import surprisals_all, to_tsv
from som.syntax.trees import Tree

NO_COUNTS = "som surprisal: this checkpoint has no word counts: unknown and log_frequency are empty"
TEXTS = ["the old dog sees a Whale.", "the cat sleeps"]


def expected_parses(checkpoint, **options):
    return parse_all(*load(checkpoint), TEXTS, **options)


# som parse


def test_sentences_come_from_arguments_files_or_standard_input(run, checkpoint, tmp_path):
    expected = "".join(f"{parse.brackets()}\n" for parse in expected_parses(checkpoint))
    lines = "\n".join([TEXTS[0], "", f"  {TEXTS[1]} ", ""])
    (tmp_path / "texts.txt").write_text(lines)
    for arguments, stdin in ((TEXTS, ""), (["--file", str(tmp_path / "texts.txt")], ""), ([], lines)):
        assert run("parse", "--format", "brackets", *arguments, stdin=stdin) == (0, expected, "")


def test_every_format_of_trees_is_printed(run, checkpoint):
    parses = expected_parses(checkpoint)
    assert run("parse", *TEXTS)[1] == "".join(f"{parse.draw()}\n\n" for parse in parses)
    assert run("parse", *TEXTS, "--format", "evalb")[1] == "".join(f"{parse.evalb()}\n" for parse in parses)
    about = "# sent_id = {}\n# text = {}\n{}\n"
    conll = [about.format(n, TEXTS[n - 1], parse.conll()) for n, parse in enumerate(parses, start=1)]
    assert run("parse", *TEXTS, "--format", "conll")[1] == CONLL_HEADER + "".join(conll)
    assert json.loads(run("parse", *TEXTS, "--format", "json")[1])[1]["brackets"] == parses[1].brackets()
    assert run("parse", TEXTS[1], "--format", "svg")[1].startswith("<svg")


def test_words_that_are_already_separate_stay_so(run):
    (whole,) = json.loads(run("parse", "--words", "--format", "json", "can't stop. now")[1])
    assert whole["words"] == ["can't", "stop.", "now"]


def test_particles_are_a_method_with_a_number_and_a_seed(run, checkpoint):
    flags = ["--method", "particles", "--particles", "5", "--seed", "3", "--format", "json"]
    results = json.loads(run("parse", *TEXTS, *flags)[1])
    expected = expected_parses(checkpoint, method="particles", k=5, seed=3)
    assert [result["depths"] for result in results] == [parse.depths for parse in expected]
    assert [result["log_prob"] for result in results] == pytest.approx([parse.log_prob for parse in expected])


def test_output_goes_to_files_whole(run, tmp_path):
    out, json_file = tmp_path / "trees.txt", tmp_path / "trees.json"
    assert run("parse", *TEXTS, "--format", "brackets", "--out", str(out), "--json", str(json_file)) == (0, "", "")
    trees = [Tree.parse(line) for line in out.read_text().splitlines()]
    assert [str(tree) for tree in trees] == [result["brackets"] for result in json.loads(json_file.read_text())]
    assert sorted(tmp_path.iterdir()) == [json_file, out]
    assert json.loads(run("parse", *TEXTS, "--json", "-")[1])[0]["words"][0] == "the"


# som surprisal


def test_surprisals_are_printed_drawn_and_written(run, checkpoint, tmp_path):
    plot = tmp_path / "plot.png"
    code, out, err = run("surprisal", *TEXTS, "--parses", "2", "--eos", "--plot", str(plot))
    assert code == 0 and err.splitlines() == [NO_COUNTS]
    assert out == to_tsv(surprisals_all(*load(checkpoint), TEXTS, parses=2, eos=True))
    assert plot.read_bytes().startswith(b"\x89PNG")
    (nested,) = json.loads(run("surprisal", TEXTS[1], "--format", "json")[1])
    assert [word["word"] for word in nested["words"]] == ["the", "cat", "sleeps"]


def test_attachments_are_forced_by_depth_or_by_word(run):
    code, out, _ = run("surprisal", TEXTS[0], "--attach", "2=2", "3=word 1", "--format", "json")
    assert code == 0
    assert [word["depth"] for word in json.loads(out)[0]["words"][:3]] == [1, 2, 2]


# som generate


def test_texts_are_made_up_with_their_trees(run):
    code, out, err = run("generate", "-n", "3", "--max-new-tokens", "7", "--format", "json", "--seed", "4")
    assert (code, err) == (0, "")
    results = json.loads(out)
    assert len(results) == 3
    for result in results:
        assert Tree.parse(result["brackets"]).words() == tuple(result["words"])
    assert out == run("generate", "-n", "3", "--max-new-tokens", "7", "--format", "json", "--seed", "4")[1]


def test_beginnings_are_continued_and_trees_steered(run):
    flags = ["--max-depth", "2", "--max-new-tokens", "5", "--format", "json", "--top-k", "9", "--temperature", "0.7"]
    results = json.loads(run("generate", "the old", "a", *flags)[1])
    assert [result["words"][0][:3] for result in results] == ["the", results[1]["words"][0][:3]]
    assert all(max(result["depths"][2:], default=1) <= 2 for result in results)
    code, out, _ = run("generate", "--template", "((the _) _)", "--format", "brackets", "-n", "2", "--greedy")
    assert code == 0
    assert all(line.startswith("((the ") for line in out.splitlines()) and len(out.splitlines()) == 2
    assert run("generate", "--format", "text", stdin="the cat\n")[1].startswith("the cat")


def test_generate_waits_for_no_beginning_in_a_terminal(checkpoint, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    assert main(["generate", "--model", checkpoint, "--format", "json", "--max-new-tokens", "5"]) == 0
    (made,) = json.loads(capsys.readouterr().out)
    assert made["words"]


# what is wrong


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["parse"], "there is no text, expected at least one sentence"),
        (["parse", " "], "the text is empty, expected at least one word"),
        (["parse", "a", "--file", "x"], "expected sentences or --file, got both"),
        (["parse", "--file", "nowhere.txt"], "nowhere.txt"),
        (["parse", "a", "b", "--format", "svg"], "an SVG shows one sentence, got 2"),
        (["parse", "the cat " * 150], "300 words are too many to draw, 200 the most"),
        (
            ["surprisal", "the cat " * 150, "--plot", "x.svg"],
            "300 words are too many to draw, 200 the most: the other",
        ),
        (["surprisal", "the cat", "--plot", "x.doc"], "x.doc: expected a picture that ends in .svg, .png or .pdf"),
        (["surprisal", "the cat", "--attach", "3=1"], "word 3 cannot be attached: words are 1 to 2"),
        (
            ["surprisal", "the cat", "--method", "particles", "--attach", "2=1"],
            "cannot be given to particles, which finds trees of its own",
        ),
        (["generate", "--template", "((the _)"], "1 bracket(s) are not closed"),
        (["generate", "the", "--template", "(_)"], "a template is a whole sentence"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["surprisal", "a", "--attach", "2=word"], "expected WORD=DEPTH or 'WORD=word NUMBER', got '2=word'"),
        (["generate", "--temperature", "0"], "expected a number above 0, got '0'"),
        (["generate", "-n", "0"], "expected a whole number from 1, got '0'"),
        (["parse", "--method", "guess"], "invalid choice: 'guess'"),
        (["parse", "--format", "tsv"], "invalid choice: 'tsv'"),
    ],
)
def test_wrong_flags_are_one_line_and_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    err = capsys.readouterr().err
    assert stopped.value.code == 2 and message in err and err.count("\n") == 1


def test_bytes_that_are_no_text_are_refused(run, tmp_path):
    (tmp_path / "latin.txt").write_bytes("the caf\xe9\n".encode("latin-1"))
    code, _, err = run("parse", "--file", str(tmp_path / "latin.txt"))
    assert code == 2 and "latin.txt:1: expected text in UTF-8" in err


@pytest.mark.parametrize(
    "text, noticed", [("texts.txt", True), ("cats.txt", False), ("texts", False), ("a" * 999, False)]
)
def test_the_name_of_a_file_is_read_as_a_text_and_noticed(run, tmp_path, monkeypatch, text, noticed):
    monkeypatch.chdir(tmp_path)
    for name in ("texts.txt", "texts"):
        (tmp_path / name).write_text("the dog .\n")
    code, out, err = run("parse", text, "--format", "brackets")
    assert code == 0 and "dog" not in out
    assert (err == "som parse: 'texts.txt' is read as a text; --file reads the file of this name\n") == noticed


@pytest.mark.parametrize(
    "name, flags, start",
    [
        ("a.svg", [], "<svg"),
        ("a.html", [], "<!doctype html>"),
        ("a.json", [], "[\n"),
        ("a.txt", [], " "),
        ("a.svg", ["--format", "brackets"], "("),
    ],
)
def test_the_suffix_of_the_output_is_its_format_unless_another_is_named(run, tmp_path, name, flags, start):
    assert run("parse", "the dog sees the cat .", "--out", str(tmp_path / name), *flags)[0] == 0
    assert (tmp_path / name).read_text().lower().startswith(start)


def test_probabilities_of_relations_are_refused_where_they_are_not_written(run):
    code, out, err = run("parse", "the dog", "--probabilities")
    assert (code, out) == (2, "") and "--probabilities are written with --format conllu, got tree" in err


def test_without_a_shipped_checkpoint_one_sentence_says_so(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(loading, "SHIPPED", tmp_path / "nowhere")
    assert main(["parse", "the cat"]) == 2
    assert "no checkpoint comes with this installation" in capsys.readouterr().err


def test_two_outputs_to_one_file_are_refused_and_two_to_a_device_are_not(checkpoint, tmp_path, capsys):
    same = ["--out", str(tmp_path / "a"), "--json", str(tmp_path / "a")]
    assert main(["parse", "--model", checkpoint, *same, "the dog ."]) == 2
    assert "expected another file for each output" in capsys.readouterr().err
    assert not (tmp_path / "a").exists()
    nothing = ["--out", "/dev/null", "--json", "/dev/null"]
    assert main(["parse", "--model", checkpoint, *nothing, "the dog ."]) == 0
