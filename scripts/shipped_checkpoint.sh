#!/usr/bin/env bash
# The checkpoint that ships, from the treebank to its card; arguments go to open_shipped.py, as --data DIR.
# shipped_results.sh looks for the CoNLL-U files of UD English in TREEBANKS, a folder or a link to it (treebanks).
set -euo pipefail
cd "$(dirname "$0")/.."

python scripts/open_shipped.py --only SOM --seeds 0 --results runs/shipped "$@"
python scripts/pack.py runs/ewt-word/shipped_som-0 som/checkpoint
bash scripts/shipped_results.sh
