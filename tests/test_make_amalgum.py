"""The AMALGUM splits, made of a small repository that has an example of everything that is dropped or kept apart."""

import gzip
import hashlib
import importlib
import json
import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parent.parent
DATA = ROOT.parent / "shared" / "data" / "amalgum"
FREE = ("academic", "bio", "fiction", "interview", "news", "voyage")
EVERYWHERE = "This sentence stands in all documents ."
GOLD = [f"The gold treebank has a sentence number {number} ." for number in ("one", "two", "three", "four")]
SIZES = ["--eval-words=228", "--xs-words=228"]  # one document of each genre


@pytest.fixture(scope="module")
def script():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield importlib.import_module("make_amalgum")


# Documents


def words(text: str) -> list[list[str]]:
    """The columns of a sentence whose first word is the root and the head of all others."""
    arcs = [("0", "root"), *[("1", "dep")] * 200]
    return [
        [str(number), form, "lemma", "X", "XX", "Number=Sing", *arc, "1:dep", "Entity=(person-1)"]
        for number, (form, arc) in enumerate(zip(text.split(), arcs, strict=False), start=1)
    ]


def rows(*lines: str) -> list[list[str]]:
    return [line.split() for line in lines]


def changed(text: str, number: int, column: int, value: str) -> list[list[str]]:
    """A sentence with another value in a column of a word, both counted from 1."""
    sentence = words(text)
    sentence[number - 1][column - 1] = value
    return sentence


def conllu(name: str, sentences: list) -> str:
    """A document of AMALGUM; a sentence is a text or its rows."""
    lines = [f"# newdoc id = {name}"]
    for number, sentence in enumerate(sentences, start=1):
        columns = words(sentence) if isinstance(sentence, str) else sentence
        lines += [f"# sent_id = {name}-{number}", "# s_type = decl", *map("\t".join, columns), ""]
    return "\n".join(lines) + "\n"


def ordinary(name: str) -> list[str]:
    """38 words: two sentences of its own, one that all documents have, one that all have but for the first word."""
    own = [f"{name} begins with a sentence of its own .", f"It ends with a sentence as {name} should ."]
    return [*own, EVERYWHERE, f"{name} : here are ten words in a row everywhere , too ."]


GOOD = "It is"
BROKEN = {
    "other than 10 columns": [words("It")[0][:9]],
    "wrong numbers of words": changed(GOOD, 2, 1, "3"),
    "an empty or padded form": changed(GOOD, 2, 2, "is "),
    "a head out of range": changed(GOOD, 2, 7, "3"),
    "a wrong root label": changed(GOOD, 2, 8, "root"),
    "several roots or none": [words("It")[0], ["2", *words("is")[0][1:]]],
    "a cycle": rows("1 It _ X XX _ 0 root _ _", "2 is _ X XX _ 3 dep _ _", "3 so _ X XX _ 2 dep _ _"),
}
UNWANTED = {"of more than 120 words": "word " * 121, "without a letter or digit": "— . !"}
FOOTNOTES = rows(  # "old" hangs on the footnote's number, which hangs on its closing bracket, which hangs on "is"
    "1 Rome _ PROPN NNP _ 5 nsubj _ _",
    "2 [ _ PUNCT -LRB- _ 3 punct _ _",
    "3 12 _ NUM CD _ 4 dep _ _",
    "4 ] _ PUNCT -RRB- _ 5 punct _ _",
    "5 is be AUX VBZ _ 0 root _ _",
    "6 old _ ADJ JJ _ 3 dep _ SpaceAfter=No|Entity=1)",
    "7 . _ PUNCT . _ 5 punct _ _",
)
MULTI_WORDS = rows(
    "1-2 Gonna _ _ _ _ _ _ _ _",
    "1 Gon go VERB VBG _ 0 root _ _",
    "2 na to PART TO _ 1 mark _ _",
    "2.1 go _ _ _ _ _ _ _ _",
)


def documents() -> dict[str, list]:
    """Sentences by path of the document, without folder dep and suffix."""
    ordinaries = [("amalgum", genre, f"{genre}_{number}") for genre in FREE for number in "1234"]
    ordinaries += [("amalgum_extra", genre, f"{genre}_more") for genre in FREE]
    ordinaries += [("amalgum", "whow", "whow_1"), ("amalgum_extra", "whow", "whow_2")]
    return {
        **{f"{part}/{genre}/{name}": ordinary(name) for part, genre, name in ordinaries},
        "amalgum_extra/news/news_copy": [text.upper() for text in ordinary("news_1")],
        "amalgum/bio/bio_gold": [*ordinary("bio_gold"), *GOLD[:3]],
        "amalgum_extra/bio/bio_chance": ["All of this is new .", GOLD[3].lower()],
        "amalgum_extra/voyage/voyage_broken": [*BROKEN.values(), *UNWANTED.values()],
        "amalgum_extra/voyage/voyage_good": [FOOTNOTES, MULTI_WORDS, *["Short ones are repeated ."] * 2],
    }


def commit(folder: Path, contents: dict[str, str]) -> Path:
    """A git repository with these files."""
    for path, content in contents.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(content, encoding="utf-8")
    person = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    for command in ("init --quiet", "add --all", "commit --quiet --message documents"):
        environment = {**os.environ, **person, "GIT_CONFIG_GLOBAL": os.devnull}
        subprocess.run(["git", *command.split()], cwd=folder, env=environment, check=True)
    return folder / ".git"


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> list[str]:
    """The flags of a small repository and a gold treebank."""
    folder = tmp_path_factory.mktemp("clone")
    contents = {}
    for path, sentences in documents().items():
        part, genre, name = path.split("/")
        contents[f"{part}/{genre}/dep/{name}.conllu"] = conllu(name, sentences)
        contents[f"{part}/{genre}/xml/{name}.xml"] = f'<?xml?>\n<text id="{name}" title="{name}">\n<s>\n'
    git_dir = commit(folder / "amalgum", contents)
    (folder / "en_gold.conllu.gz").write_bytes(gzip.compress(conllu("gold", GOLD).encode()))
    return [f"--git-dir={git_dir}", "--commit=HEAD", f"--gold={folder / 'en_gold.conllu.gz'}", *SIZES]


@pytest.fixture(scope="module")
def made(script, clone, tmp_path_factory) -> SimpleNamespace:
    """What the script writes: its report, and the sentences of every document of every file."""
    folder = tmp_path_factory.mktemp("made")
    assert script.run([*clone, f"--out={folder}", f"--json={folder / 'report.json'}"]) == 1
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    files = {name: read(folder / f"{name}.conllu.gz") for name in report["files"]}
    return SimpleNamespace(folder=folder, report=report, files=files)


def read(file: Path) -> dict[str, list[str]]:
    texts = gzip.decompress(file.read_bytes()).decode().split("# newdoc id = ")[1:]
    return {name: rest.split("\n\n")[:-1] for name, _, rest in (text.partition("\n") for text in texts)}


def long_sentences(documents: dict[str, list[str]]) -> list[tuple[str, ...]]:
    """The words, without regard to capitals, of the sentences of more than five."""
    found = [
        tuple(line.split("\t")[1].casefold() for line in block.split("\n") if line.split("\t")[0].isdigit())
        for blocks in documents.values()
        for block in blocks
    ]
    return [words for words in found if len(words) > 5]


def runs_of_ten(documents: dict[str, list[str]]) -> set[tuple[str, ...]]:
    return {
        words[start : start + 10] for words in long_sentences(documents) for start in range(max(0, len(words) - 9))
    }


# Which documents go where


def test_documents_go_where_the_hash_of_their_name_says(made):
    free = {name: " ".join(made.files[name]) for name in ("test", "dev", "train-xs")}
    assert free == {
        "test": "news_1 academic_3 voyage_3 bio_2 fiction_3 interview_2",
        "dev": "voyage_1 bio_3 news_4 academic_2 fiction_4 interview_4",
        "train-xs": "bio_4 academic_4 news_2 voyage_4 fiction_1 interview_1",
    }


def test_dev_test_and_train_xs_have_one_share_of_every_free_genre_of_the_balanced_part(made):
    for name in ("test", "dev", "train-xs"):
        genres = sorted(document.split("_")[0] for document in made.files[name])
        assert genres == sorted(FREE) and not any(document.endswith("more") for document in made.files[name])


def test_train_sm_begins_with_train_xs_and_has_everything_else_that_is_free(made):
    xs, sm = (list(made.files[name].items()) for name in ("train-xs", "train-sm"))
    assert sm[: len(xs)] == xs
    evaluated = {*made.files["dev"], *made.files["test"]}
    dropped = {"news_copy", "bio_gold", "voyage_broken"}
    free = {path.split("/")[2] for path in documents() if "/whow/" not in path}
    assert {name for name, _ in sm} == free - evaluated - dropped


def test_wikihow_is_kept_apart(made):
    assert sorted(made.files["train-whow-nc"]) == ["whow_1", "whow_2"]


def document(script, name: str, *sentences: str, sources: tuple[str, ...] = ()):
    made = tuple(script.AnnotatedSentence(f"{name}-{text}", tuple(text.split()), "") for text in sentences)
    return script.Document("amalgum", "news", name, sources, made)


def test_documents_of_one_work_and_near_copies_are_related(script):
    filler = {name: " ".join([name] * 40) for name in "abcdefgh"}
    shared = "six words are in both documents"  # out of 46, more than a tenth
    found = script.related(
        [
            document(script, "a", filler["a"], sources=("address x",)),
            document(script, "b", filler["b"], sources=("title b", "address x")),
            document(script, "c", filler["c"], shared),
            document(script, "d", filler["d"], shared.upper()),
            document(script, "e", filler["e"], filler["e"], "six words are less than that"),
            document(script, "f", filler["f"], filler["f"], "six words are less than that"),
            document(script, "g", filler["g"], "only five words in both"),
            document(script, "h", filler["h"], "only five words in both", sources=("title h",)),
        ]
    )
    assert found == {"a", "b", "c", "d"}


def test_a_sentence_of_more_than_twenty_documents_makes_no_relatives(script):
    many = [document(script, str(number), EVERYWHERE) for number in range(21)]
    assert script.related(many) == set()
    assert len(script.related(many[1:])) == 20


@pytest.mark.parametrize(
    ("header", "sources"),
    [
        ('<text id="x" sourceURL=" a?b&amp;c ">', ("address a?b&c",)),
        ('<text title="part12_Jos&amp;amp;Co" author="Z">', ("title news jos&co Z",)),
        ('<text title="A" sourceURL="a">', ("address a", "title news a ")),
        ("<nothing/>", ()),
    ],
)
def test_the_work_is_known_by_its_address_and_by_its_title(script, header, sources):
    assert script.sources_from_xml("news", header.encode()) == sources


def test_documents_with_a_relative_are_only_trained_on(script):
    alone = [document(script, f"alone_{number}", f"{number} " * 10) for number in range(4)]
    parts = [document(script, f"part_{number}", f"part {number} " * 5, sources=("address x",)) for number in range(40)]
    splits = script.split(alone + parts, eval_words=120, xs_words=60)
    assert {one.name for name in ("test", "dev") for one in splits[name]} == {f"alone_{number}" for number in range(4)}
    assert len(splits["train-xs"] + splits["more"]) == 40


def test_dev_and_test_skip_documents_that_exceed_their_share_by_a_tenth(script):
    sized = [document(script, f"long_{number}", f"{number} " * 11) for number in range(20)]
    sized.append(document(script, "short", "x " * 10))
    splits = script.split(sized, eval_words=60, xs_words=60)
    assert [one.name for one in splits["test"]] == ["short"] and splits["dev"] == []
    assert [one.words for one in splits["train-xs"]] == [11]


# What is dropped


def test_all_that_is_dropped_is_named_with_its_reason(made):
    dropped = {reason: names for reason, names in made.report["dropped"].items() if names}
    bad = [f"sentences with {reason}" for reason in BROKEN] + [f"sentences {reason}" for reason in UNWANTED]
    for number, reason in enumerate(bad, start=1):
        assert dropped.pop(reason) == [f"voyage_broken-{number}"]
    assert dropped.pop("documents without a good sentence") == ["voyage_broken"]
    assert dropped.pop("footnote marks, taken out of their sentence") == ["voyage_good-1"]
    assert dropped.pop("documents that are a copy of another") == ["news_copy"]
    assert dropped.pop("documents of a gold treebank") == ["bio_gold"]
    assert dropped.pop("sentences of a gold treebank") == ["bio_chance-2"]
    first = next(iter(made.files["train-xs"]))  # keeps the sentence that all documents have
    for name in ("train-xs", "train-whow-nc", "dev", "test"):
        assert dropped.pop(f"repeated sentences in {name}") == [f"{one}-3" for one in made.files[name] if one != first]
    own = {"voyage_good", "bio_chance"}  # these have only sentences of their own
    more = [one for one in made.files["train-sm"] if one not in {*made.files["train-xs"], *own}]
    assert dropped.pop("repeated sentences in train-sm") == [f"{one}-3" for one in more]
    for name in ("dev", "test"):
        reason = f"sentences in {name} that share 10 words in a row with training"
        assert dropped.pop(reason) == [f"{one}-4" for one in made.files[name]]
    assert dropped == {}


def test_footnote_marks_are_taken_out_and_what_hangs_on_them_goes_up(made):
    sentence = made.files["train-sm"]["voyage_good"][0]
    assert sentence.split("\n") == [
        "# sent_id = voyage_good-1",
        "1\tRome\t_\tPROPN\tNNP\t_\t2\tnsubj\t_\t_",
        "2\tis\t_\tAUX\tVBZ\t_\t0\troot\t_\t_",
        "3\told\t_\tADJ\tJJ\t_\t2\tdep\t_\tSpaceAfter=No",
        "4\t.\t_\tPUNCT\t.\t_\t2\tpunct\t_\t_",
    ]


def test_a_footnote_mark_with_the_root_in_it_stays(script):
    marks = [script.Word(form, "X", "XX", head, "dep", "_") for form, head in zip("[1]", (2, 0, 2), strict=True)]
    assert script.without_footnotes(marks, []) == (marks, [], 0)


def test_multi_words_stay_unless_their_words_go(script, made):
    assert made.files["train-sm"]["voyage_good"][1].split("\n") == [
        "# sent_id = voyage_good-2",
        "1-2\tGonna" + "\t_" * 8,
        "1\tGon\t_\tVERB\tVBG\t_\t0\troot\t_\t_",
        "2\tna\t_\tPART\tTO\t_\t1\tmark\t_\t_",
    ]
    marked = [script.Word(form, "X", "XX", min(at, 1), "dep", "_") for at, form in enumerate("a[1]bc")]
    ranges = [script.MultiWord(1, 2, "a["), script.MultiWord(5, 6, "bc")]
    left, moved, marks = script.without_footnotes(marked, ranges)
    assert ("".join(word.form for word in left), moved, marks) == ("abc", [script.MultiWord(2, 3, "bc")], 1)


def test_no_long_sentence_is_in_two_files_or_twice_in_one(made):
    together = {**made.files["train-sm"], **made.files["train-whow-nc"], **made.files["dev"], **made.files["test"]}
    found = long_sentences(together)
    assert len(found) == len(set(found)) > 50
    assert tuple(EVERYWHERE.casefold().split()) in long_sentences(made.files["train-xs"])


def test_dev_and_test_share_no_ten_words_in_a_row_with_training(made):
    training = runs_of_ten({**made.files["train-sm"], **made.files["train-whow-nc"]})
    assert training and training.isdisjoint(runs_of_ten({**made.files["dev"], **made.files["test"]}))


def test_short_sentences_may_be_repeated(made):
    assert [block.count("\n") for block in made.files["train-sm"]["voyage_good"][2:]] == [5, 5]


# Bytes, sums, messages


def test_the_same_input_gives_the_same_bytes(script, clone, made, tmp_path):
    assert script.run([*clone, f"--out={tmp_path}"]) == 1
    for name in script.OF_RECORD:
        assert (tmp_path / f"{name}.conllu.gz").read_bytes() == (made.folder / f"{name}.conllu.gz").read_bytes()
    assert len(list(tmp_path.iterdir())) == 5


def sums(script, file: Path):
    content = file.read_bytes()
    return script.Sums(*(hashlib.sha256(one).hexdigest() for one in (content, gzip.decompress(content))))


def test_other_files_than_those_of_the_results_are_an_error_that_names_the_treebanks(script, clone, tmp_path, capsys):
    assert script.run([*clone, f"--out={tmp_path}"]) == 1
    printed = capsys.readouterr()
    wrong = [line for line in printed.out.splitlines() if "not the file our results were made with" in line]
    found, expected = sums(script, tmp_path / "dev.conllu.gz").file, script.OF_RECORD["dev"].file
    assert len(wrong) == 5 and f"SHA-256 is {found}, expected {expected}" in "".join(wrong)
    assert "as --gold all splits of UD English EWT @15d613d8, GUM @afb41ee" in printed.err
    assert printed.err.count("\n") == 1


def test_the_files_of_the_results_are_recognised_even_if_another_zlib_compressed_them(
    script, clone, made, tmp_path, capsys, monkeypatch
):
    for name in script.OF_RECORD:
        monkeypatch.setitem(script.OF_RECORD, name, sums(script, made.folder / f"{name}.conllu.gz"))
    monkeypatch.setitem(script.OF_RECORD, "dev", script.OF_RECORD["dev"]._replace(file="0"))
    assert script.run([*clone, f"--out={tmp_path}"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.endswith("; the file our results were made with") for line in lines) == 4
    other = [line for line in lines if line.endswith("made with, compressed by another zlib")]
    assert len(other) == 1 and other[0].startswith("dev.conllu.gz: 6 documents, 12 sentences, ")


@pytest.mark.skipif(not DATA.is_dir(), reason="the data of the experiments is not there")
def test_the_table_has_the_sums_of_the_data_that_the_experiments_read(script):
    assert {file.name.removesuffix(".conllu.gz"): sums(script, file) for file in DATA.iterdir()} == script.OF_RECORD


def test_the_report_counts_what_was_dropped(script, clone, tmp_path, capsys):
    script.run([*clone, f"--out={tmp_path}"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"read: {len(documents())} documents at HEAD"
    assert "dropped: documents of a gold treebank: 1" in lines


# Wrong input


ONE = {"amalgum/news/dep/news_1.conllu": conllu("news_1", ["It is a sentence ."])}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ({"README": ""}, "expected documents amalgum/GENRE/dep/*.conllu, found none"),
        (
            {**ONE, "amalgum_extra/news/dep/news_1.conllu": conllu("news_1", ["Another one ."])},
            "expected one document of the name news_1, found 2",
        ),
        (
            {"amalgum/chat/dep/chat_1.conllu": conllu("chat_1", ["It is a sentence ."])},
            "chat_1: expected a genre whose licence is known, found chat",
        ),
        (
            {"amalgum/news/dep/news_1.conllu": "1\tHi" + "\t_" * 8 + "\n\n"},
            "amalgum/news/dep/news_1.conllu: expected a line '# sent_id = …' for each sentence",
        ),
        (
            {"amalgum/news/dep/news_1.conllu": "# sent_id = a\n1-x\tHi\n\n"},
            "amalgum/news/dep/news_1.conllu: expected numbers such as 3-4 and a form, found '1-x Hi'",
        ),
    ],
)
def test_a_repository_that_is_not_amalgum_is_refused(script, tmp_path, capsys, contents, message):
    git_dir, gold = commit(tmp_path / "clone", contents), tmp_path / "gold.conllu"
    gold.write_text(conllu("gold", GOLD), encoding="utf-8")
    arguments = [f"--git-dir={git_dir}", "--commit=HEAD", f"--gold={gold}", f"--out={tmp_path / 'out'}"]
    assert script.run(arguments) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gold.conllu", b"(S (NP a) (VP b))\n", "gold.conllu: expected a treebank in CoNLL-U, found no words"),
        ("gold.conllu.gz", b"1\tHi\n\n", "gold.conllu.gz: expected a treebank in CoNLL-U, plain or as .gz: "),
        (
            "gold.conllu.gz",
            gzip.compress(b"1\tHi\n\n", mtime=0)[:-9],
            "gold.conllu.gz: expected a treebank in CoNLL-U",
        ),
        ("gold.conllu", b"1\t\xff\n\n", "gold.conllu: expected a treebank in CoNLL-U"),
        ("gold.conllu", None, "gold.conllu"),
    ],
)
def test_gold_that_is_no_treebank_is_refused(script, clone, tmp_path, capsys, name, content, message):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert script.run([*clone, f"--gold={tmp_path / name}", f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.parametrize("flag", ["--git-dir=nowhere", "--commit=abcdef0"])
def test_a_folder_without_the_commit_is_refused(script, clone, tmp_path, capsys, flag):
    assert script.run([*clone, flag, f"--out={tmp_path / 'out'}"]) == 2
    error = capsys.readouterr().err
    assert "expected the .git folder of a clone that has the commit" in error and error.count("\n") == 1


def test_plain_and_gzipped_gold_is_the_same(script, tmp_path):
    text = conllu("gold", [*GOLD, "Short one ."]).encode()
    (tmp_path / "gold.conllu").write_bytes(text)
    (tmp_path / "gold.conllu.gz").write_bytes(gzip.compress(text))
    plain, zipped = (script.read_gold(tmp_path / f"gold.conllu{suffix}") for suffix in ("", ".gz"))
    assert plain == zipped == {text.casefold() for text in GOLD}
