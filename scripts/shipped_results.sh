#!/usr/bin/env bash
# The numbers on the card of the checkpoint that ships, and the card. DATA is a folder with ud/, syntaxgym/ and blimp/,
# as seen from the project (../shared/data).
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-../shared/data}

mkdir -p results/shipped
measure() { som evaluate som/checkpoint "${@:2}" --json "results/shipped/$1.json"; }
measure ewt --treebank "$data"/ud/en_ewt-ud-test.conllu.gz --gold
measure ewt-beam --treebank "$data"/ud/en_ewt-ud-test.conllu.gz --method beam
measure syntaxgym --syntaxgym "$data"/syntaxgym/suites
measure blimp --blimp "$data"/blimp/blimp.jsonl.gz
python -c 'from som.hub import write_card
results = [f"results/shipped/{name}.json" for name in ("ewt", "ewt-beam", "syntaxgym", "blimp")]
write_card("som/checkpoint", results, None, title="som-ewt",
           license="cc-by-sa-4.0", language="en", datasets=["UniversalDependencies/UD_English-EWT"])'
mv som/checkpoint/README.md model_cards/som-ewt.md
ln -s ../../model_cards/som-ewt.md som/checkpoint/README.md
