#!/usr/bin/env bash
# The numbers of the checkpoint that ships, those on its card, and the card. DATA is a folder with amalgum/, ud/, syntaxgym/ and
# blimp/, as seen from the project (../shared/data).
set -euo pipefail
cd "$(dirname "$0")/.."
data=${DATA:-../shared/data}

mkdir -p results/shipped
measure() { som evaluate som/checkpoint "${@:2}" --json "results/shipped/$1.json"; }
measure ewt --treebank "$data"/ud/en_ewt-ud-test.conllu.gz --gold
measure ewt-beam --treebank "$data"/ud/en_ewt-ud-test.conllu.gz --method beam
measure amalgum --treebank "$data"/amalgum/test.conllu.gz
for name in gum pud partut lines; do
    measure $name --treebank "$data"/ud/en_$name-ud-test.conllu.gz
done
measure syntaxgym --syntaxgym "$data"/syntaxgym/suites
measure blimp --blimp "$data"/blimp/blimp.jsonl.gz
som garden-paths --model som/checkpoint --json results/shipped/garden-paths.json
rm -f som/checkpoint/README.md  # a link, through which the card would be written
python -c 'from som.hub import write_card
names = ("ewt", "ewt-beam", "amalgum", "gum", "pud", "partut", "lines", "syntaxgym", "blimp")
write_card("som/checkpoint", [f"results/shipped/{name}.json" for name in names], None, title="som-en",
           license="cc-by-sa-4.0", language="en", datasets=["gucorpling/amalgum", "UniversalDependencies/UD_English-EWT"],
           limits=open("scripts/som_en_limits.md", encoding="utf-8").read().strip())'
mv som/checkpoint/README.md model_cards/som-en.md
ln -s ../../model_cards/som-en.md som/checkpoint/README.md
