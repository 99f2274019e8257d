"use strict";
/* Draws what a SOM expects and decides at each word. All text goes into the page as text, never as markup. */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const sentences = data.sentences;
const columns = data.columns;                       // per column, the word's index in each sentence, or null
const names = sentences.length > 1 ? ["A", "B"] : [""];
const state = { at: 0, chosen: sentences.map(() => null), playing: null };
const byId = id => document.getElementById(id);
const last = 2 * columns.length - 1;

/* ---------------------------------------------------------------- elements */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value);
  }
  element.append(...children.filter(child => child !== null));
  return element;
}
const html = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
const text = (x, y, content, kind = "") => svg("text", { x, y, class: kind }, content);

/* ---------------------------------------------------------------- numbers and names */

const bits = value => value.toFixed(2);
const signed = value => (value < 0 ? "−" : "+") + bits(Math.abs(value));
const sum = values => values.reduce((total, value) => total + value, 0);
const has = value => value !== null && value !== undefined;

function percent(p) {
  const value = 100 * p;
  if (value < 0.001) return "<0.001 %";
  return (value >= 9.95 ? value.toFixed(0) : value >= 0.95 ? value.toFixed(1) : String(+value.toPrecision(1))) + " %";
}

function shorten(word, most = 22) {
  const letters = Array.from(word);
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : word;
}

const isEnd = (sentence, i) => i === sentence.words.length - 1;
const nameOf = (sentence, i) => isEnd(sentence, i) ? "end" : sentence.words[i].word;
const quoted = (sentence, i) => isEnd(sentence, i) ? "the end" : `“${shorten(nameOf(sentence, i))}”`;

/* The words that a subtree covers; place 0 is the start of the sentence, place i the word i. */
function spanName(sentence, first, end) {
  const words = sentence.words.slice(Math.max(first - 1, 0), end - 1).map(row => shorten(row.word, 16));
  const inner = words.length > 5 ? [...words.slice(0, 2), "…", ...words.slice(-2)] : words;
  if (first > 0) return inner.join(" ");
  return words.length ? `start · ${inner.join(" ")}` : "start";
}

/* ---------------------------------------------------------------- where we are */

/* Column and moment of the slider, and for one sentence the word in question: the next one where it has a gap. */
function placeIn(s) {
  const column = state.at >> 1, here = columns[column][s];
  if (here !== null) return { word: here, seen: state.at % 2 === 1 };
  const next = columns.slice(column).find(pair => pair[s] !== null);
  return { word: next[s], seen: false };
}

const columnOf = (s, word) => columns.findIndex(pair => pair[s] === word);

function goTo(at) {
  state.at = Math.max(0, Math.min(last, at));
  state.chosen.fill(null);
  render();
}

function choose(s, place) {
  state.chosen[s] = state.chosen[s] === place ? null : place;
  render();
}

/* ---------------------------------------------------------------- trees */

/* The binary tree of these depths: a word joins the subtree that begins with the last shallower word. */
function treeOf(depths) {
  const stack = [];
  const mergeDownTo = depth => {
    while (stack.length > 1 && stack[stack.length - 1].depth >= depth) {
      const right = stack.pop(), left = stack.pop();
      stack.push({ left, right, first: left.first, end: right.end, depth: left.depth, height: 1 + Math.max(left.height, right.height) });
    }
  };
  depths.forEach((depth, i) => {
    mergeDownTo(depth);
    stack.push({ first: i, end: i + 1, depth, height: 0 });
  });
  mergeDownTo(Math.min(...depths));
  return stack[0];
}

/* Subtrees that end at the last word, from the root down: what is still open. */
function spineOf(root) {
  const spine = [];
  for (let node = root; node; node = node.right) spine.push(node);
  return spine;
}

/* The subtree of each place of a word: the open one that begins with the same word. */
const sistersOf = (row, spine) => row.places.map(place => spine.find(node => node.first === place.first));

const nodesOf = node => node.right ? [...nodesOf(node.left), ...nodesOf(node.right), node] : [node];
const takenDepths = (sentence, count) => [0, ...sentence.words.slice(0, count).map(row => row.depth)];

/* Where nodes are, and where the lines down to them end: those to words go on to the words. */
function layOut(root, x, y, foot) {
  for (const node of nodesOf(root)) {
    node.x = node.right ? (node.left.x + node.right.x) / 2 : x(node.first);
    node.y = y(node.height);
    node.foot = node.right ? node.y : foot;
  }
}

/* A node's bar with both its arms, corners rounded. */
function arms(node) {
  const { left, right, y } = node, r = Math.min(5, (right.x - left.x) / 4, (left.foot - y) / 2, (right.foot - y) / 2);
  return `M${left.x} ${left.foot}V${y + r}Q${left.x} ${y} ${left.x + r} ${y}H${right.x - r}Q${right.x} ${y} ${right.x} ${y + r}V${right.foot}`;
}

function drawTree(root, open, marked) {
  const edges = nodesOf(root).filter(node => node.right);
  edges.sort((a, b) => open.has(a) - open.has(b));
  return edges.map(node => svg("path", { d: arms(node), class: `edge ${open.has(node) ? "spine" : ""} ${marked.has(node) ? "differing" : ""}` }));
}

/* The labelled constituents of the words alone: the start of the sentence does not count. */
function labelled(sentence, root) {
  const nodes = new Map();
  for (const node of nodesOf(root)) {
    const span = `${Math.max(node.first - 1, 0)}-${node.end - 1}`;
    if (node.right && !nodes.has(span)) nodes.set(span, node);
  }
  return (sentence.labels || []).filter(([first, end]) => nodes.has(`${first}-${end}`)).map(([first, end, label, decided]) => [nodes.get(`${first}-${end}`), label, decided]);
}

/* Whether nothing that follows can change a label any more, once so many words are read; the end is one. */
const isDecided = (now, decided) => now.word + (now.seen ? 1 : 0) >= decided;

/* A label as the whole sentence has it, marked where it is not decided yet. */
function drawLabel(x, y, label, kind, settled) {
  const element = text(x, y, label, `${kind} ${settled ? "" : "undecided"}`), told = `${label}: not decided yet`;
  return settled ? element : fill(element, { role: "img", "aria-label": told }, [svg("title", {}, told)]);
}

const drawLabels = (sentence, root, marked, now) => labelled(sentence, root).map(([node, label, decided]) => drawLabel(node.x, node.y - 5, label, `label ${marked.has(node) ? "differing" : ""}`, isDecided(now, decided)));

/* ---------------------------------------------------------------- two sentences */

/* The tree of the words before the one in question. */
const treeSoFar = s => treeOf(takenDepths(sentences[s], placeIn(s).word));

/* What a subtree covers of the columns in which both sentences have a word, the start of both among them; null if that
   is less than two of them, which makes no constituent to be compared. */
function sharedSpan(s, node) {
  const shared = [];
  for (let word = node.first; word < node.end; word++) {
    const column = word ? columnOf(s, word - 1) : -1;
    if (!word || !columns[column].includes(null)) shared.push(column);
  }
  return shared.length > 1 ? `${shared[0]} ${shared[shared.length - 1]}` : null;
}

/* Of a tree for each sentence, the constituents that the other tree does not have. */
function differences(trees) {
  const spans = trees.map((tree, s) => new Map(nodesOf(tree).map(node => [node, sharedSpan(s, node)])));
  if (trees.length < 2) return [new Set()];
  return spans.map((own, s) => {
    const others = new Set(spans[1 - s].values());
    return new Set([...own].filter(([, span]) => span !== null && !others.has(span)).map(([node]) => node));
  });
}

/* Of a tree for each sentence, the constituents whose label is another one in the other tree, both being decided. */
function differentLabels(trees) {
  if (trees.length < 2) return [new Set()];
  const found = trees.map((tree, s) => labelled(sentences[s], tree).filter(([, , decided]) => isDecided(placeIn(s), decided)).map(([node, label]) => [node, sharedSpan(s, node), label]));
  return found.map((own, s) => {
    const others = new Map(found[1 - s].map(([, span, label]) => [span, label]));
    return new Set(own.filter(([, span, label]) => span !== null && others.has(span) && others.get(span) !== label).map(([node]) => node));
  });
}

/* ---------------------------------------------------------------- the figure */

const measuring = document.createElement("canvas").getContext("2d");
function widthOf(content, size = 16) {
  measuring.font = `${size}px ${getComputedStyle(document.documentElement).getPropertyValue("--words")}`;
  return measuring.measureText(content).width;
}

const LEFT = 34, RIGHT = 18, START = 44, LEVEL = 24, BARS = 116, PILL = 52;

/* Centres of the columns, that of the start of the sentence first; wider where there is room. */
function columnCentres(available) {
  const widths = columns.map(pair => Math.max(PILL + 6, ...pair.map((i, s) => i === null ? 0 : widthOf(shorten(nameOf(sentences[s], i))) + 16)));
  const spare = Math.max(0, Math.min((available - LEFT - START - RIGHT - sum(widths)) / widths.length, 60));
  const centres = [LEFT + START / 2];
  let edge = LEFT + START;
  for (const width of widths) {
    centres.push(edge + (width + spare) / 2);
    edge += width + spare;
  }
  return { centres, width: edge + RIGHT, widths: [START, ...widths.map(width => width + spare)] };
}

function highest(sentence) {
  return Math.max(...sentence.words.map((_, count) => treeOf(takenDepths(sentence, count)).height));
}

const costOf = row => has(row.structural) ? row.structural + row.lexical : row.lexical;
const costliest = Math.max(1, ...sentences.flatMap(sentence => sentence.words.map(row => Math.max(row.surprisal, costOf(row)))));
const heights = sentences.map(highest);

function drawFigure() {
  const holder = byId("figure");
  const { centres, width, widths } = columnCentres(holder.clientWidth), scrolled = holder.scrollLeft;
  const root = svg("svg", { width, role: "group", "aria-label": byId("status").textContent });
  const gutter = svg("svg", { width: LEFT, class: "gutter" });  // stays in sight while the words scroll
  const column = state.at >> 1, backdrop = svg("rect", { class: "band", x: centres[column + 1] - widths[column + 1] / 2, y: 0, width: widths[column + 1], rx: 6 });
  root.append(backdrop);
  let y = 4;
  const trees = sentences.map((_, s) => treeSoFar(s)), marked = differences(trees), relabelled = differentLabels(trees);
  trees.forEach((tree, s) => { y = drawSentence(root, gutter, s, tree, marked[s], relabelled[s], centres, width, y); });
  if (sentences.length > 1) y = drawDifference(root, gutter, centres, width, y);
  fill(root, { height: y, viewBox: `0 0 ${width} ${y}` }, []);
  gutter.setAttribute("height", y);
  backdrop.setAttribute("height", y);
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.place : undefined;
  holder.replaceChildren(root, gutter);
  if (focused) { const again = root.querySelector(`[data-place="${focused}"]`); if (again) again.focus(); }
  holder.scrollLeft = scrolled;
  const place = centres[column + 1] - scrolled;
  if (place < 120 || place > holder.clientWidth - 60) holder.scrollLeft = centres[column + 1] - holder.clientWidth / 2;
}

function drawSentence(root, gutter, s, tree, marked, relabelled, centres, width, top) {
  const sentence = sentences[s], now = placeIn(s), tagged = sentence.words.some(row => row.tag);
  const x = i => i === 0 ? centres[0] : centres[columnOf(s, i - 1) + 1];
  const leaves = top + 16 + heights[s] * LEVEL + 10, baseline = leaves + 32, zero = baseline + (tagged ? 28 : 14);
  const spine = spineOf(tree);
  layOut(tree, x, height => leaves - height * LEVEL, baseline - 17);
  root.append(svg("g", { role: "img", "aria-label": `Tree so far: ${bracketed(tree, ["start", ...sentence.words.map(row => row.word)])}` }, ...drawTree(tree, new Set(spine), marked)));
  if (!tree.right) root.append(svg("path", { d: `M${tree.x} ${tree.y}V${tree.foot}`, class: "edge spine" }));
  root.append(...drawLabels(sentence, tree, relabelled, now));
  if (names[s]) gutter.append(text(4, baseline, names[s], "small soft"));
  root.append(svg("circle", { cx: centres[0], cy: baseline - 6, r: 3, class: "start" }));
  root.append(drawPlaces(s, spine, now, x(now.word + 1), baseline));
  root.append(drawGrid(width, zero));
  gutter.append(drawNumbers(zero));
  sentence.words.forEach((row, i) => root.append(drawWord(s, i, x(i + 1), baseline, now), drawBars(row, x(i + 1), zero, i, now)));
  return zero + BARS + 30;
}

function stageOf(i, now) {
  return i < now.word || (i === now.word && now.seen) ? "" : "ahead";
}

function differs(s, i) {
  if (sentences.length < 2) return false;
  const pair = columns.find(one => one[s] === i);
  return pair.includes(null) || sentences[0].words[pair[0]].word !== sentences[1].words[pair[1]].word;
}

function drawWord(s, i, x, y, now) {
  const sentence = sentences[s], row = sentence.words[i], shown = shorten(nameOf(sentence, i));
  const kind = isEnd(sentence, i) ? "small soft middle" : "middle", half = widthOf(shown) / 2;
  const title = row.tokens === row.word || isEnd(sentence, i) ? row.word : `${row.word}, read as ${row.tokens}`;
  return svg("g", { class: `word ${stageOf(i, now)}`, onclick: () => goTo(2 * columnOf(s, i) + 1) },
    svg("title", {}, title), text(x, y, shown, kind), differs(s, i) ? svg("line", { class: "differing", x1: x - half, x2: x + half, y1: y + 4, y2: y + 4 }) : null,
    row.tag ? drawLabel(x, y + 16, row.tag, "small soft middle", isDecided(now, row.decided)) : null);
}

/* Round steps for an axis of about four ticks. */
function ticks(most) {
  const step = [1, 2, 5, 10, 20, 50].find(size => most / size <= 4) || 100;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}
const scale = value => value / costliest * (BARS - 6);

const drawGrid = (width, zero) => svg("g", {}, ...ticks(costliest).map(tick => svg("line", { x1: LEFT, x2: width - 4, y1: zero + scale(tick), y2: zero + scale(tick), class: tick ? "grid" : "zero" })));
const drawNumbers = zero => svg("g", { class: "axis" }, ...ticks(costliest).map(tick => text(LEFT - 6, zero + scale(tick) + 4, String(tick), "small soft end")));

function drawBars(row, x, zero, i, now) {
  const structural = row.structural || 0, tall = scale(Math.max(row.surprisal, costOf(row)));
  return svg("g", { class: `bars ${stageOf(i, now)} ${i === now.word ? "now" : ""}` },
    svg("title", {}, describeCost(row)),
    svg("rect", { class: "structural", x: x - 9, width: 18, y: zero, height: scale(structural) }),
    svg("rect", { class: "lexical", x: x - 9, width: 18, y: zero + scale(structural), height: scale(row.lexical) }),
    svg("line", { class: "total", x1: x - 13, x2: x + 13, y1: zero + scale(row.surprisal), y2: zero + scale(row.surprisal) }),
    text(x, zero + tall + 15, row.surprisal.toFixed(1), "small middle number"));
}

function describeCost(row) {
  const parts = has(row.structural) ? `: structural ${bits(row.structural)}, lexical ${bits(row.lexical)}` : "";
  return `${row.word}: surprisal ${bits(row.surprisal)} bits${parts}`;
}

/* Chances of all places of the current word: p′ before it is seen, p afterwards. */
function chances(row, seen) {
  return row.places.map(place => seen || !has(place.structural) ? place.posterior : 2 ** -place.structural);
}

function drawPlaces(s, spine, now, x, baseline) {
  const sentence = sentences[s], row = sentence.words[now.word], weights = chances(row, now.seen);
  const group = svg("g", {}), { taken } = row, sisters = sistersOf(row, spine);
  if (!has(row.places[0].structural) && !now.seen) return group;
  if (now.seen) group.append(svg("path", { class: "edge new", d: `M${x} ${sisters[taken].y}V${baseline - 17}` }));
  sisters.forEach((node, place) => {
    const kinds = ["place", now.seen && place === taken ? "taken" : "", state.chosen[s] === place ? "chosen" : "", (now.seen ? place === taken : weights[place] > 0.5) ? "likely" : ""];
    const from = node.right ? node.right.x : node.x;
    const label = `${spanName(sentence, node.first, node.end)}: ${percent(weights[place])}${now.seen && place === taken ? ", taken" : ""}`;
    const pick = event => { if (event.type === "click" || event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(s, place); } };
    group.append(svg("g", { class: kinds.join(" "), tabindex: 0, role: "button", "aria-pressed": String(state.chosen[s] === place), "aria-label": label, "data-place": `${s}-${place}`, onclick: pick, onkeydown: pick },
      svg("title", {}, label),
      svg("line", { class: "hit", x1: node.x, x2: x, y1: node.y, y2: node.y, stroke: "transparent", "stroke-width": 20 }),
      svg("line", { class: "reach", x1: from, x2: x, y1: node.y, y2: node.y, "stroke-opacity": 0.25 + 0.75 * weights[place] }),
      svg("circle", { cx: node.x, cy: node.y, r: 2.5 + 5 * Math.sqrt(weights[place]) }),
      svg("g", { class: "pill" }, svg("rect", { x: x - PILL / 2, y: node.y - 9, width: PILL, height: 18, rx: 9 }), text(x, node.y + 4, percent(weights[place])))));
  });
  return group;
}

/* Surprisal in A minus surprisal in B, where both have a word. */
function drawDifference(root, gutter, centres, width, top) {
  const gaps = columns.map(([a, b]) => a === null || b === null ? null : sentences[0].words[a].surprisal - sentences[1].words[b].surprisal);
  const most = Math.max(1, ...gaps.filter(has).map(Math.abs)), middle = top + 52;
  gutter.append(text(4, top + 8, "A − B, in bits", "small soft"));
  root.append(svg("line", { class: "zero", x1: LEFT, x2: width - 4, y1: middle, y2: middle }));
  gaps.forEach((gap, c) => {
    if (gap === null) return;
    const tall = Math.abs(gap) / most * 24, x = centres[c + 1];
    root.append(svg("g", { class: c > state.at >> 1 ? "ahead" : "" },
      svg("rect", { class: gap > 0 ? "more" : "less", x: x - 9, width: 18, y: gap > 0 ? middle - tall : middle, height: tall }),
      text(x, gap > 0 ? middle - tall - 5 : middle + tall + 14, Math.abs(gap) < 0.05 ? "0" : signed(gap).slice(0, -1), "small middle")));
  });
  return top + 98;
}

/* ---------------------------------------------------------------- the panels */

const panel = (kind, title, ...children) => html("section", { class: kind }, html("h2", {}, title), ...children);
const titled = (s, title) => names[s] ? `${names[s]} · ${title}` : title;

function expectedPanel(s) {
  const sentence = sentences[s], now = placeIn(s), row = sentence.words[now.word], read = isEnd(sentence, now.word) ? row.word : row.tokens.split(" ")[0].replace(/^Ġ/, "");
  const entries = row.expected.map(([word, p]) => ({ word, p, seen: now.seen && word === read }));
  if (now.seen && has(row.places[0].structural) && !entries.some(entry => entry.seen)) entries.push({ word: read, p: mixtureOf(row), seen: true });
  const others = sentences.length > 1 ? new Set(sentences[1 - s].words[placeIn(1 - s).word].expected.map(([word]) => word)) : null;
  const most = Math.max(...sentences.map((one, i) => one.words[placeIn(i).word].expected[0][1])), endName = sentence.words[sentence.words.length - 1].word;
  const rows = entries.map(entry => html("tr", { class: `${entry.seen ? "seen" : ""} ${others && !entry.seen && !others.has(entry.word) ? "only" : ""}` },
    html("td", { class: /^UNK(-|$)/.test(entry.word) || entry.word === endName ? "class" : "" }, entry.word === endName ? "end" : entry.word),
    html("td", { class: "bar" }, html("div", { class: "track" }, html("div", { class: "part lexical", style: `width:${100 * entry.p / most}%` }))),
    html("td", {}, percent(entry.p))));
  const title = now.seen ? `Expected in place of ${quoted(sentence, now.word)}` : "Words expected next";
  const head = html("thead", {}, html("tr", {}, html("th", { scope: "col" }, "word"), html("th", {}), html("th", { scope: "col" }, "probability")));
  const readAs = now.seen && row.tokens !== row.word ? html("p", { class: "note" }, `${quoted(sentence, now.word)} is read as ${row.tokens}.`) : null;
  const only = rows.some(row => row.classList.contains("only")) ? html("p", { class: "note only" }, `not among the ten of ${names[1 - s]}`) : null;
  return panel("expected", titled(s, title), html("table", {}, head, html("tbody", {}, ...rows)), only, readAs);
}

function mixtureOf(row) {
  return sum(row.places.map(place => 2 ** -(place.structural + place.lexical)));
}

/* What the word costs at each place: both parts, the further pieces of a word as in the tree. */
function costsOf(row) {
  const taken = row.places[row.taken];
  return row.places.map(({ structural, lexical }) => ({ structural: row.structural + structural - taken.structural, lexical: row.lexical + lexical - taken.lexical }));
}

/* The most that a word could cost, so that the places of both sentences have one axis. */
const dearest = row => has(row.places[0].structural) ? Math.max(...costsOf(row).map(cost => cost.structural + cost.lexical)) : 0;

function costsPanel(s) {
  const sentence = sentences[s], now = placeIn(s), row = sentence.words[now.word], { places, taken } = row;
  const sisters = sistersOf(row, spineOf(treeSoFar(s))), costs = has(places[0].structural) ? costsOf(row) : null;
  const most = Math.max(costliest, ...sentences.map((one, i) => dearest(one.words[placeIn(i).word])));
  const part = (kind, value) => html("div", { class: `part ${kind}`, style: `width:${100 * value / most}%` });
  const rows = places.map((place, e) => html("tr", { class: `${now.seen && e === taken ? "taken" : ""} ${state.chosen[s] === e ? "chosen" : ""}` },
    html("td", {}, html("button", { type: "button", "aria-pressed": String(state.chosen[s] === e), "data-row": `${s}-${e}`, onclick: () => choose(s, e) }, spanName(sentence, sisters[e].first, sisters[e].end))),
    html("td", {}, costs ? percent(2 ** -place.structural) : "–"),
    html("td", {}, now.seen ? percent(place.posterior) : "·"),
    html("td", { class: "bar" }, costs ? html("div", { class: "track" }, part("structural", now.seen ? costs[e].structural : place.structural), now.seen ? part("lexical", costs[e].lexical) : null) : null),
    html("td", {}, costs ? bits(now.seen ? costs[e].structural + costs[e].lexical : place.structural) : "–")));
  const heads = ["sister", "p′", "p", "", "bits"].map(head => html("th", head ? { scope: "col" } : {}, head));
  const title = now.seen ? `Where ${quoted(sentence, now.word)} attaches, and what other places would have cost` : "Where the next word may attach";
  return panel("costs", titled(s, title), html("table", {}, html("thead", {}, html("tr", {}, ...heads)), html("tbody", {}, ...rows.reverse())),
    html("p", { class: "note counterfactual", "aria-live": "polite" }, counterfactual(s, now, row, sisters, costs)));
}

function counterfactual(s, now, row, sisters, costs) {
  const certainty = `Uncertainty about the place: ${has(row.entropy_before) ? bits(row.entropy_before) + " bits before the word" : ""}${now.seen ? `${has(row.entropy_before) ? ", " : ""}${bits(row.entropy_after)} bits after` : ""}.`;
  const place = state.chosen[s];
  if (place === null || !costs) return (now.seen || has(row.entropy_before) ? certainty : "") + (costs ? " Choose a place in the tree or in the table to see its cost." : "");
  const sentence = sentences[s], sister = `“${spanName(sentence, sisters[place].first, sisters[place].end)}”`;
  if (!now.seen) return `If the next word attaches to ${sister}, that costs ${bits(row.places[place].structural)} structural bits.`;
  const spell = cost => `${bits(cost.structural)} structural + ${bits(cost.lexical)} lexical = ${bits(cost.structural + cost.lexical)} bits`;
  const taken = costs[row.taken], gap = costs[place].structural + costs[place].lexical - taken.structural - taken.lexical;
  if (place === row.taken) return `${quoted(sentence, now.word)} attaches to ${sister}: ${spell(taken)}.`;
  return `Attached to ${sister}, ${quoted(sentence, now.word)} would have cost ${spell(costs[place])}: ${bits(Math.abs(gap))} ${gap < 0 ? "less" : "more"} than the place taken.`;
}

function parsesPanel(s) {
  const sentence = sentences[s], now = placeIn(s), count = now.word + (now.seen ? 1 : 0);
  if (!count) return panel("parses", titled(s, "Best partial parses"), html("p", { class: "note" }, "Nothing has been read yet."));
  const parses = sentence.words[count - 1].parses.map(([depths, share]) => [treeOf([0, ...depths]), share]).sort((a, b) => b[1] - a[1]);
  const best = new Set(nodesOf(parses[0][0]).map(spanOf));
  const cards = parses.map(([tree, share], rank) => parseCard(sentence, tree, share, rank, best));
  return panel("parses", titled(s, `Best partial parses, ${sentence.parsesBy}`), html("div", { class: "cards" }, ...cards));
}

const spanOf = node => `${node.first}-${node.end}`;

function bracketed(node, words) {
  return node.right ? `(${bracketed(node.left, words)} ${bracketed(node.right, words)})` : words[node.first];
}

function parseCard(sentence, tree, share, rank, best) {
  const words = ["·", ...sentence.words.slice(0, tree.end - 1).map((_, i) => shorten(nameOf(sentence, i), 14))];
  let edge = 0;
  const centres = words.map(word => { const wide = widthOf(word, 13) + 9; edge += wide; return edge - wide / 2; });
  const level = 13, bottom = 8 + tree.height * level, height = bottom + 26;
  layOut(tree, i => centres[i], up => bottom - up * level, bottom + 6);
  const labels = words.map((word, i) => svg("text", { x: centres[i], y: bottom + 20, class: i ? "middle" : "middle soft", style: "font-size:13px" }, word));
  const picture = svg("svg", { width: edge, height, viewBox: `0 0 ${edge} ${height}`, role: "img", "aria-label": bracketed(tree, words) },
    ...drawTree(tree, new Set(), new Set(nodesOf(tree).filter(node => !best.has(spanOf(node))))), ...labels);
  picture.style.minWidth = `${0.7 * edge}px`;
  return html("figure", {}, html("figcaption", {}, html("b", {}, percent(share)), ` parse ${rank + 1}`),
    html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": `parse ${rank + 1}` }, picture));
}

/* ---------------------------------------------------------------- text and controls */

function describe() {
  const lines = sentences.map((sentence, s) => {
    const now = placeIn(s), row = sentence.words[now.word];
    const place = now.seen ? `has read ${quoted(sentence, now.word)}: ${bits(row.surprisal)} bits` : `expects word ${now.word + 1} of ${sentence.words.length - 1}`;
    return `${names[s] ? names[s] + " " : "The model "}${isEnd(sentence, now.word) && !now.seen ? "expects the end or another word" : place}`;
  });
  const [a, b] = columns[state.at >> 1];
  if (state.at % 2 && has(b) && has(a)) lines.push(`difference ${signed(sentences[0].words[a].surprisal - sentences[1].words[b].surprisal)} bits`);
  const [marked] = differences(sentences.map((_, s) => treeSoFar(s))), apart = new Set([...marked].map(node => sharedSpan(0, node))).size;
  if (sentences.length > 1) lines.push(apart ? `the trees so far differ in ${apart} constituent${apart > 1 ? "s" : ""}` : "the trees so far are alike");
  return lines.join("; ") + ".";
}

function drawSentences() {
  byId("sentences").replaceChildren(...sentences.map((sentence, s) => {
    const now = placeIn(s);
    const words = sentence.words.slice(0, -1).flatMap((row, i) => {
      const kinds = [stageOf(i, now), i === now.word && columns[state.at >> 1][s] === i ? "now" : "", now.seen ? "seen" : "", differs(s, i) ? "differs" : ""];
      const space = i === 0 || row.start > sentence.words[i - 1].end ? " " : "";
      const jump = () => goTo(2 * columnOf(s, i) + 1);
      return [space, html("button", { type: "button", tabindex: -1, class: kinds.join(" "), onclick: jump }, row.word)];
    });
    return html("p", { class: "sentence" }, names[s] ? html("b", {}, names[s]) : null, html("span", {}, ...words));
  }));
}

function render() {
  const status = describe(), slider = byId("slider");
  byId("status").textContent = status;
  slider.value = state.at;
  slider.setAttribute("aria-valuetext", status);
  drawSentences();
  drawFigure();
  const row = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.row : undefined;
  byId("panels").replaceChildren(...[expectedPanel, costsPanel, parsesPanel].flatMap(draw => sentences.map((_, s) => draw(s))));
  for (const holder of document.querySelectorAll(".cards .scroll")) holder.scrollLeft = holder.scrollWidth;  // the last words
  if (row) { const again = document.querySelector(`[data-row="${row}"]`); if (again) again.focus(); }
}

function play() {
  if (state.playing) return pause();
  if (state.at === last) goTo(0);
  state.playing = setInterval(() => { goTo(state.at + 1); if (state.at === last) pause(); }, 1100);
  fill(byId("play"), { "aria-label": "Pause" }, []).textContent = "❚❚";
}

function pause() {
  clearInterval(state.playing);
  state.playing = null;
  fill(byId("play"), { "aria-label": "Play" }, []).textContent = "▶";
}

function setTheme(dark) {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
}

/* ---------------------------------------------------------------- files */

function save(name, content) {
  const link = html("a", { href: URL.createObjectURL(content), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const PAINT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity"];
const LETTERS = [...PAINT, "font-family", "font-size", "font-style", "font-weight", "text-anchor", "text-decoration", "paint-order"];
const STYLES = { g: ["opacity"], title: [], text: LETTERS };

/* A copy of a drawing with its colours as attributes. */
function painted(figure) {
  const copy = figure.cloneNode(true);
  const originals = [figure, ...figure.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((element, i) => {
    const style = getComputedStyle(element);
    for (const name of element === figure ? [] : STYLES[element.tagName] || PAINT) copies[i].setAttribute(name, style.getPropertyValue(name));
    for (const name of ["class", "tabindex", "role", "aria-pressed", "data-place"]) copies[i].removeAttribute(name);
  });
  return copy;
}

/* The figure on its own, what stays in sight included, and a background, so that it needs no page around it. */
function standalone() {
  const [figure, gutter] = byId("figure").querySelectorAll("svg"), copy = painted(figure);
  const background = getComputedStyle(figure.closest("section")).backgroundColor;
  copy.append(...painted(gutter).childNodes);
  copy.prepend(svg("rect", { width: "100%", height: "100%", fill: background }));
  copy.setAttribute("xmlns", SVG);
  return new XMLSerializer().serializeToString(copy);
}

function savePng() {
  const figure = byId("figure").querySelector("svg"), image = new Image();
  image.onload = () => {
    const canvas = html("canvas", { width: 2 * figure.clientWidth, height: 2 * figure.clientHeight });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(picture => save("som-reading.png", picture), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(standalone());
}

const FIELDS = ["number", "word", "start", "end", "tokens", "surprisal", "structural", "lexical", "entropy_before", "entropy_after", "depth"];

function table() {
  const cell = value => `"${String(has(value) ? value : "").replace(/"/g, '""')}"`;
  const lines = sentences.flatMap((sentence, s) => sentence.words.map(row => [s + 1, ...FIELDS.map(field => row[field])].map(cell).join(",")));
  return [["sentence", ...FIELDS].map(cell).join(","), ...lines, ""].join("\r\n");
}

/* ---------------------------------------------------------------- start */

byId("about").textContent = data.about;
byId("slider").max = last;
byId("key-differing").hidden = sentences.length < 2;
byId("key-undecided").hidden = !sentences.some(sentence => sentence.words.some(row => row.tag) || sentence.labels.length);
byId("panels").className = sentences.length > 1 ? "two" : "";
byId("slider").addEventListener("input", event => { pause(); goTo(Number(event.target.value)); });
byId("back").addEventListener("click", () => { pause(); goTo(state.at - 1); });
byId("forward").addEventListener("click", () => { pause(); goTo(state.at + 1); });
byId("play").addEventListener("click", play);
byId("theme").addEventListener("click", () => setTheme(document.documentElement.style.colorScheme !== "dark"));
byId("save-svg").addEventListener("click", () => save("som-reading.svg", new Blob([standalone()], { type: "image/svg+xml" })));
byId("save-png").addEventListener("click", savePng);
byId("save-csv").addEventListener("click", () => save("som-surprisals.csv", new Blob(["\ufeff", table()], { type: "text/csv" })));
const preference = matchMedia("(prefers-color-scheme: dark)");
preference.addEventListener("change", event => setTheme(event.matches));
setTheme(preference.matches);
addEventListener("resize", drawFigure);
goTo(0);
})();
