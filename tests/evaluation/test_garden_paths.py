"""Garden paths: the items that ship, and effects against surprisals by hand."""

from collections import Counter

import pytest

import som
from som.evaluation import GardenPathReport, garden_path_effects, garden_path_figure, read_items
from som.evaluation.garden_paths import Effect, Version

TABLE = (
    "construction\titem\tcondition\tsentence\n"
    "X\t1\tambiguous\tthe old dog |sees the| cat .\n"
    "X\t1\tdisambiguated\tthe old cat and the dog |sees the| cat .\n"
    "X\t2\tambiguous\ta dog |sees|\n"
    "X\t2\tdisambiguated\tthe dog |sees|\n"
)
ADDED = {"MV/RR": ("who was", "who were", "that was"), "NP/S": ("that",)}


@pytest.fixture
def table(tmp_path):
    """Writes a table of items."""

    def write(text: str = TABLE, name: str = "items.tsv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def test_the_items_that_ship_are_24_of_each_construction_and_differ_by_what_disambiguates():
    items = read_items()
    assert Counter(item.construction for item in items) == {"MV/RR": 24, "NP/S": 24, "NP/Z": 24}
    assert len({item.ambiguous.text for item in items}) == 72
    for item in items:
        plain, clear = item.ambiguous, item.disambiguated
        assert plain.critical == clear.critical and " " not in plain.critical
        assert plain.text[plain.end :] == clear.text[clear.end :] and plain.text[-1] == "."
        if item.construction == "NP/Z":
            assert clear.text.replace(",", "") == plain.text and clear.text.count(",") == 1
        else:
            assert plain.text in {clear.text.replace(f" {words} ", " ", 1) for words in ADDED[item.construction]}


@pytest.mark.parametrize("checkpoint", ["word"], indirect=True)
def test_effects_are_differences_of_surprisals_at_the_critical_words(checkpoint, table):
    model, tokenizer = som.load(checkpoint)
    effects = list(garden_path_effects(model, tokenizer, read_items(table()), widths=(1, 3)))
    assert [(effect.item.name, effect.width) for effect in effects] == [("1", 1), ("2", 1), ("1", 3), ("2", 3)]
    for effect in effects:
        for name in ("surprisal", "structural", "lexical"):
            both = []
            for version in (effect.item.ambiguous, effect.item.disambiguated):
                rows = som.surprisals(model, tokenizer, version.text, "beam", k=effect.width)
                wanted = version.critical.split()
                (place,) = [i for i in range(len(rows)) if [r.word for r in rows[i : i + len(wanted)]] == wanted]
                both.append(sum(getattr(row, name) for row in rows[place : place + len(wanted)]))
            assert getattr(effect, name) == pytest.approx(both[0] - both[1], abs=1e-4)
    assert effects[0].surprisal != pytest.approx(effects[2].surprisal, abs=1e-6)  # the width matters


def test_a_report_weighs_the_parts_and_converts_bits(table):
    one, two = read_items(table())
    effects = [Effect(one, 4, 2.0, 0.5, 1.0), Effect(two, 4, -1.0, 1.5, -2.0)]
    report = GardenPathReport(effects, weights=[(2.0, 1.0)], ms_per_bit=10.0)
    ((group, means),) = report.means().items()
    assert group == ("X", 4)
    assert {name: mean.value for name, mean in means.items()} == {
        "surprisal": 0.5,
        "structural": 1.0,
        "lexical": -0.5,
        "2:1": 1.5,
    }
    first = means["surprisal"]
    assert (first.error, first.positive, first.items) == (pytest.approx(1.5), 1, 2)
    told = report.to_json()
    assert told["means"][0]["effects"]["2:1"]["ms"] == 15
    assert told["effects"][0]["2:1"] == 2.0 and told["effects"][0]["critical"] == "sees the"
    assert [axes.get_title() for axes in garden_path_figure(report).axes] == list(means)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TABLE.replace("|sees|\n", "sees\n", 1), r"expected a sentence with its critical words between two \|, got"),
        (TABLE.replace("disambiguated", "clear", 1), "row 2: expected the condition ambiguous or disambiguated, got"),
        (TABLE.replace("the dog |sees|", "the dog |barks|"), "expected the same critical words in both"),
        (TABLE.replace("condition", "kind", 1), "expected a column condition, the table has"),
        (TABLE[: TABLE.rindex("X")], "item 2 of X has no disambiguated version"),
        (TABLE + TABLE[TABLE.rindex("X") :], "row 5: item 2 of X has a second disambiguated version"),
    ],
)
def test_items_that_cannot_be_compared_are_named(wrong, message, table):
    with pytest.raises(ValueError, match=f"items.tsv: .*{message}"):
        read_items(table(wrong))


@pytest.mark.parametrize("checkpoint", ["word"], indirect=True)
def test_critical_words_that_are_no_words_of_the_model_are_refused(checkpoint, table):
    model, tokenizer = som.load(checkpoint)
    items = read_items(table(TABLE.replace("dog |sees|", "dog s|ees|")))
    with pytest.raises(ValueError, match="the critical words 'ees' are read as 'sees'"):
        list(garden_path_effects(model, tokenizer, items, widths=(1,)))


def test_bars_are_taken_out_of_a_sentence():
    assert Version.parse("|Dogs| bark.") == Version("Dogs bark.", 0, 4)
    assert Version.parse("Dogs |bark.|") == Version("Dogs bark.", 5, 10)
