#!/usr/bin/env bash
# The checkpoint that ships, from the treebank to its card. TREEBANKS is a folder with the CoNLL-U files of UD English.
set -euo pipefail
cd "$(dirname "$0")/.."
treebanks=${TREEBANKS:-treebanks}

som prepare --train "$treebanks"/en_ewt-ud-train.conllu.gz --validation "$treebanks"/en_ewt-ud-dev.conllu.gz \
    --test "$treebanks"/en_ewt-ud-test.conllu.gz --out data/ewt
som train data/ewt --out runs/ewt --next-attachment oracle --epochs 15  # the seventh is the best
python scripts/pack.py runs/ewt som/checkpoint
bash scripts/shipped_results.sh
