"""One shard through a captioner."""

from compclip.config.sections import Data


def captioned(captioner, samples, cfg, shard="00000", data=None):
    """What a captioner that is opened for this one call makes of the samples, and its counts."""
    with captioner.opened(data or Data("karpathy", "d.json", ".", captioner="x"), cfg) as caption:
        return caption(samples, shard)
