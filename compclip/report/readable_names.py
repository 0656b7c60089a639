"""Names of columns as a paper prints them: `sugarcrepe_pp/swap_itt` is SugarCrepe++ swap ITT.

A word that is not listed stays as it is, so that a new benchmark needs no entry.
"""

from __future__ import annotations

import re

# Words of benchmarks and metrics that are names or abbreviations.
WORDS = {
    "sugarcrepe": "SugarCrepe", "winoground": "Winoground", "crepe": "CREPE", "aro": "ARO", "valse": "VALSE",
    "cola": "Cola", "eqben": "EqBen", "imagecode": "ImageCoDe", "svo": "SVO", "probes": "Probes", "vl": "VL",
    "checklist": "CheckList", "whatsup": "What's Up", "spec": "SPEC", "docci": "DOCCI", "iiw": "IIW", "coco": "COCO",
    "flickr30k": "Flickr30k", "flickr8k": "Flickr8k", "imagenet": "ImageNet", "vismin": "VisMin", "mmvp": "MMVP",
    "vlm": "VLM", "bivlc": "BiVLC", "colorswap": "ColorSwap", "negbench": "NegBench", "urban1k": "Urban1k",
    "sharegpt4v": "ShareGPT4V", "bla": "BLA", "dci": "DCI", "sdci": "sDCI", "nlvr": "NLVR",
    "nlvr2": "NLVR2", "colorfoil": "ColorFoil", "fg": "FG", "ovd": "OVD", "genai": "GenAI",
    "zeroshot": "zero-shot", "itt": "ITT", "tot": "TOT", "i2t": "I2T", "t2i": "T2I",
    "obj": "object", "att": "attribute", "rel": "relation",
}  # fmt: skip
PHRASES = ((r" pp\b", "++"), (r"recall at (\d+)", r"R@\1"), (r"\btop (\d+)", r"top-\1"))


def format_name(name: str) -> str:
    """Return the readable name of a benchmark, a metric, or both with a slash between."""
    words = re.split(r"[_/ ]+", name)
    text = " ".join(WORDS.get(word, word) for word in words)
    for pattern, replacement in PHRASES:
        text = re.sub(pattern, replacement, text)
    return text
