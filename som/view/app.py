"""The app: a page, made with Gradio, on which to type a sentence and watch a SOM read it.

What a visitor types reaches the page as escaped text alone, and the page of the reading is in a frame of its own,
whose code cannot touch the app. Models are those that the app was started with, chosen from a list.
"""

from __future__ import annotations

import csv
import errno
import os
import re
import socket
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from modeling_som.scoring_som import METHODS, Method
from som.inference import load, to_frame
from som.view.page import TEMPLATES, page
from som.view.trace import LONGEST, Trace, trace

HOST = "127.0.0.1"
CHARACTERS = 2000  # of a sentence: more are refused before anything is computed
SHIPPED_TITLE = "the model that comes with the package"
EXAMPLES = [
    ("Garden path", "The horse raced past the barn fell.", "The horse that was raced past the barn fell."),
    ("Garden path", "While the man hunted the deer ran away.", "While the man hunted, the deer ran away."),
    (
        "Centre embedding",
        "The dog that the cat that the boy saw chased ran away.",
        "The dog that the cat chased ran away.",
    ),
    ("Agreement", "The keys to the cabinet are on the table.", "The keys to the cabinet is on the table."),
    ("Agreement", "The author that the guards like laughs.", "The author that the guards like laugh."),
]
# what the templates of Gradio would take for theirs
LITERAL = str.maketrans({character: f"&#{ord(character)};" for character in "${}`\\@"})
# the frame tells its height, so that there is one scroll bar, and does so at once, since browsers do not draw what is
# out of sight; only a number is taken from it. The app has a title of its own
FRAMED = """<style>h1 { display: none } .tools { grid-column: 1 / -1; justify-content: flex-end }</style>
<script>{const tell = () => parent.postMessage({somHeight: document.documentElement.offsetHeight}, "*");
tell(); new ResizeObserver(tell).observe(document.documentElement)}</script>"""
HEAR_HEIGHT = """<script>addEventListener("message", event => {
  const height = Number(event.data?.somHeight);
  for (const frame of document.querySelectorAll("iframe.reading"))
    if (frame.contentWindow === event.source && height > 0) frame.style.height = Math.min(height + 8, 8000) + "px";
})</script>"""
# the browser itself is told to fetch from here alone
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'self'; form-action 'self'"
Loaded = tuple[str, Any, Any]  # name, model, tokenizer


def gradio() -> Any:
    """Gradio, told to send nothing home before it is imported."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"
    try:
        import gradio
    except ImportError:
        raise ImportError("the app needs Gradio: pip install 'som-lm[app]'") from None
    return gradio


# ---------------------------------------------------------------------------------------------- from text to page


def trace_texts(model: Loaded, text: str, other: str, method: str, force: str = "") -> tuple[list[Trace], str]:
    """The readings to be shown, and in a sentence what they are; a forced one stands below the free one, if alone."""
    name, network, tokenizer = model
    if max(len(text), len(other)) > CHARACTERS:
        raise ValueError(f"a sentence may have {CHARACTERS} characters and {LONGEST} words, this one is longer")
    if not text.strip():
        raise ValueError("type a sentence first")
    free, attach = partial(trace, network, tokenizer, method=method), attachments(force)
    if not attach:
        sentences = [text, other] if other.strip() else [text]
        return [free(one) for one in sentences], f"Read by {name}, {method}."
    forced, told = free(text, attach=attach), f"{force.strip()} forced"
    if other.strip():
        return [forced, free(other)], f"Read by {name}, {method}; in A, {told}."
    return [free(text), forced], f"Read by {name}, {method}; A is read freely, B with {told}."


def attachments(text: str) -> dict[int, int | str]:
    """What a visitor forces, written as for `som surprisal --attach`.

    >>> attachments("3=1, 6=word 2"), attachments(" ")
    ({3: 1, 6: 'word 2'}, {})
    """
    found: dict[int, int | str] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"([0-9]{1,4})\s*=\s*([0-9]{1,4}|word [0-9]{1,4})", part)
        if not match:
            raise ValueError(f"expected WORD=DEPTH or WORD=word NUMBER, such as 3=1, got {part!r}")
        found[int(match[1])] = int(match[2]) if match[2].isdecimal() else match[2]
    return found


def answer(
    models: Sequence[Loaded], text: Any, other: Any, model: Any, method: Any, force: Any = ""
) -> tuple[str, list[tuple[str, str]]]:
    """What is shown of a reading, or what was wrong, as markup in which every character of the text is escaped; and
    the attachments that can be forced next."""
    try:
        chosen = next((one for one in models if one[0] == model), None)
        if chosen is None or method not in METHODS:
            raise ValueError("choose a model and a method from the lists")
        traces, note = trace_texts(chosen, str(text or ""), str(other or ""), method, str(force or ""))
    except ValueError as error:
        return fragment(problem=str(error)), []
    shown = page(traces, chosen[0]) + FRAMED
    return fragment(page=shown, note=note, traces=traces, files=tables(traces)), choices(traces[0])


def choices(read: Trace) -> list[tuple[str, str]]:
    """The places of every word, by the names of the word and its sister, and as `attachments` wants them."""
    words = [row.surprisal.word for row in read.words[:-1]]
    return [
        (f"{words[i]} → {sister_name(words, place.first, i)}", f"{i + 1}=word {place.first}")
        for i, row in enumerate(read.words[:-1])
        for place in row.places
        if len(row.places) > 1
    ]


def sister_name(words: Sequence[str], first: int, end: int) -> str:
    """What the words before the one in question, from the first-th on, are called; 0 is the start of the sentence.

    >>> sister_name(["the", "old", "dog"], 2, 3), sister_name(["the", "old", "dog"], 0, 3)
    ('old dog', 'start · the old dog')
    """
    inner = list(words[max(first - 1, 0) : end])
    inner = [*inner[:2], "…", *inner[-2:]] if len(inner) > 5 else inner
    return " ".join(inner) if first else " · ".join(filter(None, ["start", " ".join(inner)]))


def fragment(**parts: Any) -> str:
    return TEMPLATES.get_template("app.html").render(**parts).translate(LITERAL)


def tables(traces: Sequence[Trace]) -> dict[str, str]:
    """Files to save, each by its name in base64: surprisals, and parses with what the model knows of them."""
    frame = to_frame([[word.readable for word in one.words] for one in traces]).drop(columns="parses")
    surprisals = frame.to_csv(index=False, float_format="%.4f", quoting=csv.QUOTE_NONNUMERIC)
    if all(one.parse.heads for one in traces):
        parses = {"som-parse.conllu": "".join(one.parse.to_conllu(i) for i, one in enumerate(traces, start=1))}
    else:  # without labels there are depths alone
        parses = {"som-parse.conll": "\n".join(one.parse.conll() for one in traces)}
    return {
        name: b64encode(text.encode()).decode() for name, text in {"som-surprisals.csv": surprisals, **parses}.items()
    }


# ---------------------------------------------------------------------------------------------- the app


def app(checkpoints: Mapping[str, str | Path | None]) -> Any:
    """A `gradio.Blocks` with these models to choose from by their names, loaded; None is the shipped one."""
    gr = gradio()
    models = [(name, *load(path)) for name, path in checkpoints.items()]
    names = list(checkpoints)
    with gr.Blocks(title="Watching a SOM read", analytics_enabled=False) as blocks:
        limit = f"Sentences of up to {LONGEST} words. Nothing you type is kept."
        gr.HTML(
            "<h1>Watch a language model parse while it reads</h1><p>Type a sentence: the tree grows with every word, "
            f"while the next word is predicted. {limit}</p>",
            elem_classes="lead",
        )
        with gr.Row():
            text = gr.Textbox(EXAMPLES[0][1], label="Sentence", max_length=CHARACTERS, elem_id="text", min_width=280)
            other = gr.Textbox(label="Compare with (optional)", max_length=CHARACTERS, elem_id="other", min_width=280)
        with gr.Row(equal_height=True):
            model = gr.Dropdown(names, value=names[0], label="Model", elem_id="model", min_width=200)
            default = str(Method.of(models[0][1], None))
            method = gr.Dropdown(list(METHODS), value=default, label="Method", elem_id="method", min_width=140)
            label = "Force (optional): a word → its sister"
            force = gr.Dropdown([], label=label, allow_custom_value=True, value="", elem_id="force", min_width=280)
            button = gr.Button("Read", variant="primary", elem_id="read", scale=0, min_width=140)
        inputs, shown = [text, other, model, method, force], gr.HTML(elem_id="shown", js_on_load=None)

        def read(*values: Any) -> tuple[str, Any]:
            markup, possible = answer(models, *values)
            return markup, gr.Dropdown(choices=[("as the model decides", ""), *possible]) if possible else gr.skip()

        reading = {"fn": read, "inputs": inputs, "outputs": [shown, force], "api_visibility": "private"}
        for event in (button.click, text.submit, other.submit, blocks.load):
            event(**reading)
        labels = [f"{kind}: {sentence}" for kind, sentence, _ in EXAMPLES]
        rows = [list(pair) for _, *pair in EXAMPLES]
        heading = "Examples, with a sentence to compare"
        examples = gr.Examples(rows, [text, other], example_labels=labels, label=heading)
        examples.load_input_event.then(lambda: "", outputs=force, api_visibility="private").then(**reading)
    return blocks


def look() -> dict[str, Any]:
    """How the app looks, for `launch`: letters of the reader's own system, no links."""
    gr = gradio()
    letters = [gr.themes.Font(name) for name in ("system-ui", "Segoe UI", "Roboto", "sans-serif")]
    plain = [gr.themes.Font("ui-monospace"), gr.themes.Font("monospace")]
    theme = gr.themes.Base(primary_hue="orange", neutral_hue="stone", font=letters, font_mono=plain)
    css = Path(__file__).with_name("app.css")
    return {"theme": theme, "css_paths": css, "head": HEAR_HEIGHT, "footer_links": [], "ssr_mode": False}


def serve(blocks: Any, port: int, show: bool = False) -> None:
    """Run the app on this machine alone until Ctrl-C, on this port or, if it is taken, another."""
    from starlette.middleware import Middleware
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    outer = [Middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"]), Middleware(OnlyFromHere)]
    blocks.launch(
        server_name=HOST,
        server_port=free_port(port),
        inbrowser=show,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        mcp_server=False,
        enable_monitoring=False,
        app_kwargs={"middleware": outer},
        **look(),
    )
    print(f"{blocks.local_url} (Ctrl-C ends it)", flush=True)
    try:
        Event().wait()
    except KeyboardInterrupt:
        print("som app: ended")
    finally:
        blocks.close(verbose=False)


def free_port(wanted: int) -> int:
    """This port, or any free one where another program has it."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, wanted))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise ValueError(f"port {wanted} cannot be used: {error.strerror}") from None
            probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class OnlyFromHere:
    """Tells the browser with every answer that nothing is to be fetched from elsewhere."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_policy(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), (b"content-security-policy", POLICY.encode())]
            await send(message)

        await self.app(scope, receive, send_with_policy)
