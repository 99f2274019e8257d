"""From a finished run to the checkpoint that ships in the package: weights in half precision, no copies of the code.

python scripts/pack.py runs/ewt-word/shipped_som-0 som/checkpoint
"""

import json
import shutil
import sys
from pathlib import Path

import som

CODE = ("configuration_som.py", "modeling_som.py", "tokenization_som.py")


def pack(run: Path, folder: Path) -> None:
    """Write the model of `run` to `folder`; it is computed with in single precision all the same."""
    model, tokenizer = som.load(run)
    shutil.rmtree(folder, ignore_errors=True)
    model.half().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    file = folder / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"dtype": "float32"}
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for name in CODE:  # the package has these already; on the Hub they lie beside the weights
        (folder / name).unlink()
        (folder / name).symlink_to(Path("../..") / name)


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
