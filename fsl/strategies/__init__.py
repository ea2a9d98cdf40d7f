"""Few-shot strategies, one per file. To add one, write a file in this folder and add a line to this table."""

from clustering.foundation.plugins import Plugins

STRATEGIES = Plugins(
    kind="strategy",
    table={
        "simpleshot": "fsl.strategies.simpleshot:SimpleShot",
        "laplacianshot": "fsl.strategies.laplacianshot:LaplacianShot",
        "kmeans": "fsl.strategies.kmeans:KMeans",
        "kmodes": "fsl.strategies.kmodes:KModes",
        "slk_means": "fsl.strategies.slk_means:SLKMeans",
        "slk_ms": "fsl.strategies.slk_ms:SLKMS",
        "slk_bo": "fsl.strategies.slk_bo:SLKBO",
        "soft_slk": "fsl.strategies.soft_slk:SoftSLK",
        "nearest": "fsl.strategies.nearest:Nearest",
        "baseline": "fsl.strategies.baseline:Baseline",
        "baseline_plus_plus": "fsl.strategies.baseline_plus_plus:BaselinePlusPlus",
        "matchingnet": "fsl.strategies.matchingnet:MatchingNet",
        "protonet": "fsl.strategies.protonet:ProtoNet",
        "bd_cspn": "fsl.strategies.bd_cspn:BDCSPN",
        "entropy_min": "fsl.strategies.entropy_min:EntropyMin",
        "transductive_fine_tuning": "fsl.strategies.transductive_fine_tuning:TransductiveFineTuning",
        "label_propagation": "fsl.strategies.label_propagation:LabelPropagation",
        "pt_map": "fsl.strategies.pt_map:PTMAP",
        "bpa": "fsl.strategies.bpa:BPA",
        "protolp": "fsl.strategies.protolp:ProtoLP",
        "ilpc": "fsl.strategies.ilpc:ILPC",
        "tim_gd": "fsl.strategies.tim_gd:TIMGD",
        "tim_adm": "fsl.strategies.tim_adm:TIMADM",
        "alpha_tim": "fsl.strategies.alpha_tim:AlphaTIM",
        "soft_kmeans": "fsl.strategies.soft_kmeans:SoftKMeans",
        "paddle": "fsl.strategies.paddle:PADDLE",
        "bavardage": "fsl.strategies.bavardage:BAVARDAGE",
    },
    group="transduce.strategies",
)
