"""Captioners, one file each: `opened(data, cfg)`, a context in which one captions shard after shard.

It gives `caption(samples, shard) -> (samples, counts)`: the samples of a shard, named, with other captions, and what
was dropped. A captioner with parameters of its own has a frozen dataclass `Config`; `data.<name>.options` fills it.
One that is cheap to open says `SIDE_BY_SIDE = True`: several processes of a machine share the shards. One that reads
other files than pictures names them: `reads(data, cfg) -> paths`.
"""

from collections import Counter
from collections.abc import Callable

from compclip.data.sample import Sample

Caption = Callable[[list[Sample], str], tuple[list[Sample], Counter]]
