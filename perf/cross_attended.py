"""C2LIP's cross-attended term: one tensor expression against one concept at a time, forward and backward, in one run.

    python -m perf.cross_attended [--images 64 --patches 196 --concepts 320 --dim 512 --threads 1]

B images, P patches, N concepts, D dim. The loop is what the method's released code does, with the same result.
Both are warmed up once, then timed in turns. Compare on idle cores: threads that wait for each other blur the ratio.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Callable
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional as F

from compclip.train import losses


def one_at_a_time(patch_BPD: Tensor, concept_ND: Tensor, owner_N: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    """The same term as a Python loop over concepts."""
    patch_BPD = F.normalize(patch_BPD, dim=-1)
    image_B = torch.arange(len(patch_BPD))
    total = 0.0
    for concept_D, owner in zip(concept_ND, owner_N, strict=True):
        attention_BP = (patch_BPD @ concept_D).softmax(dim=1)
        pooled_BD = F.normalize(torch.einsum("bp,bpd->bd", attention_BP, patch_BPD), dim=-1)
        logits_B = scale * (pooled_BD @ concept_D) + bias
        total = total - F.logsigmoid(torch.where(image_B == owner, logits_B, -logits_B)).sum()
    return total / len(concept_ND)


def seconds(term: Callable[..., Tensor], inputs: list[Tensor], owner_N: Tensor) -> tuple[float, float]:
    """Wall time of one forward and backward pass, and the value."""
    patch_BPD, concept_ND, scale, bias = inputs
    start = time.perf_counter()
    value = term(patch_BPD, concept_ND, owner_N, scale, bias)
    torch.autograd.grad(value, inputs)
    return time.perf_counter() - start, value.item()


def peak_gib() -> float:
    """Highest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def rounded(timed: tuple[tuple[float, float], ...]) -> list[float]:
    """The times alone, to milliseconds."""
    return [round(t, 3) for t, _ in timed]


def main(argv: list[str]) -> int:
    """Print times, their ratios and its median, values and memory as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    defaults = {"images": 64, "patches": 196, "concepts": 320, "dim": 512, "threads": 1, "rounds": 3}
    for name, default in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args(argv)
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    patch_BPD = torch.randn(args.images, args.patches, args.dim)
    concept_ND = F.normalize(torch.randn(args.concepts, args.dim), dim=-1)
    inputs = [patch_BPD, concept_ND, torch.tensor(10.0), torch.tensor(-10.0)]
    inputs = [x.requires_grad_() for x in inputs]
    owner_N = torch.randint(args.images, (args.concepts,))
    before = peak_gib()
    seconds(losses.cross_attended, inputs, owner_N)
    memory = peak_gib() - before
    seconds(one_at_a_time, inputs, owner_N)
    terms = (losses.cross_attended, one_at_a_time)
    fast, slow = zip(*([seconds(term, inputs, owner_N) for term in terms] for _ in range(args.rounds)), strict=True)
    ratios = sorted(s / f for (f, _), (s, _) in zip(fast, slow, strict=True))
    print(
        json.dumps(
            {
                "sizes": vars(args),
                "fast_s": rounded(fast),
                "one_at_a_time_s": rounded(slow),
                "ratios": [round(r, 1) for r in ratios],
                "ratio": round(median(ratios), 1),
                "fast_memory_gib": round(memory, 2),
                "values": [fast[0][1], slow[0][1]],
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
