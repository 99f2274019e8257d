"""The built-in treebank: a probabilistic grammar of English whose sentences come with their dependency trees.

It is small, but has what a syntactic language model should learn: agreement across attractors, subject and object
relative clauses, both attachments of prepositional phrases, subordination, reflexives, coordination. Every tree is
projective by construction. The text of a sentence decides which split it belongs to, so no two splits share one.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice

SPLIT_SIZES = {"train": 10_000, "validation": 1_000, "test": 1_000}
PAIRS_PER_KIND = 100
PAIR_KINDS = (
    "agreement_prepositional_phrase",
    "agreement_subject_relative",
    "agreement_object_relative",
    "agreement_in_object_relative",
    "agreement_coordination",
    "reflexive_prepositional_phrase",
    "reflexive_subject_relative",
    "reflexive_object_relative",
)
OTHER = {"Sing": "Plur", "Plur": "Sing"}

NOUNS = {
    "person": """man/men woman/women boy girl king queen prince princess brother sister father mother uncle aunt
        child/children teacher student doctor nurse lawyer farmer artist writer singer actor dancer pilot sailor
        soldier baker painter guest neighbor friend manager clerk customer visitor tourist professor judge driver poet
        gardener cook guard""",
    "animal": "dog cat horse cow bird duck fox wolf/wolves bear rabbit mouse/mice goat pig lion tiger monkey",
    "text": "book letter story poem report newspaper map song",
    "food": "apple cake sandwich cookie orange carrot potato egg pie tomato",
    "object": "car boat bicycle lamp picture window door ball key clock guitar hat coat shirt bag table chair box",
    "place": """garden park house school kitchen forest river village city market castle hospital office library museum
        station farm bridge tower""",
    "furniture": "table chair bed desk bench piano",
    "container": "box bag basket chest car boat",
    "clothes": "hat coat shirt bag scarf/scarves",
}
OBJECT_KINDS = {"furniture", "container", "clothes"}  # kinds of "object" that some prepositions want
NAMES = {"himself": "John Peter Paul Henry Tom", "herself": "Mary Anna Susan Emma Kate"}
GENDERS = {
    "himself": "man boy king prince brother father uncle",
    "herself": "woman girl queen princess sister mother aunt",
}
ADJECTIVES = {
    "person": "old young tall happy clever kind tired famous rich poor brave quiet angry lonely",
    "animal": "old young small big hungry fast wild brown quiet angry tired",
    "text": "old new long short famous boring strange",
    "food": "fresh sweet big small cold",
    "object": "old new red blue green heavy expensive beautiful broken dirty",
    "place": "old new quiet large small beautiful dark famous",
}
ADVERBS = {
    "person": "quickly slowly often quietly happily rarely suddenly again",
    "animal": "quickly slowly often quietly rarely suddenly again",
    "object": "slowly often rarely suddenly again",
    "text": "often suddenly again",
}
DETERMINERS = {
    "Sing": "the the the the a a this that every",
    "Plur": "the the the the some these those many two three",
}
# of a verb, the past form is given where it is not the base with -ed
INTRANSITIVE = {
    "person": """laugh smile cry/cried sing/sang dance arrive wait travel work sleep/slept run/ran walk swim/swam shout
        return""",
    "animal": "sleep/slept run/ran jump swim/swam hide/hid wait play return",
    "object": "fall/fell disappear move",
    "text": "disappear change",
}
TRANSITIVE = {
    ("person", "person"): """help admire thank visit praise blame invite teach/taught follow love know/knew meet/met
        trust see/saw""",
    ("person", "animal"): "feed/fed chase find/found catch/caught love watch see/saw",
    ("person", "text"): "read/read write/wrote find/found lose/lost buy/bought copy/copied like",
    ("person", "food"): "eat/ate buy/bought cook sell/sold want like",
    ("person", "object"): """buy/bought sell/sold find/found paint break/broke clean carry/carried repair hide/hid
        see/saw""",
    ("animal", "person"): "follow watch bite/bit see/saw fear like",
    ("animal", "animal"): "chase follow watch fear bite/bit see/saw",
    ("animal", "food"): "eat/ate find/found smell like",
    ("object", "person"): "hurt/hurt surprise",
    ("text", "person"): "surprise please bore",
}
REFLEXIVE = "help admire praise blame trust love hurt/hurt describe see/saw teach/taught"
EMBEDDING = "think/thought say/said know/knew believe hope claim"
CONJUNCTIONS = ("when", "while", "because", "if", "after", "before", "although")
# prepositions with the kind of their object: those that hang on a noun of some kind, and those that hang on a verb
NOUN_PREPOSITIONS = {
    "person": "from:place near:person near:animal with:clothes behind:furniture with:animal near:place",
    "animal": "near:person behind:furniture from:place near:animal in:place",
    "text": "about:person about:animal on:furniture from:person in:container",
    "food": "on:furniture near:object from:person in:container",
    "object": "of:person near:object in:place near:person near:animal",
    "place": "near:place behind:place of:person",
}
VERB_PREPOSITIONS = "in:place near:place behind:place with:person near:person"
SUBJECT_KINDS = {"person": 12, "animal": 5, "object": 2, "text": 1}  # with their weights


@dataclass(eq=False)
class Node:
    """A word with its dependents on either side, from left to right."""

    form: str
    upos: str
    relation: str = "root"
    before: list[Node] = field(default_factory=list)
    after: list[Node] = field(default_factory=list)
    number: str = ""
    kind: str = ""  # the semantic class of a noun
    gender: str = ""  # the reflexive pronoun of a singular noun
    foil: str = ""  # the form that breaks the agreement with `subject`
    subject: Node | None = None

    def nodes(self) -> Iterator[Node]:
        """Every word below this one and itself, in the order of the sentence."""
        for child in self.before:
            yield from child.nodes()
        yield self
        for child in self.after:
            yield from child.nodes()


@dataclass(frozen=True)
class MinimalPair:
    """Two sentences, words separated by spaces, of which only one agrees in number where they differ."""

    kind: str
    good: str
    bad: str


@dataclass(frozen=True)
class Verb:
    """The finite forms of a verb."""

    base: str
    third: str
    past: str

    @classmethod
    def parse(cls, entry: str) -> Verb:
        """Read an entry of the lexicon.

        >>> Verb.parse("carry/carried"), Verb.parse("chase").past, Verb.parse("watch").third
        (Verb(base='carry', third='carries', past='carried'), 'chased', 'watches')
        """
        base, _, past = entry.partition("/")
        return cls(base, inflect(base), past or base + ("d" if base.endswith("e") else "ed"))


def inflect(word: str) -> str:
    """Add the s of the plural and of the third person.

    >>> [inflect(word) for word in ("dog", "box", "city", "boy", "go")]
    ['dogs', 'boxes', 'cities', 'boys', 'goes']
    """
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + ("es" if word.endswith(("s", "x", "ch", "sh", "o")) else "s")


def noun_forms(entry: str) -> tuple[str, str]:
    """Singular and plural of an entry of the lexicon."""
    singular, _, plural = entry.partition("/")
    return singular, plural or inflect(singular)


def verbs(entries: str) -> list[Verb]:
    return [Verb.parse(entry) for entry in entries.split()]


def lists(entries: dict) -> dict:
    """The values of a part of the lexicon as lists of words."""
    return {key: words.split() for key, words in entries.items()}


NOUN_FORMS = {kind: [noun_forms(entry) for entry in entries] for kind, entries in lists(NOUNS).items()}
INTRANSITIVE_VERBS = {kind: verbs(entries) for kind, entries in INTRANSITIVE.items()}
TRANSITIVE_VERBS = {kinds: verbs(entries) for kinds, entries in TRANSITIVE.items()}
OBJECTS_OF = {kind: [object_ for subject, object_ in TRANSITIVE if subject == kind] for kind, _ in TRANSITIVE}
SUBJECTS_OF = {kind: [subject for subject, object_ in TRANSITIVE if object_ == kind] for _, kind in TRANSITIVE}
REFLEXIVE_VERBS, EMBEDDING_VERBS = verbs(REFLEXIVE), verbs(EMBEDDING)
ADJECTIVE_LISTS, ADVERB_LISTS, DETERMINER_LISTS = lists(ADJECTIVES), lists(ADVERBS), lists(DETERMINERS)
NOUN_PREPOSITION_LISTS, VERB_PREPOSITION_LIST = lists(NOUN_PREPOSITIONS), VERB_PREPOSITIONS.split()
GENDER_OF = {noun: pronoun for pronoun, nouns in lists(GENDERS).items() for noun in nouns}
NAME_LIST = [(name, pronoun) for pronoun, names in lists(NAMES).items() for name in names]
PRONOUNS = [("he", "Sing", "himself"), ("she", "Sing", "herself"), ("they", "Plur", "themselves")]


class Grammar:
    """Draws sentences from the language, the same ones for the same seed."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.past = False  # the tense of the sentence being drawn

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def sentence(self) -> Node:
        """A sentence of one clause, or of two: subordinate before or behind the main one, or joined to it."""
        self.past = self.chance(0.35)
        main, choice = self.clause(depth=2), self.random.random()
        if choice < 0.1:
            main.before.insert(0, self.subordinate(comma=True))
        elif choice < 0.2:
            main.after.append(self.subordinate(comma=False))
        elif choice < 0.3:
            second = self.clause(depth=1, relation="conj")
            second.before[:0] = [Node(",", "PUNCT", "punct"), Node(self.random.choice(("and", "but")), "CCONJ", "cc")]
            main.after.append(second)
        return finished(main)

    def pair_sentence(self, kind: str) -> Node:
        """A short sentence in the present whose subject carries what a kind of minimal pair is about."""
        phenomenon, _, construction = kind.partition("_")
        subject = self.noun("animal" if phenomenon == "agreement" and self.chance(0.4) else "person", "nsubj")
        if construction == "prepositional_phrase":
            subject.after.append(self.prepositional_phrase(NOUN_PREPOSITION_LISTS[subject.kind], "nmod", 0))
        elif construction == "coordination":
            subject.after.append(self.second_noun(subject.kind))
        else:
            relative = self.subject_relative if construction == "subject_relative" else self.object_relative
            subject.after.append(relative(subject, 0))
        main = self.predicate(subject, 0, "root") if phenomenon == "agreement" else self.reflexive(subject, "root")
        main.before.insert(0, subject)
        return finished(main)

    def subordinate(self, comma: bool) -> Node:
        """An adverbial clause, with a comma behind it where it opens the sentence."""
        clause = self.clause(depth=1, relation="advcl")
        clause.before.insert(0, Node(self.random.choice(CONJUNCTIONS), "SCONJ", "mark"))
        clause.after += [Node(",", "PUNCT", "punct")] * comma
        return clause

    def clause(self, depth: int, relation: str = "root") -> Node:
        """A subject and what is said of it."""
        (kind,) = self.random.choices(list(SUBJECT_KINDS), list(SUBJECT_KINDS.values()))
        subject = self.noun_phrase(kind, "nsubj", depth, pronouns=True)
        predicate = self.predicate(subject, depth, relation)
        predicate.before.insert(0, subject)
        return predicate

    def noun_phrase(self, kind: str, relation: str, depth: int, pronouns: bool = False) -> Node:
        """A noun with its determiner and modifiers, a name, a pronoun, or two nouns joined by and."""
        if kind == "person" and self.chance(0.2):
            return self.short_noun_phrase(relation, pronouns)
        noun = self.noun(kind, relation)
        if depth > 0 and self.chance(0.3):
            noun.after.append(self.modifier(noun, depth))
        elif depth > 0 and self.chance(0.08):
            noun.after.append(self.second_noun(kind))
        return noun

    def second_noun(self, kind: str) -> Node:
        """A noun joined to another by and."""
        noun = self.noun(kind, "conj")
        noun.before.insert(0, Node("and", "CCONJ", "cc"))
        return noun

    def short_noun_phrase(self, relation: str, pronouns: bool) -> Node:
        """A name or a pronoun."""
        if pronouns and self.chance(0.5):
            form, number, gender = self.random.choice(PRONOUNS)
            return Node(form, "PRON", relation, number=number, kind="person", gender=gender)
        name, gender = self.random.choice(NAME_LIST)
        return Node(name, "PROPN", relation, number="Sing", kind="person", gender=gender)

    def noun(self, kind: str, relation: str) -> Node:
        """A noun with determiner and perhaps an adjective."""
        singular, plural = self.random.choice(NOUN_FORMS[kind])
        number = "Sing" if self.chance(0.55) else "Plur"
        noun = Node(singular if number == "Sing" else plural, "NOUN", relation, number=number, kind=kind)
        noun.kind = "object" if kind in OBJECT_KINDS else kind
        noun.gender = GENDER_OF.get(singular) or self.random.choice(("himself", "herself"))
        if self.chance(0.25):
            noun.before.append(Node(self.random.choice(ADJECTIVE_LISTS[noun.kind]), "ADJ", "amod"))
        noun.before.insert(0, self.determiner(number, next_word=[*noun.before, noun][0].form))
        return noun

    def determiner(self, number: str, next_word: str) -> Node:
        """A determiner or a numeral that goes with the number and with the word behind it."""
        form = self.random.choice(DETERMINER_LISTS[number])
        if form in ("two", "three"):
            return Node(form, "NUM", "nummod")
        return Node("an" if form == "a" and next_word[0] in "aeiou" else form, "DET", "det")

    def modifier(self, noun: Node, depth: int) -> Node:
        """A prepositional phrase or a relative clause that hangs on a noun."""
        choice = self.random.random()
        if choice < 0.5 or noun.kind == "place":
            return self.prepositional_phrase(NOUN_PREPOSITION_LISTS[noun.kind], "nmod", depth - 1)
        if choice < 0.75 and noun.kind in INTRANSITIVE_VERBS:
            return self.subject_relative(noun, depth - 1)
        return self.object_relative(noun, depth - 1)

    def subject_relative(self, noun: Node, depth: int) -> Node:
        """A relative clause whose subject is the noun: that chased the cat."""
        clause = self.predicate(noun, depth, "acl:relcl")
        pronoun = "who" if noun.kind == "person" and self.chance(0.5) else "that"
        clause.before.insert(0, Node(pronoun, "PRON", "nsubj"))
        return clause

    def object_relative(self, noun: Node, depth: int) -> Node:
        """A relative clause whose object is the noun: (that) the dogs chased."""
        kind = self.random.choice(SUBJECTS_OF[noun.kind])
        subject = self.noun_phrase(kind, "nsubj", depth)
        verb = self.random.choice(TRANSITIVE_VERBS[kind, noun.kind])
        clause = self.finite(verb, subject, "acl:relcl")
        clause.before.insert(0, subject)
        if self.chance(0.7) and next(subject.nodes()).form != "that":
            clause.before.insert(0, Node("that", "PRON", "obj"))
        return clause

    def prepositional_phrase(self, choices: list[str], relation: str, depth: int) -> Node:
        """A preposition with its noun phrase, which is the head."""
        preposition, kind = self.random.choice(choices).split(":")
        noun = self.noun_phrase(kind, relation, depth)
        noun.before.insert(0, Node(preposition, "ADP", "case"))
        return noun

    def predicate(self, subject: Node, depth: int, relation: str) -> Node:
        """What is said of a subject: a verb with its objects, or an adjective, perhaps two of them."""
        choice = self.random.random()
        if choice < 0.12:
            return self.copula(subject, relation)
        if subject.kind == "person" and choice < 0.22:
            return self.reflexive(subject, relation)
        if subject.kind == "person" and depth > 1 and choice < 0.32:
            return self.embedding(subject, depth, relation)
        if choice < 0.65 and subject.kind in OBJECTS_OF:
            kind = self.random.choice(OBJECTS_OF[subject.kind])
            head = self.finite(self.random.choice(TRANSITIVE_VERBS[subject.kind, kind]), subject, relation)
            head.after.append(self.noun_phrase(kind, "obj", depth))
        else:
            head = self.finite(self.random.choice(INTRANSITIVE_VERBS[subject.kind]), subject, relation)
            head.after += [Node(self.random.choice(ADVERB_LISTS[subject.kind]), "ADV", "advmod")] * self.chance(0.3)
        if self.chance(0.2):
            head.after.append(self.prepositional_phrase(VERB_PREPOSITION_LIST, "obl", 0))
        if depth > 1 and self.chance(0.1):
            second = self.predicate(subject, 0, "conj")
            second.before.insert(0, Node("and", "CCONJ", "cc"))
            head.after.append(second)
        return head

    def finite(self, verb: Verb, subject: Node, relation: str) -> Node:
        """A verb in the present, which agrees, the past, the future, or negated."""
        choice = self.random.random()
        if choice < 0.12:
            auxiliary = self.agreeing_auxiliary(subject)
            return Node(verb.base, "VERB", relation, before=[auxiliary, Node("not", "PART", "advmod")])
        if self.past:
            return Node(verb.past, "VERB", relation)
        if choice < 0.2:
            return Node(verb.base, "VERB", relation, before=[Node("will", "AUX", "aux")])
        return agreeing(subject, {"Sing": verb.third, "Plur": verb.base}, "VERB", relation)

    def agreeing_auxiliary(self, subject: Node) -> Node:
        """The form of do before not."""
        if self.past:
            return Node("did", "AUX", "aux")
        return agreeing(subject, {"Sing": "does", "Plur": "do"}, "AUX", "aux")

    def copula(self, subject: Node, relation: str) -> Node:
        """An adjective with a form of be."""
        forms = {"Sing": "was", "Plur": "were"} if self.past else {"Sing": "is", "Plur": "are"}
        copula = agreeing(subject, forms, "AUX", "cop")
        return Node(self.random.choice(ADJECTIVE_LISTS[subject.kind]), "ADJ", relation, before=[copula])

    def reflexive(self, subject: Node, relation: str) -> Node:
        """A verb whose object is the subject itself."""
        head = self.finite(self.random.choice(REFLEXIVE_VERBS), subject, relation)
        singular = "himself" if subject.gender == "themselves" else subject.gender  # of they, the form to be wrong
        head.after.append(agreeing(subject, {"Sing": singular, "Plur": "themselves"}, "PRON", "obj"))
        return head

    def embedding(self, subject: Node, depth: int, relation: str) -> Node:
        """A verb of saying or thinking with the clause that is said or thought."""
        head = self.finite(self.random.choice(EMBEDDING_VERBS), subject, relation)
        clause = self.clause(depth - 1, "ccomp")
        clause.before.insert(0, Node("that", "SCONJ", "mark"))
        head.after.append(clause)
        return head


def finished(main: Node) -> Node:
    """A sentence with its full stop and the capital of its first word."""
    main.after.append(Node(".", "PUNCT", "punct"))
    first = next(main.nodes())
    first.form = first.form[0].upper() + first.form[1:]
    return main


def agreement_number(subject: Node) -> str:
    """The number a verb takes: that of the noun, plural where two are joined."""
    return "Plur" if any(child.relation == "conj" for child in subject.after) else subject.number


def agreeing(subject: Node, forms: dict[str, str], upos: str, relation: str) -> Node:
    """A word in the number of the subject, which knows the form it must not have."""
    number = agreement_number(subject)
    return Node(forms[number], upos, relation, number=number, foil=forms[OTHER[number]], subject=subject)


def text_of(nodes: list[Node]) -> str:
    """The words separated by spaces."""
    return " ".join(node.form for node in nodes)


def split_of(text: str) -> str:
    """The part of the language a sentence belongs to; 10 of 16 sentences are for training."""
    return {13: "validation", 14: "test"}.get(
        part := zlib.crc32(text.encode()) % 16, "train" if part < 10 else "pairs"
    )


def distinct(split: str, draw: Callable[[], Node]) -> Iterator[list[Node]]:
    """Sentences of one part of the language as lists of words, each sentence once, without end."""
    seen = set()
    while True:
        nodes = list(draw().nodes())
        text = text_of(nodes)
        if split_of(text) == split and text not in seen:
            seen.add(text)
            yield nodes


def conllu(nodes: list[Node], name: str) -> str:
    """A sentence as a block of CoNLL-U."""
    places = {node: index for index, node in enumerate(nodes, 1)}
    heads = {child: places[node] for node in nodes for child in (*node.before, *node.after)}
    glued = {index - 1 for node, index in places.items() if node.upos == "PUNCT"}
    text = "".join(node.form + " " * (index not in glued) for node, index in places.items()).strip()
    lines = [f"# sent_id = {name}", f"# text = {text}"]
    for node, index in places.items():
        features, space = f"Number={node.number}" if node.number else "_", "SpaceAfter=No" if index in glued else "_"
        columns = (index, node.form, "_", node.upos, "_", features, heads.get(node, 0), node.relation, "_", space)
        lines.append("\t".join(map(str, columns)))
    return "\n".join(lines) + "\n\n"


def builtin_treebank(split: str, seed: int = 0) -> Iterator[str]:
    """The sentences of a split, `train`, `validation` or `test`, each a block of CoNLL-U."""
    if split not in SPLIT_SIZES:
        raise ValueError(f"the built-in treebank has the splits {', '.join(SPLIT_SIZES)}, got {split!r}")
    sentences = distinct(split, Grammar(f"{split} {seed}").sentence)
    for index, nodes in enumerate(islice(sentences, SPLIT_SIZES[split]), 1):
        yield conllu(nodes, f"builtin-{split}-{seed}-{index}")


def minimal_pairs(seed: int = 0) -> list[MinimalPair]:
    """Pairs from sentences that are in no split, equally many of each kind."""
    grammar = Grammar(f"pairs {seed}")
    return [pair for kind in PAIR_KINDS for pair in islice(pairs_of(kind, grammar), PAIRS_PER_KIND)]


def pairs_of(kind: str, grammar: Grammar) -> Iterator[MinimalPair]:
    """Minimal pairs of one kind, without end."""
    for nodes in distinct("pairs", partial(grammar.pair_sentence, kind)):
        for index, node in enumerate(nodes):
            if pair_kind(nodes, index) == kind:
                foil = Node(node.foil, node.upos)
                yield MinimalPair(kind, text_of(nodes), text_of([*nodes[:index], foil, *nodes[index + 1 :]]))


def pair_kind(nodes: list[Node], index: int) -> str | None:
    """The kind of minimal pair that a word makes with its foil, where a noun of the other number may mislead."""
    node = nodes[index]
    if node.subject is None:
        return None
    phenomenon = "reflexive" if node.upos == "PRON" else "agreement"
    for child in node.subject.after:
        if child.relation == "conj":
            both_singular = child.number == node.subject.number == "Sing"
            return "agreement_coordination" if both_singular and phenomenon == "agreement" else None
        phrase = list(child.nodes())
        nouns = [noun for noun in phrase if noun.upos == "NOUN"]
        if phrase[-1] in nodes[:index] and nouns and nouns[-1].number != node.number:
            return f"{phenomenon}_{construction(child)}"
    inside = phenomenon == "agreement" and is_in_object_relative(nodes, node)
    return "agreement_in_object_relative" if inside else None


def construction(modifier: Node) -> str:
    """What hangs on a noun: a prepositional phrase, or a relative clause whose subject or object the noun is."""
    if modifier.relation == "nmod":
        return "prepositional_phrase"
    subject = next(child for child in modifier.before if child.relation == "nsubj")
    return "subject_relative" if subject.form in ("who", "that") else "object_relative"


def is_in_object_relative(nodes: list[Node], verb: Node) -> bool:
    """Whether the verb's subject stands between it and a noun of the other number, which the clause modifies."""
    return any(
        clause.relation == "acl:relcl" and verb.subject in clause.before and noun.number != verb.number
        for noun in nodes
        for clause in noun.after
        if verb is clause or verb in clause.before
    )
