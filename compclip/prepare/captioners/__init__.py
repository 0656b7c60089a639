"""Captioners, one file each: `opened(data, cfg)` is a context that captions shard after shard.

It gives `caption(samples, shard) -> (samples, counts)`: the samples of the named shard with other captions, and counts
of what was dropped. A captioner with parameters has a frozen dataclass `Config`, filled from `data.<name>.options`.
A captioner that is cheap to open has `SIDE_BY_SIDE = True`: several processes of a machine share the shards. One that
reads other files than pictures names them: `reads(data, cfg) -> paths`.
"""

from collections import Counter
from collections.abc import Callable

from compclip.data.sample import Sample

Caption = Callable[[list[Sample], str], tuple[list[Sample], Counter]]

# CLIC (arXiv:2505.24424), Figure 3, as printed
QUERY = (
    "Can you please describe this image in a long and detailed paragraph? Please keep your descriptions factual "
    "and terse but complete. DO NOT add any unnecessary speculation about the things that are not part of the "
    "image. The description should be purely factual, with no subjective speculation."
)
QUERY_TOKENS = 512  # of an answer to the query
