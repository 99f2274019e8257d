"""From a finished run to the checkpoint that ships in the package: weights in half precision, no copies of the code.

python scripts/pack.py runs/ewt-som-en/averaged-0 som/checkpoint
python scripts/pack.py som/checkpoint som/checkpoint  # the same weights, with the text rules of this version
"""

import argparse
import json
import shutil
from pathlib import Path

import som
from modeling_som import SOMTokenizer
from modeling_som.counts_som import save_word_counts
from modeling_som.tokenization_som import never_generated
from som.data import set_word_rules


def pack(run: Path, folder: Path) -> None:
    """Write the model of `run` to `folder`, whose old content stays until then, and whose card stays.

    It is computed with in single precision all the same. A word vocabulary gets the text rules of this version."""
    if folder.exists() and not (folder / "config.json").is_file():
        raise FileExistsError(f"{folder}: expected a new folder or a checkpoint to replace, this is something else")
    model, tokenizer = som.load(run)
    if isinstance(tokenizer, SOMTokenizer):
        set_word_rules(tokenizer.backend_tokenizer, sorted(tokenizer.known, key=tokenizer.known.__getitem__))
    model.generation_config.suppress_tokens = never_generated(tokenizer)
    scratch = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(scratch, ignore_errors=True)
    model.half().save_pretrained(scratch)
    tokenizer.save_pretrained(scratch)
    save_word_counts(tokenizer, scratch)
    file = scratch / "config.json"
    config = json.loads(file.read_text(encoding="utf-8")) | {"dtype": "float32"}
    file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    file = scratch / "tokenizer.json"  # a third of it are spaces
    words = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps(words, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    for code in scratch.glob("*.py"):  # the package has these already; on the Hub they lie beside the weights
        code.unlink()
        code.symlink_to(Path("../../modeling_som") / code.name)
    if (card := folder / "README.md").is_symlink():
        card.rename(scratch / card.name)
    shutil.rmtree(folder, ignore_errors=True)
    scratch.rename(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("folder", type=Path, metavar="DIR")
    pack(**vars(parser.parse_args()))
