"""The page in a real browser: Debian's chromium, headless, driven by selenium."""

import json
import shutil
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import make_model

from som.data.vocabularies import make_tokenizer
from som.inference import align
from som.syntax import tree_from_depths
from som.training.models import vocabulary
from som.view import page, trace

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
ROOT = Path(__file__).parent.parent.parent
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="needs Debian's chromium and chromium-driver")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WORDS, CONTROL = (
    text.split()
    for text in (
        "the old dog sees the cat and the dog sees a cat .",
        "the old dog that sleeps sees the cat and a dog sees a cat .",
    )
)
NASTY = ["the", "<script>alert(1)</script>", "dog", "<img/src=x/onerror=alert(2)>", "&lt;", '"', "."]


class Viewer:
    """A page in the browser, and what a reader does with it."""

    def __init__(self, driver, folder: Path, downloads: Path):
        self.driver, self.folder, self.downloads = driver, folder, downloads

    def open(self, *sentences: list[str], width: int = 1280, dark: bool = False, model=None, edit=lambda one: one):
        traces = [edit(trace(*(model or make_small()), words, "marginal")) for words in sentences]
        file = self.folder / "page.html"
        file.write_text(page(traces, "a small model"), encoding="utf-8")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        self.driver.get(file.as_uri())
        return traces

    def all(self, selector: str) -> list:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str):
        return self.driver.find_element("css selector", selector)

    def run(self, script: str, *arguments):
        return self.driver.execute_script(script, *arguments)

    def go_to(self, step: int) -> None:
        self.run(
            "const slider = document.getElementById('slider');"
            "slider.value = arguments[0]; slider.dispatchEvent(new Event('input'))",
            step,
        )

    def press(self, selector: str, keys: str) -> None:
        self.one(selector).send_keys(keys)

    def downloaded(self, name: str) -> bytes:
        file = self.downloads / name
        for _ in range(100):
            if file.is_file() and file.stat().st_size:
                return file.read_bytes()
            time.sleep(0.1)
        raise AssertionError(f"{name} was not saved")

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if not one["documentURL"].startswith("chrome")]


def make_small(**settings):
    tokenizer = make_tokenizer("word", [WORDS, CONTROL])
    return make_model(**vocabulary(tokenizer), **settings), tokenizer


@pytest.fixture(scope="module")
def driver(tmp_path_factory) -> Iterator:
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def viewer(driver, tmp_path) -> Iterator[Viewer]:
    downloads = tmp_path / "downloads"
    behavior = {"behavior": "allow", "downloadPath": str(downloads)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", behavior)
    viewer = Viewer(driver, tmp_path, downloads)
    viewer.complaints(), viewer.requests()  # those of the test before
    yield viewer
    assert viewer.complaints() == []
    requests = viewer.requests()
    assert requests and [url for url in requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_the_slider_stops_twice_at_each_word_and_shows_what_the_trace_says(viewer):
    (read,) = viewer.open(WORDS)
    assert int(viewer.one("#slider").get_attribute("max")) == 2 * len(read.words) - 1
    for i, word in enumerate(read.words):
        viewer.go_to(2 * i)
        assert len(viewer.all("#figure .place")) == len(word.places)
        assert not viewer.all("#figure .place.taken")
        shown = [row.text for row in viewer.all(".expected tbody td:first-child")]
        assert shown == [one.text for one in word.expected] and "</s>" not in shown
        viewer.go_to(2 * i + 1)
        assert f"{word.surprisal.surprisal:.2f} bits" in viewer.one("#status").text
        assert [bool("taken" in one.get_attribute("class")) for one in viewer.all("#figure .place")] == [
            place == word.taken for place in range(len(word.places))
        ]
        assert len(viewer.all(".parses figure")) == len(word.surprisal.parses)


def test_weights_on_the_places_are_p_prime_before_the_word_and_p_after_it(viewer):
    (read,) = viewer.open(WORDS)
    viewer.go_to(10)
    before = [label.text for label in viewer.all("#figure .pill text")]
    viewer.go_to(11)
    after = [label.text for label in viewer.all("#figure .pill text")]
    places = read.words[5].places
    for shown, wanted in (
        (before, [2**-one.structural for one in places]),
        (after, [one.posterior for one in places]),
    ):
        assert [float(one.removesuffix(" %")) for one in shown] == pytest.approx([100 * p for p in wanted], abs=0.6)


def test_a_click_on_a_node_tells_what_that_attachment_would_have_cost(viewer):
    (read,) = viewer.open(WORDS)
    word = next(i for i, word in enumerate(read.words) if len(word.places) > 2)
    viewer.go_to(2 * word + 1)
    for place, cost in enumerate(read.words[word].places):
        viewer.run(
            "document.querySelector(arguments[0]).dispatchEvent(new Event('click'))", f'[data-place="0-{place}"]'
        )
        told = viewer.one("#status").text
        assert f"{cost.structural:.2f} structural + {cost.lexical:.2f} lexical" in told
        assert ("would have cost" in told) == (place != read.words[word].taken)
        assert len(viewer.all("#figure .place.chosen")) == len(viewer.all("tr.chosen")) == 1
        other = int(place != read.words[word].taken)
        assert len(viewer.all("#figure .edge.alternative")) == len(viewer.all("#figure .ghost")) == other
        if other:
            assert viewer.one("#figure .ghost text").text == f"{cost.structural + cost.lexical:.1f}"
    viewer.go_to(2 * word)
    assert not viewer.all("#figure .ghost") and "expects word" in viewer.one("#status").text


@pytest.mark.parametrize("width", [375, 1280])
def test_the_cost_of_a_place_is_told_where_the_reader_looks(viewer, width):
    viewer.open(WORDS, CONTROL, width=width)
    viewer.go_to(11)
    viewer.run("document.getElementById('panels').scrollIntoView()")
    viewer.run("document.querySelector('.costs tr:not(.taken) button').click()")
    bottom = viewer.run("return document.getElementById('status').getBoundingClientRect().bottom")
    assert 0 < bottom < 300 and viewer.one("#status").text.startswith("A: Attached to")


def test_bars_of_what_was_chosen_and_of_what_was_taken_have_one_axis(viewer):
    (read,) = viewer.open(WORDS)
    word = next(i for i, word in enumerate(read.words) if len(word.places) > 2)
    viewer.go_to(2 * word + 1)
    place = next(i for i in range(len(read.words[word].places)) if i != read.words[word].taken)
    viewer.run("document.querySelector(arguments[0]).dispatchEvent(new Event('click'))", f'[data-place="0-{place}"]')
    heights = [float(one.get_attribute("height")) for one in viewer.all("#figure .bars.now .lexical")]
    taken, other = (read.words[word].places[one].lexical for one in (read.words[word].taken, place))
    assert heights[0] / heights[1] == pytest.approx(taken / other, rel=1e-3)


def test_the_word_that_was_read_stands_there_with_its_whole_probability(viewer):
    tokenizer = make_tokenizer("bpe:270", [WORDS, CONTROL])
    (read,) = viewer.open(WORDS, model=(make_model(**vocabulary(tokenizer)), tokenizer))
    assert any(len(word.pieces) > 1 for word in read.words) and any(len(word.pieces) == 1 for word in read.words)
    for i, word in enumerate(read.words[:-1]):
        viewer.go_to(2 * i + 1)
        name, _, share = (cell.text for cell in viewer.all(".expected tr.seen td"))
        value = 100 * 2**-word.surprisal.surprisal
        assert name == word.surprisal.word
        assert float(share.removesuffix(" %").removeprefix("<")) == pytest.approx(value, rel=0.5, abs=0.01)
        assert ("is read as" in viewer.one(".expected").text) == (len(word.pieces) > 1)
    assert "Ġ" not in viewer.run("return document.body.innerHTML.replace(/<script[^]*?<\\/script>/g, '')")


def test_a_pointer_hits_the_node_itself(viewer):
    viewer.open(WORDS)
    viewer.go_to(9)
    circle = viewer.all("#figure .place circle")[1]
    webdriver.ActionChains(viewer.driver).move_to_element(circle).click().perform()
    assert viewer.one("#figure .place.chosen").get_attribute("data-place") == "0-1"


def test_the_keyboard_reaches_everything(viewer):
    viewer.open(WORDS)
    viewer.press("#slider", "\ue014")  # right arrow
    viewer.press("#slider", "\ue014")
    assert viewer.one("#slider").get_attribute("value") == "2"
    assert "expects word 2" in viewer.one("#slider").get_attribute("aria-valuetext")
    viewer.press('[data-place="0-0"]', "\ue007")  # enter
    assert viewer.one('[data-place="0-0"]').get_attribute("aria-pressed") == "true"
    assert viewer.run("return document.activeElement.dataset.place") == "0-0"
    viewer.press('[data-row="0-1"]', " ")
    assert viewer.run("return document.activeElement.dataset.row") == "0-1"
    names = viewer.run("return [...document.querySelectorAll('button, input')].map(e => e.ariaLabel || e.textContent)")
    assert all(name.strip() for name in names)


def test_play_reads_on_by_itself(viewer):
    viewer.open(WORDS)
    viewer.one("#play").click()
    for _ in range(100):
        if viewer.one("#slider").get_attribute("value") != "0":
            break
        time.sleep(0.1)
    viewer.one("#play").click()
    assert viewer.one("#slider").get_attribute("value") != "0"
    assert viewer.one("#play").get_attribute("aria-label") == "Play"


def test_two_sentences_are_aligned_and_their_differences_marked(viewer):
    first, second = viewer.open(WORDS, CONTROL)
    viewer.go_to(2 * 5 + 1)  # "sees", the fourth word of one and the sixth of the other
    status = viewer.one("#status").text
    a, b = first.words[3].surprisal.surprisal, second.words[5].surprisal.surprisal
    assert f"A has read “sees”: {a:.2f} bits" in status and f"B has read “sees”: {b:.2f} bits" in status
    assert f"{abs(a - b):.2f} bits" in status.rpartition("difference")[2]
    marked = [word.text for word in viewer.all("#sentences .differs")]
    assert marked == ["the", "that", "sleeps", "a"]
    sees = [
        word.location["x"] + word.size["width"] / 2 for word in viewer.all("#figure .word text") if word.text == "sees"
    ]
    assert sees[0] == pytest.approx(sees[2], abs=1) and sees[1] == pytest.approx(sees[3], abs=1)
    assert viewer.one("#figure").text.count("A − B") == 1


def test_differences_are_rounded_not_cut(viewer):
    surprisals = iter([11.46, 10.01, 1.04, 11.0])

    def edit(one):
        rows = [replace(word.surprisal, surprisal=next(surprisals)) for word in one.words[:2]]
        return replace(one, words=[*(map(with_row, one.words, rows)), *one.words[2:]])

    def with_row(word, row):
        return replace(word, surprisal=row)

    viewer.open(WORDS, WORDS, edit=edit)
    shown = [text.text for text in viewer.all("#figure .less + text, #figure .more + text")]
    assert shown[:2] == ["+10.4", "−1.0"]


def test_what_fits_needs_no_button_to_be_seen_whole(viewer):
    viewer.open(WORDS)
    assert not viewer.one("#whole").is_displayed()


@pytest.mark.parametrize("step", [0, 9, 17, 29])
def test_constituents_that_group_the_common_words_in_another_way_are_marked(viewer, step):
    traces = viewer.open(WORDS, CONTROL)
    viewer.go_to(step)
    pairs = align(*([word.surprisal.word for word in one.words] for one in traces))
    common = [(0, 0), *((a + 1, b + 1) for a, b in pairs[: step // 2] if a is not None and b is not None)]
    found = []
    for s, one in enumerate(traces):
        read = sum(pair[s] is not None for pair in pairs[: step // 2])
        depths = [0, *(word.surprisal.depth for word in one.words[:read])]
        places = [place[s] for place in common]
        spans = tree_from_depths(depths).spans() if read else []
        inside = [tuple(i for i, place in enumerate(places) if first <= place < end) for first, end in spans]
        found.append([span for span in inside if len(span) > 1])
    wanted = [[span for span in found[s] if span not in found[1 - s]] for s in (0, 1)]
    assert len(viewer.all("#figure .edge.differing")) == sum(map(len, wanted))
    told, count = viewer.one("#status").text, len(set(wanted[0]))
    assert (f"differ in {count} constituent" in told) if count else "so far are alike" in told
    assert step < 29 or count  # the test would otherwise say nothing


def test_bars_of_both_sentences_have_one_axis(viewer):
    traces = viewer.open(WORDS, CONTROL)
    viewer.go_to(2 * 5 + 1)
    words = traces[0].words[3], traces[1].words[5]
    heights = [float(one.get_attribute("height")) for one in viewer.all("#figure .bars.now .lexical")]
    assert heights[0] / heights[1] == pytest.approx(words[0].surprisal.lexical / words[1].surprisal.lexical, rel=1e-3)
    widths = [viewer.all(f"section:nth-child({n}) tbody .part")[0].size["width"] for n in (1, 2)]
    assert widths[0] / widths[1] == pytest.approx(words[0].expected[0][1] / words[1].expected[0][1], rel=0.05)


def test_a_label_that_the_other_tree_does_not_have_there_is_marked(viewer):
    names = iter(["S", "NP"])
    viewer.open(WORDS, WORDS, edit=lambda one: replace(one, labels=[(0, len(WORDS), next(names), len(WORDS) + 1)]))
    viewer.go_to(2 * len(WORDS))
    assert not viewer.all("#figure .label.differing")  # not decided yet
    viewer.go_to(2 * len(WORDS) + 1)
    assert [text.text for text in viewer.all("#figure .label.differing")] == ["S", "NP"]
    assert not viewer.all("#figure .edge.differing")


def test_a_screen_reader_is_told_the_tree(viewer):
    (read,) = viewer.open(WORDS)
    viewer.go_to(2 * len(WORDS))
    told = viewer.one('#figure g[role="img"]').get_attribute("aria-label")
    tree = tree_from_depths([0, *read.parse.depths], ["start", *WORDS])
    assert told == f"Tree so far: {tree}"


def test_the_figure_is_saved_as_svg_and_png_and_the_numbers_as_csv(viewer):
    (read,) = viewer.open(NASTY)
    viewer.go_to(5)
    for kind in ("svg", "png", "csv"):
        viewer.one(f"#save-{kind}").click()
    svg = ElementTree.fromstring(viewer.downloaded("som-reading.svg"))
    said = {text.strip() for text in svg.itertext()}
    assert {"dog", "0", "structural", "surprisal, in bits", "a small model, method marginal"} <= said
    assert " ".join(NASTY) in said and "var(" not in ElementTree.tostring(svg, "unicode")
    assert not viewer.one("#figure").text.count("a small model")  # the page's own figure is as it was
    png = viewer.downloaded("som-reading.png")
    assert png.startswith(b"\x89PNG")
    drawn = viewer.driver.execute_async_script(
        "const [data, done] = arguments, image = new Image(); image.onload = () => {"
        "const canvas = document.createElement('canvas'); canvas.width = image.width; canvas.height = image.height;"
        "const context = canvas.getContext('2d'); context.drawImage(image, 0, 0);"
        "const pixels = new Uint32Array(context.getImageData(0, 0, image.width, image.height).data.buffer);"
        "done([image.width, new Set(pixels).size]) }; image.src = 'data:image/png;base64,' + data",
        b64encode(png).decode(),
    )
    assert drawn[0] > 600 and drawn[1] > 20  # a picture of many colours
    header, *lines = viewer.downloaded("som-surprisals.csv").decode("utf-8-sig").splitlines()
    names = header.replace('"', "").split(",")
    assert names[:3] == ["sentence", "number", "word"] and names[-3:] == ["p_before", "p_after", "label"]
    assert len(lines) == len(read.words) and '"end"' in lines[-1]
    assert '"<script>alert(1)</script>"' in lines[1] and '""""' in lines[5]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_colours_follow_the_system_until_the_reader_chooses(viewer, dark):
    viewer.open(WORDS, dark=dark)
    background = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    assert (sum(viewer.run(background)) < 200) == dark
    viewer.one("#theme").click()
    assert (sum(viewer.run(background)) < 200) != dark


@pytest.mark.parametrize("width", [320, 375, 768, 1280])
@pytest.mark.parametrize("sentences", [[WORDS], [WORDS, CONTROL], [(WORDS * 5)[:60]], [["x" * 200, "dog"]]], ids=len)
def test_nothing_is_cut_off_or_overlaps_at_any_width(viewer, width, sentences):
    viewer.open(*sentences, width=width)
    for step in (0, 5, int(viewer.one("#slider").get_attribute("max"))):
        viewer.go_to(step)
        assert viewer.run("return document.documentElement.scrollWidth") <= width
        assert viewer.run(OUTSIDE) == []
        overlaps = viewer.run(OVERLAPS)
        assert overlaps == []
        now, holder = (
            viewer.run(f"const r = {where}.getBoundingClientRect(); return [r.left, r.right]")
            for where in ("document.querySelector('#figure .band')", "document.getElementById('figure')")
        )
        assert holder[0] - 1 <= now[0] and now[1] <= holder[1] + 1  # the word in question is in sight


# cells of tables that leave their card
OUTSIDE = """
const cells = card => [...card.querySelectorAll('td, th')];
return [...document.querySelectorAll('#panels section')].flatMap(card => cells(card).filter(cell =>
  cell.getBoundingClientRect().right > card.getBoundingClientRect().right).map(cell => cell.textContent));
"""
OVERLAPS = """
const found = [];
for (const svg of document.querySelectorAll('svg')) {
  const boxes = [...svg.querySelectorAll('text')].map(one => [one.textContent, one.getBoundingClientRect()]);
  boxes.forEach(([word, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 4) found.push([word, other]);
  }));
}
return found;
"""


def test_words_are_shown_as_they_are_and_never_run(viewer):
    viewer.open(NASTY, NASTY[::-1])
    for step in range(16):
        viewer.go_to(step)
    assert [word.text for word in viewer.all("#sentences p:first-child button")] == NASTY
    assert not viewer.all("img") and len(viewer.all("script")) == 2


def test_labels_are_shown_where_there_are_any(viewer):
    def label(one):
        words = [replace(one.words[0], tag="DET", decided=3), *one.words[1:]]
        return replace(one, words=words, labels=[(0, len(WORDS), "S", len(WORDS) + 1)])

    viewer.open(WORDS, edit=label)
    viewer.go_to(2 * len(WORDS))  # the end is expected, so the tree is whole
    assert [text.text for text in viewer.all("#figure .label")] == ["S"]
    assert "DET" in viewer.one("#figure").text


def test_labels_that_are_not_decided_yet_look_and_sound_different(viewer):
    def label(one):
        words = [replace(one.words[0], tag="DET", decided=3), *one.words[1:]]
        return replace(one, words=words, labels=[(0, len(WORDS), "S", len(WORDS) + 1)])

    viewer.open(WORDS, edit=label)
    assert "not decided yet" in viewer.one(".legend").text
    end = 2 * len(WORDS)  # the end is expected, so the tree is whole
    for step, waiting in ((0, ["DET"]), (4, ["DET"]), (5, []), (end, ["S"]), (end + 1, [])):
        viewer.go_to(step)
        found = viewer.all("#figure .undecided")
        assert [one.get_attribute("aria-label") for one in found] == [f"{tag}: not decided yet" for tag in waiting]
        assert all(one.value_of_css_property("font-style") == "italic" for one in found)
    assert [one.text for one in viewer.all("#figure .label")] == ["S"]


def test_a_page_without_labels_does_not_explain_them_in_its_legend(viewer):
    viewer.open(WORDS)
    assert "decided" not in viewer.one(".legend").text


def test_the_numbers_of_the_axis_stay_in_sight_while_the_words_scroll(viewer):
    viewer.open(WORDS, CONTROL, width=375)
    viewer.go_to(5)
    viewer.run("document.getElementById('figure').scrollLeft = 300")
    box = "return arguments[0].getBoundingClientRect()"
    assert viewer.run("return document.getElementById('figure').scrollLeft") == 300
    left = viewer.run(box, viewer.one("#figure"))["left"]
    numbers, lines = viewer.all("#figure .axis text"), viewer.all("#figure g > .grid, #figure g > .zero")
    assert len(numbers) == len(lines) >= 4
    for number, line in zip(numbers, lines, strict=True):
        shown, at = viewer.run(box, number), viewer.run(box, line)["top"]
        assert left <= shown["left"] and shown["right"] < left + 40 and shown["top"] < at < shown["bottom"]


def test_on_a_phone_the_tree_before_the_word_is_in_sight_and_can_be_seen_whole(viewer):
    viewer.open(WORDS, width=375)
    viewer.go_to(2 * len(WORDS) - 1)
    box = "const r = arguments[0].getBoundingClientRect(); return [r.left, r.right]"
    left, right = viewer.run(box, viewer.one("#figure"))
    now = sum(viewer.run(box, viewer.one("#figure .band"))) / 2
    assert now == pytest.approx(left + 0.8 * (right - left), abs=40)
    viewer.one("#whole").click()
    assert viewer.one("#whole").get_attribute("aria-pressed") == "true"
    figure = viewer.run(box, viewer.one("#figure > svg"))
    assert left - 1 <= figure[0] and figure[1] <= right + 1
    viewer.one("#whole").click()
    assert viewer.run("const f = document.getElementById('figure'); return f.scrollWidth > f.clientWidth")


def test_a_phone_has_large_buttons_a_folded_legend_and_three_lines_of_text(viewer):
    viewer.open((WORDS * 5)[:60], width=375)
    heights = viewer.run(
        "return [...document.querySelectorAll('.tools button, .controls button, td button')]"
        ".map(one => one.offsetHeight)"
    )
    assert min(heights) >= 40
    assert not viewer.one(".legend p").is_displayed()
    viewer.go_to(100)
    sentence, word = (
        viewer.run("return arguments[0].getBoundingClientRect()", viewer.one(one))
        for one in (".sentence", ".sentence .now")
    )
    assert sentence["height"] < 100 and sentence["top"] <= word["top"] and word["bottom"] <= sentence["bottom"] + 1


def test_tables_have_names(viewer):
    viewer.open(WORDS, CONTROL)
    names = [one.get_attribute("aria-label") for one in viewer.all("table")]
    assert len(names) == 4 and all(names) and len(set(names)) == 4


def test_discs_do_not_lie_over_labels(viewer):
    def label(one):
        return replace(one, labels=[(0, end, "S", len(WORDS) + 1) for end in range(2, len(WORDS) + 1)])

    viewer.open(WORDS, edit=label)
    for step in range(2, 2 * len(WORDS), 3):
        viewer.go_to(step)
        assert viewer.run(COVERED) == []


COVERED = """
const labels = [...document.querySelectorAll('#figure .label')].map(one => one.getBoundingClientRect());
return [...document.querySelectorAll('#figure .place circle')].map(one => one.getBoundingClientRect()).filter(disc =>
  labels.some(a => Math.min(a.right, disc.right) > Math.max(a.left, disc.left)
    && Math.min(a.bottom, disc.bottom) - Math.max(a.top, disc.top) > 3)).length ? ['covered'] : [];
"""


def test_pictures_of_the_page_can_be_taken_again(viewer, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    screenshots = import_module("screenshots")
    for name, shot in screenshots.SHOTS.items():
        viewer.open(*(sentence.replace(".", " .").split() for sentence in shot.sentences), dark=shot.dark)
        picture = screenshots.take(viewer.driver, viewer.folder / "page.html", shot)
        assert picture.startswith(b"\x89PNG") and shot.word in viewer.one("#status").text
        assert 10_000 < (ROOT / "docs" / name).stat().st_size < 200_000  # those that README and docs show


def test_a_model_without_prediction_network_is_shown_too(viewer):
    model = make_small(prediction_network=False)
    traces = [trace(*model, WORDS)]
    file = viewer.folder / "page.html"
    file.write_text(page(traces, "a small model"), encoding="utf-8")
    viewer.driver.get(file.as_uri())
    for step in range(2 * len(traces[0].words)):
        viewer.go_to(step)
    assert viewer.all(".parses figure") and viewer.all("#figure .place")
