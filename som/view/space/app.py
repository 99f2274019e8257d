"""The app of a Space: type a sentence and watch the models in the folder beside this file read it."""

from pathlib import Path

from som.view import app, look

MODELS_FOLDER = Path(__file__).with_name("models")

if __name__ == "__main__":
    app({folder.name: folder for folder in sorted(MODELS_FOLDER.iterdir())}).launch(
        share=False, mcp_server=False, **look()
    )
