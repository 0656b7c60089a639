"""Captioners, one file each: `caption(samples, data, cfg) -> (samples, counts)`.

A captioner with parameters of its own has a frozen dataclass `Config`; `data.<name>.options` fills it.
"""
