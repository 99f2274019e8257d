#!/usr/bin/env bash
# The numbers on the card of the checkpoint that ships, and the card.
set -euo pipefail
cd "$(dirname "$0")/.."
treebanks=${TREEBANKS:-treebanks}

mkdir -p results
som evaluate som/checkpoint --treebank "$treebanks"/en_ewt-ud-test.conllu.gz --gold --json results/shipped-ewt.json
python -c 'from som.hub import write_card
write_card("som/checkpoint", ["results/shipped-ewt.json"], "som-ewt",
           license="cc-by-sa-4.0", language="en", datasets=["UniversalDependencies/UD_English-EWT"])'
mv som/checkpoint/README.md model_cards/som-ewt.md
