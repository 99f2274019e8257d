"""The app in a real browser: started as a command, on this machine alone."""

import base64
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from conftest import CORPUS, make_model

from som.cli import main
from som.data.vocabularies import make_tokenizer
from som.training.models import vocabulary
from som.view.app import EXAMPLES

ROOT = Path(__file__).parent.parent.parent
CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking --disable-component-update"
)
NASTY = "the <script>alert(1)</script> ${alert(2)} {{value}} @children dog"


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("small")
    tokenizer = make_tokenizer("word", CORPUS)
    make_model(dtype=torch.float32, **vocabulary(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def heed_interrupts() -> None:
    """Tests that a script runs in the background are started with Ctrl-C ignored, and what they start inherits it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="module")
def app(small) -> Iterator[str]:
    """The address of the app; its port was taken, so it has another. Ctrl-C ends it without a word of complaint."""
    pytest.importorskip("gradio", reason="needs Gradio: pip install 'som-lm[app]'")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = [sys.executable, "-W", "ignore", "-m", "som", "app", "--model", small, "--port", str(port)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
        running = subprocess.Popen(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            preexec_fn=heed_interrupts,
        )
        address = running.stdout.readline().split()[0]
        assert address.startswith("http://127.0.0.1:") and str(port) not in address
        yield address
        running.send_signal(signal.SIGINT)
        out, complaints = running.communicate(timeout=60)
        assert running.returncode == 0 and "Traceback" not in complaints and "ended" in out


class Visitor:
    """The app in the browser, and what a visitor does with it."""

    def __init__(self, driver):
        self.driver = driver

    def all(self, selector: str) -> list:
        return self.driver.find_elements("css selector", selector)

    def wait(self, selector: str):
        for _ in range(150):
            if found := self.all(selector):
                return found[0]
            time.sleep(0.2)
        raise AssertionError(f"no {selector}")

    def fill(self, name: str, text: str) -> None:
        self.wait(f"#{name} :is(input, textarea)")
        self.driver.execute_script(
            "const box = document.querySelector(arguments[0]); box.focus();"
            "Object.getOwnPropertyDescriptor(Object.getPrototypeOf(box), 'value').set.call(box, arguments[1]);"
            "for (const name of ['input', 'change']) box.dispatchEvent(new Event(name, {bubbles: true}));"
            "box.blur()",
            f"#{name} :is(input, textarea)",
            text,
        )

    def read(self, **fields: str):
        """Fill in the form and read; what is shown then."""
        self.driver.execute_script("document.querySelector('#shown :is(iframe, .problem)')?.classList.add('before')")
        for name in ("text", "other", "force"):
            self.fill(name, fields.get(name, ""))
        self.wait("#read").click()
        return self.wait("#shown :is(iframe, .problem):not(.before)")

    def saved(self) -> dict[str, str]:
        """The files behind the links."""
        links = {a.get_attribute("download"): a.get_attribute("href") for a in self.all("#shown .files a")}
        return {name: base64.b64decode(link.partition(",")[2]).decode() for name, link in links.items()}

    def requests(self) -> list[str]:
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one["params"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent if not one["documentURL"].startswith("chrome")]


@pytest.fixture(scope="module")
def visitor(app, tmp_path_factory) -> Iterator[Visitor]:
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium: pip install selenium")
    if not (CHROMIUM and DRIVER):
        pytest.skip("needs Debian's chromium and chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in [*FLAGS.split(), f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
    driver.get(app)
    visitor = Visitor(driver)
    visitor.wait("#read")
    yield visitor
    requests = visitor.requests()
    assert requests and [url for url in requests if not url.startswith((app, "data:", "blob:", "about:"))] == []
    driver.quit()


def test_the_sentence_that_is_there_is_read_at_once_and_has_one_scroll_bar(visitor):
    frame = visitor.wait("#shown iframe")
    visitor.driver.execute_script("arguments[0].scrollIntoView()", frame)  # out of sight, nothing is measured again
    visitor.driver.switch_to.frame(frame)
    assert "horse" in visitor.wait("#sentences").text and not visitor.wait("h1").is_displayed()
    inner = "return [document.documentElement.scrollHeight, innerHeight]"
    for _ in range(100):
        needed, there = visitor.driver.execute_script(inner)
        if needed <= there:
            break
        time.sleep(0.1)
    visitor.driver.switch_to.default_content()
    assert needed <= there < 8000


def test_words_and_sisters_to_force_have_names(small):
    from som.inference import load
    from som.view.app import answer, attachments

    models = [("small", *load(small))]
    _, possible = answer(models, "the old dog sees .", "", "small", "greedy")
    names = dict(possible)
    assert names["dog → old"] == "3=word 2" and names["old → start · the"] == "2=word 0"
    for value in names.values():
        assert attachments(value) and "forced" in answer(models, "the old dog sees .", "", "small", "greedy", value)[0]


@pytest.mark.parametrize("kind", ["Garden path", "Centre embedding", "Agreement"])
def test_an_example_fills_in_both_sentences_and_is_read(visitor, kind):
    visitor.driver.execute_script("document.querySelector('#shown iframe')?.classList.add('before')")
    wanted = next(pair for name, *pair in EXAMPLES if name == kind)
    next(one for one in visitor.all("button") if one.text.startswith(kind)).click()
    boxes = [visitor.wait(f"#{name} :is(input, textarea)") for name in ("text", "other")]
    for _ in range(100):
        if [box.get_property("value") for box in boxes] == wanted:
            break
        time.sleep(0.1)
    else:
        raise AssertionError(f"{wanted} was not filled in")
    visitor.driver.switch_to.frame(visitor.wait("#shown iframe:not(.before)"))
    assert len(visitor.all("#sentences p")) == 2 and wanted[0].split()[1] in visitor.wait("#sentences").text
    visitor.driver.switch_to.default_content()


def test_the_tree_of_a_typed_sentence_appears_in_a_frame_that_cannot_touch_the_app(visitor):
    frame = visitor.read(text="the old dog sees the cat .")
    assert frame.get_attribute("sandbox").split() == ["allow-scripts", "allow-downloads"]
    visitor.driver.switch_to.frame(frame)
    assert visitor.wait("#figure svg") and "dog" in visitor.wait("#sentences").text
    visitor.driver.switch_to.default_content()


def test_words_that_look_like_markup_or_templates_are_text(visitor):
    frame = visitor.read(text=NASTY)
    assert not visitor.all("#shown script") and "script" in visitor.wait("#shown table").get_attribute("textContent")
    visitor.driver.switch_to.frame(frame)
    shown = visitor.wait("#sentences").text
    visitor.driver.switch_to.default_content()
    squeezed = re.sub(r"\s", "", shown)
    assert all(part in squeezed for part in ("<script>alert(1)</script>", "${alert(2)}", "{{value}}", "@children"))


def test_a_second_sentence_and_a_forced_attachment_are_compared(visitor):
    for fields in ({"other": "the cat sees a dog ."}, {"force": "3=1"}):
        frame = visitor.read(text="the old dog sees the cat .", **fields)
        visitor.driver.switch_to.frame(frame)
        assert len(visitor.all("#sentences p")) == 2
        visitor.driver.switch_to.default_content()
    assert "B with 3=1 forced" in visitor.wait("#shown .bar").text


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"text": "dog " * 90}, "up to 80 words"),
        ({"text": ""}, "type a sentence"),
        ({"text": "the dog", "force": "2"}, "expected WORD=DEPTH or WORD=word NUMBER"),
        ({"text": "the <b>dog</b>", "force": "2=9"}, "cannot be put at depth 9"),
    ],
)
def test_what_cannot_be_read_is_told_in_one_line(visitor, fields, message):
    problem = visitor.read(**fields)
    assert message in problem.text and not problem.find_elements("css selector", "*")


def test_surprisals_and_parses_can_be_saved(visitor):
    visitor.read(text="the old dog sees the cat .")
    files = visitor.saved()
    lines = files["som-surprisals.csv"].splitlines()
    assert lines[0].startswith('"sentence","number","word"') and len(lines) == 1 + 7 + 1  # the end counts too
    assert '"dog"' in lines[3]
    (parses,) = (text for name, text in files.items() if name.startswith("som-parse.conll"))
    assert "3\tdog\t" in parses


def test_models_and_methods_from_elsewhere_are_refused(small):
    from som.inference import load
    from som.view.app import answer

    models = [("small", *load(small))]
    for model, method in (("/etc/passwd", "greedy"), ("small", "os.system")):
        assert "from the lists" in answer(models, "the dog", "", model, method)[0]
    assert "<iframe" in answer(models, "the dog", "", "small", "beam")[0]
    assert "2000 characters" in answer(models, "x" * 5000, "", "small", "greedy")[0]


def test_without_gradio_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr("som.cli.app.find_spec", lambda name: None)
    assert main(["app"]) == 2
    assert capsys.readouterr().err == "som app: error: the app needs Gradio: pip install 'som-lm[app]'\n"
