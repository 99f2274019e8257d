"""Where sentences end, on a list of hard cases; a bar stands between sentences."""

import pytest

from modeling_som.sentences_som import split_sentences

HARD = [
    "Mr. Smith went to Washington.|He left.",
    "J. R. R. Tolkien wrote it.|She read it.",
    "It costs $3.50 today.|Prices rose 2.5 per cent.",
    'He said, "Go away."|She left.',
    '"Really?" she asked.|"Yes!" he said.',
    "(He did not come.)|Nobody cared.",
    "He waited ...|Nobody came.",
    "He waited ... and waited.",
    "Visit http://example.com/a?b=c.|Then log in.",
    "See www.example.org for details.|It is free.",
    "The U.S. Senate voted.|It passed.",
    "He lives in the U.S.|The weather is good.",
    "They met at 5 p.m.|It was late.",
    "They met at 5 p.m. Friday.",
    "Apple Inc. announced it.|The stock rose.",
    "It was bought by Apple Inc.|The stock rose.",
    "See Fig. 3 for details.|No. 5 is best.",
    "No.|I said no.",
    "Yahoo! is a company.",
    "What?!|No way!",
    "the dog barks .|the cat sleeps .",
    '" Go . "|She left .',
    "1. Introduction to parsing",
    "It was I.|She knew.",
    "In 1999.|The end.",
    "e.g. this one, i.e. that one.",
    "Smith et al. (2020) say so.|The rest agree.",
    "“Come in.”|‘Why?’|He came.",
    "I like it!!!|You?",
    "end.Next is a file name.",
    "Hello…|World.",
    "He has a Ph.D. in physics.|She has none.",
    "Jan. 5 was cold.|Feb. 6 was not.",
    "No full stop",
    "私は犬です。|猫です。",
    "It rained.|12 people came.",
    'He said: "Stop!"|Nobody did.',
    "She asked (why?) and left.",
    "The dog (a big one.) barked.",
    "A. Yes.|B. No.",
    "Version 2.0.|It works.",
    "He lives in the U.S.|He likes it.",
]


@pytest.mark.parametrize("marked", HARD)
def test_hard_cases_are_split_where_people_would(marked):
    sentences = marked.split("|")
    text = ("" if "。" in marked else " ").join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_white_space_around_sentences_belongs_to_none():
    text = "\t One ends here.  Two\u00a0does, too. \n"
    assert [text[start:end] for start, end in split_sentences(text)] == ["One ends here.", "Two\u00a0does, too."]
    assert split_sentences(" \n") == split_sentences("") == []


def test_nothing_but_white_space_is_lost():
    text = "".join(HARD) + '?! ... . . " Mr. )'
    spans = split_sentences(text)
    assert "".join("".join(text[start:end].split()) for start, end in spans) == "".join(text.split())
    assert all(end <= start for (_, end), (start, _) in zip(spans, spans[1:], strict=False))
