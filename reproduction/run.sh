#!/bin/sh
# Make the shipped record again, on a CPU: reproduction/run.sh FOLDER, where FOLDER has the folders clustering, fair and
# vlm of reference data. Finished runs are reused, so an interrupted call continues. Takes about three hours on one core.
set -eu
data=${1:?give the folder of reference data}
results=${TRANSDUCE_RESULTS:-results}
show() { transduce table "$@" results="$results" --run-missing -y; }

show rs_transclip/1 features_root="$data/vlm"
show rs_transclip/2 features_root="$data/vlm"
show thesis/3.2 adult_thesis.root="$data/fair" bank_thesis.root="$data/fair"
show thesis/3.3 adult_thesis.root="$data/fair" bank_thesis.root="$data/fair"
show entropy/I
show entropy/III mnist.root="$data/clustering"
show thesis/2.3 mnist_small.root="$data/clustering"
show thesis/2.2 mnist.root="$data/clustering" shuttle.root="$data/clustering"
show slk_fewshot/IV mnist.root="$data/clustering" shuttle.root="$data/clustering"
transduce record export "$(dirname "$0")/record.jsonl.gz" results="$results"
