"""Trees and surprisals as SVG, for notebooks and reports: in the colours of the page around them, if it has any."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from html import escape
from unicodedata import east_asian_width
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from modeling_som.tags_som import Labels
from som.inference.parsing import Parse
from som.inference.surprisal import WordSurprisal
from som.syntax import Bracket, Tree, visible

Span = tuple[int, int]  # first word, 1 + last word
Columns = tuple[list[float], float]  # the middle of each word's column, and the width of them all
LEVEL, LEFT, BIT = 22, 34, 6  # height of a level of the tree, width of the axis, length of a bit
ARC = 30  # height of a level of arcs
NARROW, WIDE = set("iljtfr.,:;!'|I()[]"), set("mwMW@%")
STYLE = """
.som-figure { font: 15px Charter, Georgia, "DejaVu Serif", serif }
.som-figure text { fill: var(--ink, #1f232b); text-anchor: middle }
.som-figure .small { font: 11.5px system-ui, "DejaVu Sans", sans-serif }
.som-figure .label { font: 11px system-ui, "DejaVu Sans", sans-serif }
.som-figure .label { stroke: var(--panel, #fff); stroke-width: 4px; paint-order: stroke }
.som-figure .soft { fill: var(--soft, #5f6672) } .som-figure .end { text-anchor: end }
.som-figure .ground { fill: var(--panel, #fff) }
.som-figure path { fill: none; stroke: var(--soft, #5f6672); stroke-width: 1.2 }
.som-figure .number { stroke: var(--panel, #fff); stroke-width: 3px; paint-order: stroke }
.som-figure text.wrong { fill: var(--differing, #8a2f86); font-weight: 600 }
.som-figure path.wrong { stroke: var(--differing, #8a2f86); stroke-width: 2; stroke-dasharray: 5 3 }
.som-figure .structural { fill: var(--structural, #b2521b) } .som-figure .lexical { fill: var(--lexical, #2b64a8) }
.som-figure line { stroke: var(--line, #d8d4cc) }
.som-figure line.total { stroke: var(--ink, #1f232b); stroke-width: 2 }
"""


@dataclass(frozen=True)
class Placed:
    """A subtree in the picture."""

    x: float
    height: int  # levels above the words
    span: Span
    children: tuple[Placed, ...] = ()


def tree_figure(
    tree: Tree,
    *,
    labels: Mapping[Span, str] | None = None,
    wrong: Collection[Span] = (),
    wrong_labels: Collection[Span] = (),
    rows: Sequence[WordSurprisal] | None = None,
    columns: Columns | None = None,
) -> str:
    """A tree with its labels, those of words below them, and with `rows` the surprisals of its words.

    Constituents that are `wrong` are drawn in dashes; labels that are wrong, in the same colour. Pictures of the same
    words are aligned if they have the same `columns`."""
    words, labels = tree.words(), labels or {}
    tags = [labels.get((place, place + 1), "") for place in range(len(words))]
    centres, width = columns or word_centres([*map(wider, words, tags)], LEFT if rows else 0)
    root = nodes(tree, centres)
    figure, top = canvas(str(tree)), 18 + root.height * LEVEL
    draw_branches(figure, root, top, labels, wrong, wrong_labels)
    bottom = draw_words(figure, words, tags, centres, top + 26, wrong_labels)
    return figure_svg(figure, width, draw_bars(figure, rows, centres, width, bottom) if rows else bottom + 14)


def surprisal_figure(rows: Sequence[WordSurprisal], labels: Labels | None = None) -> str:
    """Words with their tree above, labelled if labels are given, and their surprisal below; a bit is as long in every
    such picture."""
    if labels:
        after = len(rows) - len(labels.leaf)  # the end of the sentence has no label
        labels = Labels([*labels.leaf, *[""] * after], [*labels.node, *[None] * after])
    parse = Parse([row.word for row in rows], [], [row.depth for row in rows], labels=labels)
    return tree_figure(parse.constituents, labels=parse.span_labels, rows=rows)


def shared_columns(words: Sequence[str], *labels: Mapping[Span, str]) -> Columns:
    """Columns for pictures of the same words with other labels, an axis left of them."""
    tags = [[one.get((place, place + 1), "") for place in range(len(words))] for one in labels]
    widest = [reduce(wider, row) for row in zip(words, *tags, strict=True)]
    return word_centres(widest, LEFT)


def standalone(picture: str) -> str:
    """A picture that is a file of its own: in plain colours, which every program for SVG knows.

    >>> standalone("<style>path { stroke: var(--soft, #5f6672) }</style>")
    '<style>path { stroke: #5f6672 }</style>'
    """
    return re.sub(r"var\(--\w+, (#\w+)\)", r"\1", picture)


def framed(picture: str, note: str = "") -> str:
    """A picture for a notebook's page, which scrolls if it is wider, with a line of text below."""
    below = f'<div style="font-size: 85%; opacity: .8">{escape(note)}</div>' if note else ""
    return f'<div style="overflow-x: auto">{picture}</div>{below}'


def dependency_figure(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> str:
    """Words with an arc from each head to its dependents; heads are counted from 1, that of the root is 0."""
    arcs = [(min(word, head - 1), max(word, head - 1), word) for word, head in enumerate(heads) if head]
    levels = arc_levels([(left, right) for left, right, _ in arcs])
    room = [max(len(relations[word]) * 6.0 + 24, 0) / (right - left) for left, right, word in arcs]
    centres, width = word_centres(words, 0, least=max([36.0, *room]))
    figure, bottom = canvas(" ".join(words)), 34 + ARC * max([1, *levels])
    root = list(heads).index(0)
    SubElement(figure, "path", {"d": f"M{centres[root]:.1f} 18V{bottom - 4}"})
    draw_tip(figure, centres[root], bottom)
    write_label(figure, centres[root], 14, relations[root], "label")
    for (left, right, word), level in zip(arcs, levels, strict=True):
        draw_arc(figure, centres, left, right, word, bottom, level, relations[word])
    draw_words(figure, words, [""] * len(words), centres, bottom + 18)
    return figure_svg(figure, width, bottom + 32)


def arc_levels(arcs: Sequence[Span]) -> list[int]:
    """How high each arc goes: above all that lie under it.

    >>> arc_levels([(0, 1), (0, 3), (2, 3)])
    [1, 2, 1]
    """
    levels: dict[Span, int] = {}
    for left, right in sorted(arcs, key=lambda arc: arc[1] - arc[0]):
        under = [level for (a, b), level in levels.items() if left <= a and b <= right]
        levels[left, right] = 1 + max(under, default=0)
    return [levels[arc] for arc in arcs]


def draw_arc(
    figure: Element,
    centres: Sequence[float],
    left: int,
    right: int,
    dependent: int,
    bottom: float,
    level: int,
    relation: str,
) -> None:
    """An arc with its relation on top and an arrow at the dependent."""
    a, b = (
        centres[place] + (-4 if place != dependent else 4) * (1 if place == right else -1) for place in (left, right)
    )
    top, bend = bottom - 4 - level * ARC, min(14.0, (b - a) / 2)
    path = f"M{a:.1f} {bottom - 4}V{top + bend}Q{a:.1f} {top} {a + bend:.1f} {top}H{b - bend:.1f}"
    path += f"Q{b:.1f} {top} {b:.1f} {top + bend}V{bottom - 4}"
    SubElement(figure, "path", {"d": path})
    draw_tip(figure, b if dependent == right else a, bottom)
    write_label(figure, (a + b) / 2, top + 4, relation, "label")


def draw_tip(figure: Element, x: float, bottom: float) -> None:
    """The tip of an arrow down to a word."""
    SubElement(figure, "path", {"d": f"M{x - 3.5:.1f} {bottom - 10}L{x:.1f} {bottom - 3}L{x + 3.5:.1f} {bottom - 10}"})


# ---------------------------------------------------------------------------------------------- where things are


def word_centres(words: Sequence[str], left: float, least: float = 36.0) -> tuple[list[float], float]:
    """The middle of each word's column, and the width of them all and of what is left of them."""
    centres, edge = [], left
    for word in words:
        wide = max(least, letters(word) + 14)
        centres.append(edge + wide / 2)
        edge += wide
    return centres, edge + 6


def letters(word: str) -> float:
    """About how wide a word is, in pixels.

    >>> letters("ill") < letters("cat") < letters("mow")
    True
    """
    sizes = (4.5 if c in NARROW else 13 if c in WIDE else 15 if east_asian_width(c) in "WF" else 8.5 for c in word)
    return sum(sizes)


def wider(word: str, tag: str) -> str:
    """Whichever needs more room; tags are written smaller.

    >>> wider("a", "nsubj:pass"), wider("understanding", "obj")
    ('nsubj:p', 'understanding')
    """
    return max(word, tag[: round(0.7 * len(tag))], key=letters)


def nodes(tree: Tree, centres: Sequence[float]) -> Placed:
    """The tree with a place for each subtree."""
    levels: list[list[Placed]] = [[]]
    read = 0
    for event in tree.events():
        if event is Bracket.OPEN:
            levels.append([])
        elif event is Bracket.CLOSE:
            children = tuple(levels.pop())
            levels[-1].append(parent(children))
        else:
            levels[-1].append(Placed(centres[read], 0, (read, read + 1)))
            read += 1
    return levels[0][0]


def parent(children: tuple[Placed, ...]) -> Placed:
    first, last = children[0], children[-1]
    height = 1 + max(child.height for child in children)
    return Placed((first.x + last.x) / 2, height, (first.span[0], last.span[1]), children)


# ---------------------------------------------------------------------------------------------- what is drawn


def canvas(label: str) -> Element:
    """An empty figure with its styles, a background, and what screen readers say of it."""
    names = {"class": "som-figure", "role": "img", "aria-label": visible(label)}
    figure = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **names})
    SubElement(figure, "style").text = STYLE
    SubElement(figure, "rect", {"class": "ground", "width": "100%", "height": "100%"})
    return figure


def figure_svg(figure: Element, width: float, height: float) -> str:
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    figure.attrib.update(size)
    return ElementTree.tostring(figure, "unicode")


def write_label(figure: Element, x: float, y: float, text: str, kind: str = "") -> None:
    SubElement(figure, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": kind}).text = visible(text)


def draw_branches(
    figure: Element,
    root: Placed,
    bottom: float,
    labels: Mapping[Span, str],
    wrong: Collection[Span],
    wrong_labels: Collection[Span],
) -> None:
    """A bar for each constituent, with an arm down to each of its children; labels above the bars."""
    stack, found = [root], []
    while stack:
        node = stack.pop()
        stack += node.children
        found += [node] * bool(node.children)
    for node in sorted(found, key=lambda node: node.span in wrong):
        SubElement(figure, "path", {"d": arms(node, bottom), "class": "wrong" if node.span in wrong else ""})
    for node in found:
        if node.span in labels and node.span[1] - node.span[0] > 1:
            kind = "label wrong" if node.span in wrong_labels else "label"
            write_label(figure, node.x, bottom - node.height * LEVEL - 5, labels[node.span], kind)


def arms(node: Placed, bottom: float) -> str:
    """The path of a node's bar and its arms, the outer ones with round corners."""
    y, r = bottom - node.height * LEVEL, 4
    feet = [(child.x, bottom - child.height * LEVEL + (0 if child.children else 10)) for child in node.children]
    (left, start), *inner, (right, end) = feet if len(feet) > 1 else feet * 2
    if left == right:
        return f"M{left:.1f} {y}V{start}"
    outer = f"M{left:.1f} {start}V{y + r}q0 {-r} {r} {-r}H{right - r:.1f}q{r} 0 {r} {r}V{end}"
    return outer + "".join(f"M{x:.1f} {y}V{foot}" for x, foot in inner)


def draw_words(
    figure: Element,
    words: Sequence[str],
    tags: Sequence[str],
    centres: Sequence[float],
    y: float,
    wrong_labels: Collection[Span] = (),
) -> float:
    """Words with their tags below, if they have any; where they end."""
    for x, word in zip(centres, words, strict=True):
        write_label(figure, x, y, word)
    for place, (x, tag) in enumerate(zip(centres, tags, strict=True)):
        if tag:
            write_label(figure, x, y + 16, tag, "small wrong" if (place, place + 1) in wrong_labels else "small soft")
    return y + 16 * any(tags)


def draw_bars(
    figure: Element, rows: Sequence[WordSurprisal], centres: Sequence[float], width: float, words: float
) -> float:
    """Bars below the words: structural, lexical, a line at the surprisal, an axis in bits; where they end."""
    zero, most = words + 14, max(max(row.surprisal, (row.structural or 0) + row.lexical) for row in rows)
    for tick in range(0, int(most) + 1, 5 if most < 50 else 20):
        y = zero + tick * BIT
        SubElement(figure, "line", {"x1": str(LEFT), "x2": f"{width - 4:.1f}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"})
        write_label(figure, LEFT - 6, y + 4, str(tick), "small soft end")
    for x, row in zip(centres, rows, strict=True):
        y = zero
        for kind, bits in (("structural", row.structural or 0), ("lexical", row.lexical)):
            box = {"x": f"{x - 9:.1f}", "y": f"{y:.1f}", "width": "18", "height": f"{bits * BIT:.1f}", "class": kind}
            SubElement(figure, "rect", box)
            y += bits * BIT
        end = zero + row.surprisal * BIT
        line = {"x1": f"{x - 13:.1f}", "x2": f"{x + 13:.1f}", "y1": f"{end:.1f}", "y2": f"{end:.1f}", "class": "total"}
        SubElement(figure, "line", line)
        write_label(figure, x, max(y, end) + 15, f"{row.surprisal:.1f}", "small number")
    return zero + most * BIT + 24
