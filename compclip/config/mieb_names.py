"""What MIEB (Xiao et al., 2025, arXiv:2504.10471) calls the compositional tasks that are also benchmarks here.

Its numbers are accuracies over all rows of its own copies on the hub, in which the first of equals is chosen and the
right one stands first, so that ties are right but for Winoground's, where one of the two choices is. `evaluate.ties:
first` counts so in ARO's two orders alone. Read in embeddings-benchmark/mteb, AbsTaskImageTextPairClassification and
its tasks.
"""

from __future__ import annotations

# MIEB's task -> our metric, and what differs beside ties.
MIEB_TASKS = {
    "AROCocoOrder": ("aro/coco_order", ""),
    "AROFlickrOrder": ("aro/flickr30k_order", ""),
    "AROVisualAttribution": (
        "aro/visual_genome_attribution",
        "over all cases; ours is the mean over pairs of attributes",
    ),
    "AROVisualRelation": ("aro/visual_genome_relation", "over all cases; ours is the mean over relations"),
    "ImageCoDe": ("imagecode/average", ""),
    "SugarCrepe": ("sugarcrepe/average", "over all records; ours is the mean over seven subsets"),
    "Winoground": ("winoground/group", ""),
}


def describe_tasks(benchmark: str) -> dict[str, str]:
    """Return MIEB's tasks that are this benchmark, with our metric and what differs."""
    return {
        task: f"{metric}{difference and f' ({difference})'}"
        for task, (metric, difference) in MIEB_TASKS.items()
        if metric.partition("/")[0] == benchmark
    }


def find_benchmark(name: str) -> str:
    """Return the benchmark that is MIEB's task of this name; another name as it is."""
    return MIEB_TASKS[name][0].partition("/")[0] if name in MIEB_TASKS else name
