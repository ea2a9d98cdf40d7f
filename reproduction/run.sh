#!/bin/sh
# Make the runs of the shipped record, and those that it still lacks, on a CPU: reproduction/run.sh FOLDER, where FOLDER
# has the folders clustering, fair, vlm, mini_imagenet, omniglot and checkpoints of reference data. Finished runs are
# reused, and an interrupted call continues. Takes a day on one core; the training of conv4 alone an hour and a half.
set -eu
data=${1:?give the folder of reference data}
results=${TRANSDUCE_RESULTS:-results}
mini=$data/mini_imagenet
show() { transduce table "$@" results="$results" --run-missing -y; }
draw() { transduce figure "$@" results="$results" --run-missing -y; }
evaluate() { transduce evaluate "$@" results="$results"; }
audit() { evaluate "$@" strategy=laplacianshot,slk_ms shot=1,5 tasks=10000 audit=best_permutation,directed_with_self; }

show rs_transclip/1 features_root="$data/vlm"
show rs_transclip/2 features_root="$data/vlm"
show vlm/regimes features_root="$data/vlm"

for table in thesis/2.1 slk/1 slk_fewshot/V; do
    show $table mnist.root="$data/clustering" shuttle.root="$data/clustering" mnist_small.root="$data/clustering"
done
show xsdc/2 mnist.root="$data/clustering" magic.root="$data/clustering" cifar10.root="$data/clustering"
show thesis/2.3 mnist_small.root="$data/clustering"
# LK is left out on MNIST and Shuttle, where the papers print no number: 40 trials on MNIST take an hour and a half.
points() { transduce cluster root="$data/clustering" normalize=l2 results="$results" "$@"; }
points dataset=mnist,shuttle,digits,usps,r8 method=kmeans,kmodes,ncut n_init=1    # a start each, as in the tables
points dataset=mnist,shuttle,digits,usps method=kernel_kmeans init=k-means++ n_init=1
points dataset=mnist,shuttle,digits,usps,r8 method=slk_mean_shift,slk_byproduct,slk_means

show thesis/3.2 adult_thesis.root="$data/fair" bank_thesis.root="$data/fair"
show thesis/3.3 adult_thesis.root="$data/fair" bank_thesis.root="$data/fair"

show entropy/I
show entropy/III mnist.root="$data/clustering"
for experiment in entropy_orders entropy_mnist_rivals xsdc_magic; do
    show $experiment root="$data/clustering"
done
show entropy_labels root="$data/clustering" seed=0,1,2

# conv4 and conv6 of other authors, in place of the papers' large networks
for network in "conv4 simpleshot_protonet_conv4_5shot" "conv4 rap_mini_protonet_conv4_5shot" \
    "conv6 rap_mini_protonet_conv6_5shot"; do
    backbone=${network% *} file=$data/checkpoints/${network#* }.npz
    show thesis/4.4@mini root="$mini" backbone="$backbone" checkpoint="$file"
    show slk_fewshot/II@mini root="$mini" backbone="$backbone" checkpoint="$file"
    evaluate experiment=all_strategies benchmark=mini root="$mini" backbone="$backbone" checkpoint="$file"
    audit benchmark=mini root="$mini" backbone="$backbone" checkpoint="$file"
done
evaluate experiment=mini_conv4_cpu root="$mini" trainer.precision=bf16-mixed    # slow on processors without bfloat16
for table in thesis/4.4 slk_fewshot/II; do
    show $table@omniglot root="$data/omniglot"
done
audit benchmark=omniglot root="$data/omniglot" backbone=conv4
for figure in thesis/4.1 thesis/4.2; do
    draw $figure root="$mini" backbone=conv4 checkpoint="$data/checkpoints/simpleshot_protonet_conv4_5shot.npz"
done

for figure in thesis/0.1 thesis/3.2 thesis/3.3 entropy/1 entropy/2 entropy/3 entropy/4 entropy/8; do
    draw $figure
done
for figure in thesis/2.1 thesis/2.2 thesis/2.3@mnist slk/2 slk_fewshot/1 entropy/11 entropy/12; do
    draw $figure root="$data/clustering"
done
draw thesis/3.1 root="$data/fair"
for figure in 3 4 5 6 7 8 9 10 11 12 13; do
    draw xsdc/$figure root="$data/clustering"
done

here=$(dirname "$0")
python "$here/export.py" "$here" "$results"
