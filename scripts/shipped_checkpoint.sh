#!/usr/bin/env bash
# The checkpoint that ships, som-en, from the treebanks to its card. DATA is a folder with amalgum/, ud/, syntaxgym/ and
# blimp/, as seen from the project (../shared/data).
set -euo pipefail
cd "$(dirname "$0")/.."

python scripts/open_en.py ${DATA:+--data "$DATA"}
python scripts/pack.py runs/ewt-som-en/averaged-0 som/checkpoint
bash scripts/shipped_results.sh
