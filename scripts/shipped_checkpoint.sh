#!/usr/bin/env bash
# The checkpoint that ships, from the treebank to its card. DATA is a folder with the CoNLL-U files of UD English in ud/.
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-../shared/data}

python scripts/open_shipped.py --data "$data" --only SOM --seeds 0
python scripts/pack.py runs/ewt-word/shipped_som-0 som/checkpoint
TREEBANKS=$data/ud bash scripts/shipped_results.sh
