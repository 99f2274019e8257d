"""Takes the pictures of `som view` in README and docs/ again, with Debian's chromium and chromium-driver.

python scripts/screenshots.py [CHECKPOINT]
"""

import argparse
import base64
import shutil
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image
from selenium import webdriver

import som
from som.files import write_whole
from som.view import SHIPPED_TITLE, page, trace

DOCS = Path(__file__).resolve().parent.parent / "docs"


@dataclass(frozen=True)
class Shot:
    """A picture of the page: of which sentences, when a word of the first has been read, down to which element."""

    sentences: tuple[str, ...]
    word: str
    until: str  # a CSS selector
    click: str = ""  # on this element, another selector
    dark: bool = False


SHOTS = {
    "view.png": Shot(
        ("The horse raced past the barn fell.", "The horse that was raced past the barn fell."),
        "fell",
        "main > section",
    ),
    "counterfactual.png": Shot(
        ("The keys to the cabinet are on the table.",),
        "are",
        ".costs",
        click=".costs tbody tr:not(.taken) button",
        dark=True,
    ),
}
WIDTH = 1080
GO = """
const [word, selector, until] = arguments;
const words = [...document.querySelectorAll('#sentences p:first-child button')];
words.filter(one => one.textContent === word).pop().click();
if (selector) document.querySelector(selector).click();
document.activeElement.blur();
scrollTo(0, 0);
return Math.ceil(document.querySelector(until).getBoundingClientRect().bottom) + 16;
"""


def browser() -> Any:
    """Chromium without a window."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-background-networking",
    ):
        options.add_argument(flag)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def take(driver: Any, file: Path, shot: Shot) -> bytes:
    """The picture of a page, as a PNG of few colours."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if shot.dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    set_height(driver, 900)
    driver.get(file.as_uri())
    set_height(driver, driver.execute_script(GO, shot.word, shot.click, shot.until))
    taken = base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])
    picture = BytesIO()
    Image.open(BytesIO(taken)).convert("RGB").quantize(128).save(picture, "png", optimize=True)
    return picture.getvalue()


def set_height(driver: Any, height: int) -> None:
    size = {"width": WIDTH, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", nargs="?", help="(default: the shipped one)")
    parser.add_argument("--out", type=Path, default=DOCS, help="folder of the pictures (default: docs)")
    args = parser.parse_args()
    model, tokenizer = som.load(args.checkpoint)
    driver = browser()
    with TemporaryDirectory() as scratch:
        for name, shot in SHOTS.items():
            file = Path(scratch) / "page.html"
            file.write_text(page([trace(model, tokenizer, one) for one in shot.sentences], SHIPPED_TITLE), "utf-8")
            write_whole(args.out / name, take(driver, file, shot))
            print(args.out / name)
    driver.quit()


if __name__ == "__main__":
    main()
