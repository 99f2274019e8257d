#!/usr/bin/env bash
# The checkpoint that ships, from the treebank to its card. DATA is a folder with ud/, syntaxgym/ and blimp/, as seen from
# the project (../shared/data).
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p runs/before
git archive 1388bf2 som/checkpoint | tar -x -C runs/before  # what shipped before, its first teacher
python scripts/open_shipped.py --only "SOM, taught" --seeds 0 --results runs/shipped ${DATA:+--data "$DATA"}
python scripts/pack.py runs/ewt-word/taught_som-0 som/checkpoint
bash scripts/shipped_results.sh
