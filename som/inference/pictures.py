"""Trees and surprisals as SVG, for notebooks and reports: in the colours of the page around them, if it has any."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from unicodedata import east_asian_width
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from som.inference.surprisal import WordSurprisal
from som.syntax import Bracket, Tree, tree_from_depths

Span = tuple[int, int]  # first word, 1 + last word
LEVEL, LEFT, BARS = 22, 34, 100  # height of a level of the tree, width of the axis, height of the longest bar
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
.som-figure path.wrong { stroke: var(--structural, #b2521b); stroke-width: 2; stroke-dasharray: 5 3 }
.som-figure .structural { fill: var(--structural, #b2521b) } .som-figure .lexical { fill: var(--lexical, #2b64a8) }
.som-figure line { stroke: var(--line, #d8d4cc) }
.som-figure line.total { stroke: var(--ink, #1f232b); stroke-width: 2 }
"""


@dataclass(frozen=True)
class Node:
    """A subtree in the picture."""

    x: float
    height: int  # levels above the words
    span: Span
    children: tuple[Node, ...] = ()


def tree_figure(
    tree: Tree,
    *,
    wrong: Collection[Span] = (),
    labels: Mapping[Span, str] | None = None,
    tags: Sequence[str] | None = None,
) -> str:
    """A tree; constituents that are `wrong` are drawn in dashes."""
    words = tree.words()
    centres, width = columns(words, 0)
    root = nodes(tree, centres)
    figure, top = canvas(str(tree)), 8 + root.height * LEVEL
    draw_tree(figure, root, top, wrong, labels or {})
    draw_words(figure, words, tags, centres, top + 26)
    return finished(figure, width, top + (56 if tags else 40))


def dependency_figure(words: Sequence[str], heads: Sequence[int], relations: Sequence[str]) -> str:
    """Words with an arc from each head to its dependents; heads are counted from 1, that of the root is 0."""
    arcs = [(min(word, head - 1), max(word, head - 1), word) for word, head in enumerate(heads) if head]
    levels = arc_levels([(left, right) for left, right, _ in arcs])
    room = [max(len(relations[word]) * 6.0 + 24, 0) / (right - left) for left, right, word in arcs]
    centres, width = columns(words, 0, least=max([36.0, *room]))
    figure, bottom = canvas(" ".join(words)), 34 + ARC * max([1, *levels])
    root = list(heads).index(0)
    SubElement(figure, "path", {"d": f"M{centres[root]:.1f} 18V{bottom - 4}"})
    draw_tip(figure, centres[root], bottom)
    write(figure, centres[root], 14, relations[root], "label")
    for (left, right, word), level in zip(arcs, levels, strict=True):
        draw_arc(figure, centres, left, right, word, bottom, level, relations[word])
    draw_words(figure, words, None, centres, bottom + 18)
    return finished(figure, width, bottom + 32)


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
    write(figure, (a + b) / 2, top + 4, relation, "label")


def draw_tip(figure: Element, x: float, bottom: float) -> None:
    """The tip of an arrow down to a word."""
    SubElement(figure, "path", {"d": f"M{x - 3.5:.1f} {bottom - 10}L{x:.1f} {bottom - 3}L{x + 3.5:.1f} {bottom - 10}"})


def surprisal_figure(rows: Sequence[WordSurprisal], most: float | None = None) -> str:
    """Words with their tree above and their surprisal below; `most` bits are the longest bar, to share an axis."""
    words = [row.word for row in rows]
    centres, width = columns(words, LEFT)
    tree = tree_from_depths([row.depth for row in rows], words)
    root = nodes(tree, centres)
    figure, top = canvas(str(tree)), 8 + root.height * LEVEL
    draw_tree(figure, root, top, (), {})
    draw_words(figure, words, None, centres, top + 26)
    draw_bars(figure, rows, centres, width, top + 40, most or longest_bar(rows))
    return finished(figure, width, top + BARS + 66)


def longest_bar(rows: Sequence[WordSurprisal]) -> float:
    """In bits; of several sentences, the largest of these makes an axis for all."""
    return max(1.0, *(max(row.surprisal, (row.structural or 0) + row.lexical) for row in rows))


# ---------------------------------------------------------------------------------------------- where things are


def columns(words: Sequence[str], left: float, least: float = 36.0) -> tuple[list[float], float]:
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


def nodes(tree: Tree, centres: Sequence[float]) -> Node:
    """The tree with a place for each subtree."""
    levels: list[list[Node]] = [[]]
    read = 0
    for event in tree.events():
        if event is Bracket.OPEN:
            levels.append([])
        elif event is Bracket.CLOSE:
            children = tuple(levels.pop())
            levels[-1].append(parent(children))
        else:
            levels[-1].append(Node(centres[read], 0, (read, read + 1)))
            read += 1
    return levels[0][0]


def parent(children: tuple[Node, ...]) -> Node:
    first, last = children[0], children[-1]
    height = 1 + max(child.height for child in children)
    return Node((first.x + last.x) / 2, height, (first.span[0], last.span[1]), children)


# ---------------------------------------------------------------------------------------------- what is drawn


def canvas(label: str) -> Element:
    """An empty figure with its styles, a background, and what screen readers say of it."""
    names = {"class": "som-figure", "role": "img", "aria-label": label}
    figure = Element("svg", {"xmlns": "http://www.w3.org/2000/svg", **names})
    SubElement(figure, "style").text = STYLE
    SubElement(figure, "rect", {"class": "ground", "width": "100%", "height": "100%"})
    return figure


def finished(figure: Element, width: float, height: float) -> str:
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    figure.attrib.update(size)
    return ElementTree.tostring(figure, "unicode")


def write(figure: Element, x: float, y: float, text: str, kind: str = "") -> None:
    SubElement(figure, "text", {"x": f"{x:.1f}", "y": f"{y:.1f}", "class": kind}).text = text


def draw_tree(figure: Element, root: Node, bottom: float, wrong: Collection[Span], labels: Mapping[Span, str]) -> None:
    """A bar for each constituent, with an arm down to each of its children; labels above the bars."""
    stack, found = [root], []
    while stack:
        node = stack.pop()
        stack += node.children
        found += [node] * bool(node.children)
    for node in sorted(found, key=lambda node: node.span in wrong):
        y, ends = bottom - node.height * LEVEL, (node.children[0].x, node.children[-1].x)
        feet = [(child.x, bottom - child.height * LEVEL + (0 if child.children else 10)) for child in node.children]
        path = f"M{ends[0]:.1f} {y}H{ends[1]:.1f}" + "".join(f"M{x:.1f} {y}V{foot}" for x, foot in feet)
        SubElement(figure, "path", {"d": path, "class": "wrong" if node.span in wrong else ""})
    for node in found:
        if node.span in labels:
            write(figure, node.x, bottom - node.height * LEVEL - 5, labels[node.span], "label")


def draw_words(
    figure: Element, words: Sequence[str], tags: Sequence[str] | None, centres: Sequence[float], y: float
) -> None:
    for x, word in zip(centres, words, strict=True):
        write(figure, x, y, word)
    for x, tag in zip(centres, tags or [], strict=False):
        write(figure, x, y + 16, tag, "small soft")


def draw_bars(
    figure: Element, rows: Sequence[WordSurprisal], centres: Sequence[float], width: float, zero: float, most: float
) -> None:
    """Bars that hang from the words: structural, lexical, a line at the surprisal, and an axis in bits."""
    scale = BARS / most
    step = next(size for size in (1, 2, 5, 10, 20, 50, 100) if most / size <= 4 or size == 100)
    for tick in range(0, int(most) + 1, step):
        y = zero + tick * scale
        SubElement(figure, "line", {"x1": str(LEFT), "x2": f"{width - 4:.1f}", "y1": f"{y:.1f}", "y2": f"{y:.1f}"})
        write(figure, LEFT - 6, y + 4, str(tick), "small soft end")
    for x, row in zip(centres, rows, strict=True):
        y = zero
        for kind, bits in (("structural", row.structural or 0), ("lexical", row.lexical)):
            box = {"x": f"{x - 9:.1f}", "y": f"{y:.1f}", "width": "18", "height": f"{bits * scale:.1f}", "class": kind}
            SubElement(figure, "rect", box)
            y += bits * scale
        end = zero + row.surprisal * scale
        line = {"x1": f"{x - 13:.1f}", "x2": f"{x + 13:.1f}", "y1": f"{end:.1f}", "y2": f"{end:.1f}", "class": "total"}
        SubElement(figure, "line", line)
        write(figure, x, max(y, end) + 15, f"{row.surprisal:.1f}", "small")
