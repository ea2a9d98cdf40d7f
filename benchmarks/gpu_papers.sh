#!/usr/bin/env bash
# The papers' results on mini-ImageNet, and parity and speed on a GPU, in calls of a few minutes each:
#
#     benchmarks/gpu_papers.sh DATA [minutes] [--small] [--dry-run] [key=value ...]
#
# DATA is a folder with mini_imagenet/. A call ends by itself within its minutes (9). The next call continues: training
# after its last finished epoch, tunings and evaluations after what is recorded. Results are in $TRANSDUCE_RESULTS, else
# in results/. There, gpu_papers/STEP.txt is what a finished step printed, STEP.failed what a failed one printed; remove
# the file to run a step again. Each call also writes gpu_papers/results.csv, all results (reproduction/export.py).
#
# Exit code: 0 all done; 1 all done, but steps failed; 2 a user's mistake; 75 call again.
#
# A key=value goes to every command of transduce, such as workers=8 trainer.precision=bf16-mixed.
#
# --small takes the same steps on a CPU, on pictures of 4 x 4 pixels, 20 a class: 2 epochs, 100 tasks, 5 in a tuning.
# --dry-run shows the steps and the plan of each, and runs none of them.
set -uo pipefail
began=$(date +%s)
here=$(cd "$(dirname "$0")" && pwd)

mistake() {
    echo "gpu_papers.sh: $1" >&2
    exit 2
}

data="" minutes="" small="" dry="" settings=()
for word in "$@"; do
    case $word in
        --small) small=yes ;;
        --dry-run) dry=yes ;;
        *=*) settings+=("$word") ;;
        -*) mistake "unknown option $word; the options are --small and --dry-run" ;;
        *) if [ -z "$data" ]; then data=$word; elif [ -z "$minutes" ]; then minutes=$word; else
            mistake "$word is one argument too many; usage: gpu_papers.sh DATA [minutes] [--small] [--dry-run] [key=value ...]"; fi ;;
    esac
done
[ -n "$data" ] || mistake "give the folder of the data: gpu_papers.sh DATA [minutes] [--small] [--dry-run]"
[ -d "$data/mini_imagenet" ] || mistake "$data has no folder mini_imagenet; put the pictures of mini-ImageNet there"
[[ ${minutes:=9} =~ ^[1-9][0-9]{0,3}$ ]] || mistake "minutes must be a whole number from 1 to 9999, not $minutes"

pictures=$data/mini_imagenet
results=${TRANSDUCE_RESULTS:-results} results=${results%/}
transduce=(transduce) some=() few=()
device=cuda parity=() speed=(simpleshot bd_cspn laplacianshot slk_means slk_ms tim_adm paddle pt_map) overhead=(--turns 5 --images 25600)
if [ -n "$small" ]; then
    export OMP_WAIT_POLICY=passive # where cores are shared, threads that wait actively take them from others
    results+=-small
    transduce=(python "$here/few_pictures.py")
    settings+=(device=cpu training.epochs=2 tuning="$results/papers.yaml") some=(tasks=100) few=(tasks=2 query=1)
    device=cpu parity=(--tasks 2) speed=(laplacianshot --rounds 1 --seconds 0.1) overhead=(--turns 1 --images 640)
elif [ -z "$dry" ] && ! python -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    mistake "torch finds no GPU here; --small takes the same steps on a CPU"
fi
log=$results/gpu_papers
if [ -z "$dry" ]; then mkdir -p "$log" || mistake "$log cannot be written; set TRANSDUCE_RESULTS to another folder"; fi
if [ -n "$small" ]; then
    pictures=$results/pictures
    mkdir -p "$results"
    sed 's/^tasks: .*/tasks: 5/' "$here/../configs/tuning/papers.yaml" >"$results/papers.yaml"
    [ -f "$pictures/novel.npz" ] || "${transduce[@]}" make "$data/mini_imagenet" "$pictures" ||
        mistake "the pictures of $data/mini_imagenet cannot be read"
fi

end=$((began + 60 * minutes - 40)) # 20 seconds for an interrupted step to end, 20 for the export
finished=() failed=() left=()

step() { # step NAME COMMAND...: run a command unless an earlier call has, or the time is over
    local name=$1 remaining=$((end - $(date +%s)))
    shift
    if [ -n "$dry" ]; then
        echo "== $name: $*"
        if [ "$1" = python ] && [ "$1 $2" != "python $here/few_pictures.py" ]; then return; fi
        "$@" --dry-run | sed -n '/^# plan/,$p'
        [ "${PIPESTATUS[0]}" = 0 ] || failed+=("$name")
    elif [ -e "$log/$name.txt" ]; then
        finished+=("$name")
    elif [ -e "$log/$name.failed" ]; then
        failed+=("$name")
    elif [ ${#left[@]} -gt 0 ] || [ "$remaining" -lt 5 ]; then
        left+=("$name")
    else
        echo "== $name"
        timeout --foreground --signal=INT --kill-after=20 "$remaining" "$@" 2>&1 | tee "$log/$name.part"
        local code=${PIPESTATUS[0]}
        if [ "$code" = 137 ] && [ "$(date +%s)" -ge "$end" ]; then code=124; fi
        case $code in
            0) mv "$log/$name.part" "$log/$name.txt" && finished+=("$name") ;;
            124 | 130) left+=("$name") ;; # the time was over, or the step was interrupted
            *) mv "$log/$name.part" "$log/$name.failed" && failed+=("$name") && echo "== $name: exit code $code" ;;
        esac
    fi
}

papers() { # papers EXPERIMENT BACKBONE TABLE...: training, features, tuning and evaluations, then cells of the tables
    local experiment=$1 network=$2
    shift 2
    step "$experiment" "${transduce[@]}" evaluate experiment="$experiment" root="$pictures" \
        "${settings[@]}" "${some[@]}" results="$results"
    for table in "$@"; do cells "$network" "$table" "${some[@]}"; done
}

cells() { # cells BACKBONE TABLE [key=value...]: what a table lacks on mini-ImageNet with one network
    local network=$1 table=$2
    shift 2 # benchmark= and backbone= give every cell these two, so that no other images and networks are asked for
    step "${table/\//-}-$network" "${transduce[@]}" table "$table" benchmark=mini root="$pictures" \
        backbone="$network" "${settings[@]}" "$@" results="$results" --run-missing -y
}

papers mini_resnet18 resnet18_84 thesis/4.1 thesis/4.4 slk_fewshot/II
step parity python "$here/parity.py" --device "$device" "${parity[@]}"
step speed python "$here/strategies.py" --device "$device" "${speed[@]}"
step training_overhead python "$here/training_overhead.py" --device "$device" --sizes 84 "${overhead[@]}"
cells resnet18_84 thesis/4.5 "${few[@]}"
papers mini_wrn wrn28_10 thesis/4.1 slk_fewshot/II
cells wrn28_10 thesis/4.5 "${few[@]}"
if [ -n "$dry" ]; then
    [ ${#failed[@]} -eq 0 ]
    exit
fi

python "$here/../reproduction/export.py" "$log" "$results"
echo "done: ${finished[*]:-nothing}"
[ ${#failed[@]} -eq 0 ] || echo "failed: ${failed[*]}; what they printed is in $log/*.failed"
[ ${#left[@]} -eq 0 ] || { echo "left: ${left[*]}; call again" && exit 75; }
[ ${#failed[@]} -eq 0 ] || exit 1
