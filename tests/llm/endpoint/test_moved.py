"""What of an endpoint's settings decides a shard."""

from dataclasses import replace

from PIL import Image

from compclip.base.files import write_json
from compclip.config.sections import Data
from compclip.prepare import recaption_shards
from compclip.prepare.captioners import endpoint


def test_a_server_may_move(server, tmp_path):
    """What is captioned stays so under another address, at another pace; with another model it does not."""
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    picture = {"filename": "a.png", "split": "train", "sentences": [{"raw": "old"}]}
    write_json(tmp_path / "d.json", {"images": [picture]})
    data = Data("karpathy", str(tmp_path / "d.json"), str(tmp_path), captioner="endpoint")

    def key(**changes):
        cfg = endpoint.Config(**vars(server("http://x/v1")) | changes)
        ((item,), _) = recaption_shards.recaption_tasks(replace(data, options=dict(vars(cfg))), cfg, "code", tmp_path)
        return item.key

    moved = ({"url": "http://y/v1"}, {"url": "", "server": "vllm {port}"}, {"parallel": 1, "cache": "other.sqlite"})
    assert {key(**changed_settings) for changed_settings in moved} == {key()}
    assert len({key(), key(model="n"), key(failures_allowed=0.5), key(prompt="what?")}) == 4
