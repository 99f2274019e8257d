"use strict";
/* Draws what a SOM expects and decides at each word. All text goes into the page as text, never as markup. */
(() => {
const data = JSON.parse(document.getElementById("data").textContent);
const sentences = data.sentences;
const columns = data.columns;                       // per column, the word's index in each sentence, or null
const names = sentences.length > 1 ? ["A", "B"] : [""];
const state = { at: 0, chosen: sentences.map(() => null), playing: null, whole: false, shown: null };
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
const signed = (value, digits = 2) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(digits);
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

const drawLabels = (sentence, root, marked, now, discs) => labelled(sentence, root).map(([node, label, decided]) => drawLabel(node.x, node.y - 4 - (discs.get(node) || 1), label, `label ${marked.has(node) ? "differing" : ""}`, isDecided(now, decided)));

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

const LEVEL = 24, BARS = 116;
const WIDE = { left: 34, right: 18, start: 44, pill: 52, room: 16, apart: 6 };
const NARROW = { left: 24, right: 6, start: 20, pill: 38, room: 8, apart: 3 };  // on a phone
const isNarrow = () => innerWidth < 500;
const sizes = () => isNarrow() ? NARROW : WIDE;

/* A chance in a pill, which has less room on a phone. */
const inPill = p => isNarrow() ? (p < 0.001 ? "<.1%" : percent(p).replace(" ", "")) : p < 0.00001 ? "<.001 %" : percent(p);

/* Centres of the columns, that of the start of the sentence first; wider where there is room. */
function columnCentres(available) {
  const { left, right, start, pill, room, apart } = sizes();
  const widths = columns.map(pair => Math.max(pill + apart, ...pair.map((i, s) => i === null ? 0 : widthOf(shorten(nameOf(sentences[s], i))) + room)));
  const spare = Math.max(0, Math.min((available - left - start - right - sum(widths)) / widths.length, 60));
  const centres = [left + start / 2];
  let edge = left + start;
  for (const width of widths) {
    centres.push(edge + (width + spare) / 2);
    edge += width + spare;
  }
  return { centres, width: edge + right, widths: [start, ...widths.map(width => width + spare)] };
}

function highest(sentence) {
  return Math.max(...sentence.words.map((_, count) => treeOf(takenDepths(sentence, count)).height));
}

const costOf = row => has(row.structural) ? row.structural + row.lexical : row.lexical;
const dearestWord = Math.max(1, ...sentences.flatMap(sentence => sentence.words.map(row => Math.max(row.surprisal, costOf(row)))));
const heights = sentences.map(highest);

/* The place that the reader chose for the word in question, if it is not the one taken: its cost, if any is known. */
function alternative(s) {
  const now = placeIn(s), row = sentences[s].words[now.word], place = state.chosen[s];
  if (place === null || !has(row.places[place].structural) || (now.seen && place === row.taken)) return null;
  const cost = now.seen ? costsOf(row)[place] : { structural: row.places[place].structural, lexical: 0 };
  return { place, word: now.word, ...cost, total: cost.structural + cost.lexical };
}

/* The longest bar, in bits: one axis for all words of both sentences, and for what the reader chose. */
const costliest = () => Math.max(dearestWord, ...sentences.map((_, s) => (alternative(s) || { total: 0 }).total));

function drawFigure() {
  const holder = byId("figure"), scrolled = holder.scrollLeft, LEFT = sizes().left;
  const { centres, width, widths } = columnCentres(holder.clientWidth);
  const root = svg("svg", { role: "group", "aria-label": byId("status").textContent });
  const gutter = svg("svg", { class: "gutter" });  // stays in sight while the words scroll
  const column = state.at >> 1, backdrop = svg("rect", { class: "band", x: centres[column + 1] - widths[column + 1] / 2, y: 0, width: widths[column + 1], rx: 6 });
  root.append(backdrop);
  let y = 4;
  const trees = sentences.map((_, s) => treeSoFar(s)), marked = differences(trees), relabelled = differentLabels(trees);
  trees.forEach((tree, s) => { y = drawSentence(root, gutter, s, tree, marked[s], relabelled[s], centres, width, y); });
  if (sentences.length > 1) y = drawDifference(root, gutter, centres, width, y);
  backdrop.setAttribute("height", y);
  const scale = state.whole ? Math.min(1, holder.clientWidth / width) : 1;
  for (const [part, wide] of [[root, width], [gutter, LEFT]]) fill(part, { width: wide * scale, height: y * scale, viewBox: `0 0 ${wide} ${y}` }, []);
  const focused = document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.place : undefined;
  holder.replaceChildren(root, gutter);
  if (focused) { const again = root.querySelector(`[data-place="${focused}"]`); if (again) again.focus(); }
  byId("whole").hidden = !state.whole && width < holder.clientWidth + 1;
  holder.scrollLeft = state.shown === state.at ? scrolled : scrolledTo(holder.clientWidth, centres, widths, column);
  state.shown = state.at;
}

/* Where to scroll so that the column ends at most of the width, after the tree of what comes before it; no column is
   cut where the numbers stand. */
function scrolledTo(available, centres, widths, column) {
  const edge = c => centres[c] - widths[c] / 2, end = edge(column + 1) + widths[column + 1];
  const wanted = Math.max(centres[column + 1] - 0.8 * available, end + 4 - available);
  const first = centres.findIndex((_, c) => edge(c) - sizes().left >= wanted);
  return wanted <= 0 ? 0 : Math.min(edge(first < 0 ? column + 1 : first), edge(column + 1)) - sizes().left;
}

function drawSentence(root, gutter, s, tree, marked, relabelled, centres, width, top) {
  const sentence = sentences[s], now = placeIn(s), tagged = sentence.words.some(row => row.tag);
  const x = i => i === 0 ? centres[0] : centres[columnOf(s, i - 1) + 1];
  const leaves = top + 16 + heights[s] * LEVEL + 10, baseline = leaves + 32, zero = baseline + (tagged ? 28 : 14);
  const spine = spineOf(tree);
  layOut(tree, x, height => leaves - height * LEVEL, baseline - 17);
  root.append(svg("g", { role: "img", "aria-label": `Tree so far: ${bracketed(tree, ["start", ...sentence.words.map(row => row.word)])}` }, ...drawTree(tree, new Set(spine), marked)));
  if (!tree.right) root.append(svg("path", { d: `M${tree.x} ${tree.y}V${tree.foot}`, class: "edge spine" }));
  root.append(...drawLabels(sentence, tree, relabelled, now, discs(sentence, spine, now)));
  if (names[s]) gutter.append(text(4, baseline, names[s], "small soft"));
  root.append(svg("circle", { cx: centres[0], cy: baseline - 6, r: 3, class: "start" }));
  root.append(drawPlaces(s, spine, now, x(now.word + 1), baseline));
  root.append(drawGrid(width, zero));
  gutter.append(drawNumbers(zero));
  const other = alternative(s);
  sentence.words.forEach((row, i) => root.append(drawWord(s, i, x(i + 1), baseline, now), drawBars(row, x(i + 1), zero, i, now, other && other.word === i ? other : null)));
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
  const title = row.tokens === row.word ? row.word : `${row.word}, read as ${row.tokens}`;
  return svg("g", { class: `word ${stageOf(i, now)}`, onclick: () => goTo(2 * columnOf(s, i) + 1) },
    svg("title", {}, title), text(x, y, shown, kind), differs(s, i) ? svg("line", { class: "differing", x1: x - half, x2: x + half, y1: y + 4, y2: y + 4 }) : null,
    row.tag ? drawLabel(x, y + 16, row.tag, "small soft middle", isDecided(now, row.decided)) : null);
}

/* Round steps for an axis of about four ticks. */
function ticks(most) {
  const step = [1, 2, 5, 10, 20, 50].find(size => most / size <= 4) || 100;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}
const scale = value => value / costliest() * (BARS - 6);

const drawGrid = (width, zero) => svg("g", {}, ...ticks(costliest()).map(tick => svg("line", { x1: sizes().left, x2: width - 4, y1: zero + scale(tick), y2: zero + scale(tick), class: tick ? "grid" : "zero" })));
const drawNumbers = zero => svg("g", { class: "axis" }, ...ticks(costliest()).map(tick => text(sizes().left - 6, zero + scale(tick) + 4, String(tick), "small soft end")));

/* What a word costs; beside it, what it would have cost at the place that the reader chose. */
function drawBars(row, x, zero, i, now, other) {
  const aside = other ? 13 : 0;
  return svg("g", { class: `bars ${stageOf(i, now)} ${i === now.word ? "now" : ""}` },
    svg("title", {}, describeCost(row)),
    ...drawBar(row, x - aside, zero, row.surprisal), ...(other ? [svg("g", { class: "ghost" }, ...drawBar(other, x + aside, zero, other.total))] : []));
}

function drawBar(cost, x, zero, total) {
  const structural = scale(cost.structural || 0), lexical = scale(cost.lexical), end = zero + scale(total);
  return [svg("rect", { class: "structural", x: x - 9, width: 18, y: zero, height: structural }),
    svg("rect", { class: "lexical", x: x - 9, width: 18, y: zero + structural, height: lexical }),
    svg("line", { class: "total", x1: x - 12, x2: x + 12, y1: end, y2: end }),
    text(x, Math.max(end, zero + structural + lexical) + 15, total.toFixed(1), "small middle number")];
}

function describeCost(row) {
  const parts = has(row.structural) ? `: structural ${bits(row.structural)}, lexical ${bits(row.lexical)}` : "";
  return `${row.word}: surprisal ${bits(row.surprisal)} bits${parts}`;
}

/* Chances of all places of the current word: p′ before it is seen, p afterwards. */
function chances(row, seen) {
  return row.places.map(place => seen || !has(place.structural) ? place.posterior : 2 ** -place.structural);
}

const radius = weight => 2.5 + 5 * Math.sqrt(weight);

/* How large the disc on each open subtree is. */
function discs(sentence, spine, now) {
  const row = sentence.words[now.word], weights = chances(row, now.seen);
  return new Map(sistersOf(row, spine).map((node, place) => [node, radius(weights[place])]));
}

/* The arm that the word would have at the place that the reader chose. */
function drawAlternative(s, sisters, x, foot) {
  const other = alternative(s), node = other && sisters[other.place];
  return node ? svg("path", { class: "edge alternative", d: `M${node.x} ${node.y}H${x + 4}Q${x + 8} ${node.y} ${x + 8} ${node.y + 4}V${foot}` }) : null;
}

function drawPlaces(s, spine, now, x, baseline) {
  const { pill } = sizes(), sentence = sentences[s], row = sentence.words[now.word], weights = chances(row, now.seen);
  const group = svg("g", {}), { taken } = row, sisters = sistersOf(row, spine);
  if (!has(row.places[0].structural) && !now.seen) return group;
  if (now.seen) group.append(svg("path", { class: "edge new", d: `M${x} ${sisters[taken].y}V${baseline - 17}` }));
  fill(group, {}, [drawAlternative(s, sisters, x, baseline - 17)]);
  sisters.forEach((node, place) => {
    const kinds = ["place", now.seen && place === taken ? "taken" : "", state.chosen[s] === place ? "chosen" : "", (now.seen ? place === taken : weights[place] > 0.5) ? "likely" : ""];
    const from = node.right ? node.right.x : node.x;
    const label = `${spanName(sentence, node.first, node.end)}: ${percent(weights[place])}${now.seen && place === taken ? ", taken" : ""}`;
    const pick = event => { if (event.type === "click" || event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(s, place); } };
    group.append(svg("g", { class: kinds.join(" "), tabindex: 0, role: "button", "aria-pressed": String(state.chosen[s] === place), "aria-label": label, "data-place": `${s}-${place}`, onclick: pick, onkeydown: pick },
      svg("title", {}, label),
      svg("line", { class: "hit", x1: node.x, x2: x, y1: node.y, y2: node.y, stroke: "transparent", "stroke-width": 20 }),
      svg("line", { class: "reach", x1: from, x2: x, y1: node.y, y2: node.y, "stroke-opacity": 0.25 + 0.75 * weights[place] }),
      svg("circle", { cx: node.x, cy: node.y, r: radius(weights[place]) }),
      svg("g", { class: "pill" }, svg("rect", { x: x - pill / 2, y: node.y - 9, width: pill, height: 18, rx: 9 }), text(x, node.y + 4, inPill(weights[place])))));
  });
  return group;
}

/* Surprisal in A minus surprisal in B, where both have a word. */
function drawDifference(root, gutter, centres, width, top) {
  const gaps = columns.map(([a, b]) => a === null || b === null ? null : sentences[0].words[a].surprisal - sentences[1].words[b].surprisal);
  const most = Math.max(1, ...gaps.filter(has).map(Math.abs)), middle = top + 52;
  gutter.append(text(4, top + 8, "A − B, in bits", "small soft"));
  root.append(svg("line", { class: "zero", x1: sizes().left, x2: width - 4, y1: middle, y2: middle }));
  gaps.forEach((gap, c) => {
    if (gap === null) return;
    const tall = Math.abs(gap) / most * 24, x = centres[c + 1];
    root.append(svg("g", { class: c > state.at >> 1 ? "ahead" : "" },
      svg("rect", { class: gap > 0 ? "more" : "less", x: x - 9, width: 18, y: gap > 0 ? middle - tall : middle, height: tall }),
      text(x, gap > 0 ? middle - tall - 5 : middle + tall + 14, Math.abs(gap) < 0.05 ? "0" : signed(gap, 1), "small middle")));
  });
  return top + 98;
}

/* ---------------------------------------------------------------- the panels */

const panel = (kind, title, ...children) => html("section", { class: kind }, html("h2", {}, title), ...children);
const titled = (s, title) => names[s] ? `${names[s]} · ${title}` : title;

/* A table that scrolls by itself where it is too wide; nameless heads are those of bars. */
function tableOf(title, heads, rows) {
  const cells = heads.map(head => head ? html("th", { scope: "col" }, head) : html("td", { class: "bar" }));
  const table = html("table", { "aria-label": title }, html("thead", {}, html("tr", {}, ...cells)), html("tbody", {}, ...rows));
  return html("div", { class: "scroll" }, table);
}

/* What was expected, and once the word is seen, that word with its whole probability. */
function expectations(row, seen) {
  const entries = row.expected.map(([word, p, kind]) => ({ word, p, kind }));
  if (!seen) return entries;
  const read = entries.find(entry => entry.kind !== "piece" && entry.word === row.tokens);
  const own = { word: row.word, p: 2 ** -row.surprisal, kind: read ? read.kind : "word", seen };
  if (read && row.tokens !== row.word) own.word = row.tokens;  // a class
  return read ? entries.map(entry => entry === read ? own : entry) : [...entries, own];
}

function expectedPanel(s) {
  const sentence = sentences[s], now = placeIn(s), row = sentence.words[now.word], entries = expectations(row, now.seen);
  const others = sentences.length > 1 ? new Set(sentences[1 - s].words[placeIn(1 - s).word].expected.map(([word]) => word)) : null;
  const most = Math.max(...sentences.flatMap((one, i) => expectations(one.words[placeIn(i).word], placeIn(i).seen).map(entry => entry.p)));
  const rows = entries.map(entry => html("tr", { class: `${entry.seen ? "seen" : ""} ${others && !entry.seen && !others.has(entry.word) ? "only" : ""}` },
    html("td", { class: entry.kind === "class" || entry.kind === "end" ? "class" : "" }, entry.word),
    html("td", { class: "bar" }, html("div", { class: "track" }, html("div", { class: "part lexical", style: `width:${100 * entry.p / most}%` }))),
    html("td", {}, percent(entry.p))));
  const title = titled(s, now.seen ? `Expected in place of ${quoted(sentence, now.word)}` : "Words expected next");
  const pieces = entries.find(entry => entry.kind === "piece");
  return panel("expected", title, tableOf(title, ["word", "", "probability"], rows),
    note(rows.some(row => row.classList.contains("only")), `not among the ten of ${names[1 - s]}`, "only"),
    note(pieces, `${pieces && shorten(pieces.word)}: a piece that would go on with the word before.`),
    note(now.seen && row.tokens !== row.word, `${quoted(sentence, now.word)} is read as ${row.tokens}.`));
}

const note = (due, words, kind = "") => due ? html("p", { class: `note ${kind}` }, words) : null;

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
  const most = Math.max(dearestWord, ...sentences.map((one, i) => dearest(one.words[placeIn(i).word])));
  const part = (kind, value) => html("div", { class: `part ${kind}`, style: `width:${100 * value / most}%` });
  const rows = places.map((place, e) => html("tr", { class: `${now.seen && e === taken ? "taken" : ""} ${state.chosen[s] === e ? "chosen" : ""}` },
    html("td", {}, html("button", { type: "button", "aria-pressed": String(state.chosen[s] === e), "data-row": `${s}-${e}`, onclick: () => choose(s, e) }, spanName(sentence, sisters[e].first, sisters[e].end))),
    html("td", {}, costs ? percent(2 ** -place.structural) : "–"),
    html("td", {}, now.seen ? percent(place.posterior) : "·"),
    html("td", { class: "bar" }, costs ? html("div", { class: "track" }, part("structural", now.seen ? costs[e].structural : place.structural), now.seen ? part("lexical", costs[e].lexical) : null) : null),
    html("td", {}, costs ? bits(now.seen ? costs[e].structural + costs[e].lexical : place.structural) : "–")));
  const title = titled(s, now.seen ? `Where ${quoted(sentence, now.word)} attaches, and what other places would have cost` : "Where the next word may attach");
  const heads = ["sister", "before the word (p′)", "after it (p)", "", "cost in bits"];
  return panel("costs", title, tableOf(title, heads, rows.reverse()), html("p", { class: "note certainty" }, counterfactual(s) || certainty(row, now.seen, costs)));
}

function certainty(row, seen, costs) {
  const told = [has(row.entropy_before) ? `${bits(row.entropy_before)} bits before the word` : null, seen ? `${bits(row.entropy_after)} bits after` : null].filter(has);
  return (told.length ? `Uncertainty about the place: ${told.join(", ")}.` : "") + (costs ? " Choose a place, here or in the tree, to see what it costs." : "");
}

/* What the place that the reader chose costs, in a sentence; nothing if none is chosen. */
function counterfactual(s) {
  const sentence = sentences[s], now = placeIn(s), row = sentence.words[now.word], place = state.chosen[s];
  if (place === null || !has(row.places[place].structural)) return "";
  const costs = costsOf(row), node = sistersOf(row, spineOf(treeSoFar(s)))[place], sister = `“${spanName(sentence, node.first, node.end)}”`;
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

/* What the reader is told: what is read and expected, or the cost of the place that was chosen. */
function tell() {
  const told = sentences.map((_, s) => counterfactual(s)).map((sentence, s) => sentence && names[s] ? `${names[s]}: ${sentence}` : sentence);
  const chosen = told.filter(Boolean).join(" ");
  byId("status").replaceChildren(chosen ? html("strong", {}, chosen) : describe());
}

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
  for (const now of document.querySelectorAll(".sentence .now")) {  // on a phone three lines are in sight
    const holder = now.closest(".sentence");
    holder.scrollTop = now.offsetTop - holder.clientHeight / 2;
  }
}

function render() {
  const slider = byId("slider");
  tell();
  slider.value = state.at;
  slider.setAttribute("aria-valuetext", describe());
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

/* The whole figure in the width of the page, or as large as its words are elsewhere. */
function toggleWhole() {
  state.whole = !state.whole;
  state.shown = null;
  byId("whole").setAttribute("aria-pressed", String(state.whole));
  drawFigure();
}

function setTheme(dark) {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  byId("theme").textContent = dark ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", `${dark ? "Light" : "Dark"} colours`);
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

const MARKS = {
  open: () => svg("g", { class: "place" }, svg("circle", { cx: 5, cy: -4, r: 5 })),
  structural: () => svg("rect", { class: "structural", y: -9, width: 10, height: 10 }),
  lexical: () => svg("rect", { class: "lexical", y: -9, width: 10, height: 10 }),
  total: () => svg("line", { class: "total", x2: 12, y1: -4, y2: -4 }),
  undecided: () => null,
  differing: () => svg("line", { class: "differing", x2: 12, y1: -4, y2: -4 }),
};

/* The page's legend as a drawing, in as many lines as the width asks for; and how high it is. */
function drawLegend(width) {
  const group = svg("g", {});
  let x = 12, y = 14;
  for (const item of document.querySelectorAll(".legend span:not([hidden])")) {
    const kind = item.querySelector(".key").classList[1], content = kind === "undecided" ? `italics: ${item.lastChild.data}` : item.textContent;
    const wide = widthOf(content, 13) + 36;
    if (x > 12 && x + wide > width) { x = 12; y += 20; }
    group.append(fill(svg("g", { transform: `translate(${x} ${y})` }), {}, [MARKS[kind](), text(kind === "undecided" ? 0 : 18, 0, content, "small soft")]));
    x += wide;
  }
  return [group, y + 12];
}

/* What the figure shows, as lines of its own: the sentences, and which model read them. */
function drawTitle() {
  const lines = sentences.map((sentence, s) => `${names[s] ? names[s] + "  " : ""}${[...sentence.words.slice(0, -1)].map((row, i) => (i && row.start > sentence.words[i - 1].end ? " " : "") + row.word).join("")}`);
  const group = svg("g", {}, ...lines.map((line, i) => text(12, 24 + 22 * i, line)), text(12, 22 + 22 * lines.length, data.about, "small soft"));
  return [group, 36 + 22 * lines.length, Math.max(...lines.map(line => widthOf(line) + 24), widthOf(data.about, 13) + 24)];
}

/* The figure on its own: with a title, a legend, what stays in sight, and a background, it needs no page around it. */
function standalone() {
  const [figure, gutter] = byId("figure").querySelectorAll("svg"), { width, height } = figure.viewBox.baseVal;
  const [title, top, least] = drawTitle(), wide = Math.max(width, least, 420), [legend, bottom] = drawLegend(wide), tall = top + height + bottom;
  figure.append(title, legend);  // where the styles of the page reach them
  const copy = painted(figure), [titled, keyed] = [...copy.childNodes].slice(-2), drawn = svg("g", { transform: `translate(0 ${top})` });
  title.remove();
  legend.remove();
  keyed.setAttribute("transform", `translate(0 ${top + height})`);
  drawn.append(...[...copy.childNodes].slice(0, -2), ...painted(gutter).childNodes);
  const background = getComputedStyle(figure.closest("section")).backgroundColor;
  copy.replaceChildren(svg("rect", { width: "100%", height: "100%", fill: background }), titled, drawn, keyed);
  fill(copy, { xmlns: SVG, width: wide, height: tall, viewBox: `0 0 ${wide} ${tall}` }, []);
  return { drawing: new XMLSerializer().serializeToString(copy), wide, tall };
}

function savePng() {
  const { drawing, wide, tall } = standalone(), image = new Image();
  image.onload = () => {
    const canvas = html("canvas", { width: 2 * wide, height: 2 * tall });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob(picture => save("som-reading.png", picture), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(drawing);
}

const FIELDS = ["number", "word", "start", "end", "tokens", "surprisal", "structural", "lexical", "entropy_before", "entropy_after", "depth"];

/* The chance of the place that the word has, before it was seen and after, and its label. */
function taken(row) {
  const { structural, posterior } = row.places[row.taken];
  return [has(structural) ? +(2 ** -structural).toPrecision(6) : null, posterior, row.tag];
}

function table() {
  const cell = value => `"${String(has(value) ? value : "").replace(/"/g, '""')}"`;
  const lines = sentences.flatMap((sentence, s) => sentence.words.map(row => [s + 1, ...FIELDS.map(field => row[field]), ...taken(row)].map(cell).join(",")));
  return [["sentence", ...FIELDS, "p_before", "p_after", "label"].map(cell).join(","), ...lines, ""].join("\r\n");
}

/* ---------------------------------------------------------------- start */

byId("about").textContent = data.about;
byId("slider").max = last;
byId("key-differing").hidden = sentences.length < 2;
byId("key-undecided").hidden = !sentences.some(sentence => sentence.words.some(row => row.tag) || sentence.labels.length);
const foldLegend = () => { byId("legend").open = !isNarrow(); };
foldLegend();
matchMedia("(max-width: 499px)").addEventListener("change", foldLegend);
byId("panels").className = sentences.length > 1 ? "two" : "";
byId("slider").addEventListener("input", event => { pause(); goTo(Number(event.target.value)); });
byId("back").addEventListener("click", () => { pause(); goTo(state.at - 1); });
byId("forward").addEventListener("click", () => { pause(); goTo(state.at + 1); });
byId("play").addEventListener("click", play);
byId("whole").addEventListener("click", toggleWhole);
byId("theme").addEventListener("click", () => setTheme(document.documentElement.style.colorScheme !== "dark"));
byId("save-svg").addEventListener("click", () => save("som-reading.svg", new Blob([standalone().drawing], { type: "image/svg+xml" })));
byId("save-png").addEventListener("click", savePng);
byId("save-csv").addEventListener("click", () => save("som-surprisals.csv", new Blob(["\ufeff", table()], { type: "text/csv" })));
const preference = matchMedia("(prefers-color-scheme: dark)");
preference.addEventListener("change", event => setTheme(event.matches));
setTheme(preference.matches);
addEventListener("resize", () => { state.shown = null; drawFigure(); });
goTo(0);
})();
