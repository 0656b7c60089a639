"""A run becomes a folder or a repository with a card of its own numbers; nothing of others is overwritten."""

import os
import shutil
from pathlib import Path

import huggingface_hub
import open_clip
import pytest
import torch
import yaml

from compclip.base.errors import UserError
from compclip.base.files import fingerprint, read_mapping, write_json
from compclip.model import backbone, class_tokens, heads
from compclip.publish import model_card
from compclip.publish.__main__ import main
from compclip.runs.run_folder import RunFolder, Trained
from tests import fake_runs
from tests.model.test_towers import TINY
from tests.publish import hub_receiver

CELL, TOKEN = "negclip-vit-scenes-0", "hf_" + "a1" * 16
CONFIG = """
backbone: {model: ViT-B-32-quickgelu, weights: openai}
data: {source: karpathy, path: data/raw/coco/dataset_coco.json, images: /home/somebody/pictures/coco}
"""
OPEN_CLIP = {"README.md", "compclip_publication.json", "open_clip_config.json", "open_clip_model.safetensors"}
CONVERTED = {
    "config.json", "merges.txt", "model.safetensors", "preprocessor_config.json", "special_tokens_map.json",
    "text_encoder/config.json", "text_encoder/model.safetensors", "tokenizer/merges.txt",
    "tokenizer/special_tokens_map.json", "tokenizer/tokenizer_config.json", "tokenizer/vocab.json",
    "tokenizer_config.json", "vision_tower/config.json", "vision_tower/model.safetensors",
    "vision_tower/preprocessor_config.json", "vocab.json",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished_runs(tmp_path_factory) -> Path:
    """Runs of three methods and seeds with results that a person can check, and a tiny checkpoint in each."""
    root = fake_runs.make(tmp_path_factory.mktemp("runs"), fake_runs.cells(seeds=(0, 1)))
    write_json(root / "tiny.json", TINY)
    model = backbone.create(str(root / "tiny.json"), seed=1)
    for method, seed in (("negclip", 0), ("negclip", 1), ("clic", 0)):
        trained = fake_runs.trained(root, f"{method}-vit-scenes-{seed}")
        model.save(trained.checkpoint)
        trained.config.write_text(trained.config.read_text() + CONFIG)
    write_json(root / "data/overlaps/scenes.json", {"sugarcrepe": {"pictures": 3, "coco_id": 3}, "retrieval": {}})
    return root


@pytest.fixture
def project(finished_runs, tmp_path, monkeypatch) -> Path:
    root = shutil.copytree(finished_runs, tmp_path / "project")
    monkeypatch.chdir(root)
    return root


def refused(*argv: str) -> str:
    """The line that a command is refused with."""
    with pytest.raises(UserError) as error:
        main(argv)
    assert "\n" not in str(error.value)
    return str(error.value)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def publish_card(project: Path, *options: str) -> str:
    """The card of a publication in a folder."""
    main([CELL, "--to", "out", *options])
    return (project / "out/README.md").read_text()


def change(trained: Trained, old: str, new: str) -> None:
    """Edit a run's config.yaml."""
    text = trained.config.read_text()
    assert old in text
    trained.config.write_text(text.replace(old, new))


def test_a_cell_is_published_and_opens_again(project, capsys):
    """All formats, a marker, and the run's own weights."""
    assert main([CELL, "--to", "out/model"]) == 0
    assert names(project / "out/model") == OPEN_CLIP | CONVERTED
    assert os.listdir(project / "out") == ["model"]
    assert f"out/model: {CELL}" in capsys.readouterr().out
    record = read_mapping(project / "out/model/compclip_publication.json")
    assert (record["cell"], record["run_key"]) == (CELL, f"key-{CELL}")
    clip = open_clip.create_model("local-dir:out/model")
    tuned = backbone.load(fake_runs.trained(project, CELL).checkpoint)
    assert all(torch.equal(clip.state_dict()[name], tensor) for name, tensor in tuned.clip.state_dict().items())


def test_a_run_folder_is_the_same_as_its_cell(project, monkeypatch):
    """One of runs/ from anywhere, and one of the store with its scores."""
    main([CELL, "--to", "a"])
    store = RunFolder(project / "store" / "0123456789abcdef")
    shutil.copytree(fake_runs.trained(project, CELL).path, store.final.path)
    shutil.copytree(project / "results/negclip/vit-scenes-0", store.scores("identity"))
    write_json(store.scored, {"identity": "identity"})
    main([str(store.path), "--to", "c"])
    monkeypatch.chdir(project.parent)
    main([str(project / "runs/negclip/vit-scenes-0"), "--to", "b"])
    cards = [(folder / "README.md").read_text() for folder in (project / "a", project.parent / "b", project / "c")]
    assert cards[0] == cards[1] == cards[2]


def test_the_head_of_the_card_is_the_hubs(project):
    """Read by the hub's own library: licence, library, tags, start, and the numbers as a model-index, in percent."""
    data = huggingface_hub.ModelCard(publish_card(project, "--licence", "cc-by-nc-4.0")).data
    assert (data.license, data.library_name) == ("cc-by-nc-4.0", "open_clip")
    assert {"open_clip", "clip", "compclip", "transformers"} <= set(data.tags)
    weights = open_clip.pretrained.get_pretrained_cfg("ViT-B-32-quickgelu", "openai")
    assert data.base_model == weights["hf_hub"].strip("/")
    assert data.model_name == CELL
    numbers = {(r.dataset_name, r.metric_type): (r.metric_value, r.task_type) for r in data.eval_results}
    assert numbers[("sugarcrepe", "swap")] == (70.0, "image-text-matching")  # of 8 of 10 and 3 of 5
    assert numbers[("retrieval", "headline")] == (60.0, "image-text-retrieval")
    assert numbers[("hard_positives", "mean_score")] == (0.25, "image-text-matching")
    assert ("sugarcrepe", "swap_att") not in numbers  # a member of a mean


def test_numbers_have_seeds_and_intervals(project):
    """This checkpoint's own over its items; mean and deviation over the seeds; the difference to the start."""
    source = model_card.find_source_run(CELL, project)
    assert [run.cell.seed for run in source.seeds] == [0, 1]
    swap = next(n for n in model_card.collect_numbers(source) if n.column.name == "sugarcrepe/swap")
    assert swap.value == pytest.approx(0.7) and swap.interval.low < 0.7 < swap.interval.high
    assert swap.statistic.seeds == 2 and swap.statistic.mean == pytest.approx((0.7 + 0.9) / 2)
    assert swap.statistic.change == pytest.approx(0.8 - 0.45)
    table = model_card.format_table([swap]).splitlines()[-1]
    assert table.startswith("| sugarcrepe | swap ↑ | 70.0 | ") and "| 2 | 80.0 ± 14.1 | +35.0 [" in table
    brittleness = next(n for n in model_card.collect_numbers(source) if n.column.metric == "brittleness")
    assert (brittleness.interval.low, brittleness.interval.high) == (0, 1)  # of four items, cut at both ends
    change(fake_runs.trained(project, "negclip-vit-scenes-1"), "lr: 1e-06", "lr: 1e-05")  # another recipe is no seed
    assert [run.cell.seed for run in model_card.find_source_run(CELL, project).seeds] == [0]


def test_a_part_of_a_benchmark_is_marked(project):
    """And not handed to the hub's index as the benchmark's number."""
    path = fake_runs.result(project, CELL, "sugarcrepe")
    write_json(path, read_mapping(path) | {"counts": {"records": 100, "scored": 15}})
    path = fake_runs.result(project, CELL, "retrieval")
    write_json(path, read_mapping(path) | {"counts": {"records": 5, "scored": 5, "name_without_caption": 2}})
    card = huggingface_hub.ModelCard(publish_card(project))
    assert "| sugarcrepe | swap ↑ ‡ | 70.0 | " in card.text and "‡ less than nine tenths" in card.text
    assert "| i2t_recall_at_1 ↑ ⊂ |" in card.text and "⊂ retrieval: 2 names" in card.text
    assert {result.dataset_name for result in card.data.eval_results} == {"hard_positives"}


def test_the_card_says_what_the_files_say(project):
    """Shared pictures by benchmark, licences of the catalogue, the recipe, the run's key and versions."""
    card = publish_card(project)
    assert "- scenes shares 3 pictures with sugarcrepe (3 by COCO's number)" in card
    assert "- retrieval: no shared picture was found" in card and "- hard_positives: not compared" in card
    assert "COCO 2017, 118,287 training pictures: each picture's own" in card
    assert "Nobody stated a licence of these weights." in card and "license:" not in card.partition("\n---\n")[0]
    recipe = yaml.safe_load(card.partition("```yaml\n")[2].partition("```")[0])
    assert recipe["train"]["lr"] == 1e-6 and recipe["cell"]["method"] == "negclip"
    assert f"- run_key: `key-{CELL}`" in card and "- torch: `2.0`" in card and "0123456789abcdef" in card
    (project / "data/overlaps/scenes.json").unlink()
    shutil.rmtree(project / "results")
    change(fake_runs.trained(project, CELL), "method: {weight: 0.5}", 'method: {weight: "```\\n# Mine\\n"}')
    card = publish_card(project)
    assert "Nobody compared the training pictures" in card
    assert "This run was not scored." in card and "model-index" not in card  # no number is invented
    assert card.count("```") == 4  # hostile names stay text: a code block does not end early


def test_secrets_and_places_stay_at_home(project, monkeypatch):
    """A user of a URL, a token, and where on somebody's machine the pictures lie."""
    secret = "hunter2hunter2"
    change(fake_runs.trained(project, CELL), "source: karpathy", f"source: 'https://me:{secret}@host/x?token={TOKEN}'")
    main([CELL, "--to", "out"])
    everything = b"".join(path.read_bytes() for path in (project / "out").rglob("*") if path.is_file())
    for text in (secret, TOKEN, "/home/somebody", str(project)):
        assert text.encode() not in everything
    assert "images: .../coco" in (project / "out/README.md").read_text()


@pytest.mark.parametrize("text,shortened", [
    ("path: /mnt/a b/coco.json", "path: .../coco.json"), ("path: ~/coco/x", "path: .../x"), ("a: data/raw/coco", None),
    ("url: https://host/a/b", None), ("prompt: cat / dog", None), ("/a/b", ".../b"),
])  # fmt: skip
def test_paths_are_shortened(text, shortened):
    assert model_card.shorten_paths(text) == (shortened or text)


def test_other_folders_are_left_alone(project):
    """Refused before anything is written: files of others, a card that was edited, a file in the folder's place."""
    (project / "full").mkdir()
    (project / "full/notes.txt").write_text("mine")
    assert "full: is not empty, and no earlier publication; give another folder" in refused(CELL, "--to", "full")
    assert names(project / "full") == {"notes.txt"}
    assert "is no folder" in refused(CELL, "--to", "tiny.json")
    (project / "empty").mkdir()
    main([CELL, "--to", "empty"])
    (project / "empty/more.txt").write_text("mine")
    assert "holds more.txt, which no publication wrote" in refused(CELL, "--to", "empty")
    (project / "empty/more.txt").unlink()
    (project / "empty/README.md").write_text("mine")
    assert "README.md: was edited" in refused(CELL, "--to", "empty")


def save_unconvertible(project: Path) -> None:
    """Give the run a model that transformers cannot express."""
    write_json(project / "wide.json", TINY | {"vision_cfg": TINY["vision_cfg"] | {"pool_type": "avg"}})
    backbone.create("wide.json").save(fake_runs.trained(project, CELL).checkpoint)


def test_the_card_of_what_open_clip_refuses_says_who_opens_it(project):
    """It names the option, and the hub does not offer open_clip's code for it."""
    model = backbone.create("tiny.json", seed=1)
    class_tokens.extend_tower(model, 2, seed=0)
    model.save(fake_runs.trained(project, CELL).checkpoint)
    card = publish_card(project)
    assert "plain open_clip refuses vision_cfg.class_tokens" in card and "import open_clip" not in card
    assert huggingface_hub.ModelCard(card).data.library_name == "compclip"


def test_an_earlier_publication_is_replaced_as_a_whole(project):
    """What the new one leaves out is gone, and nothing is between."""
    publish_card(project)
    before = fingerprint(project / "out")
    publish_card(project)
    assert fingerprint(project / "out") == before
    save_unconvertible(project)
    card = publish_card(project)
    assert names(project / "out") == OPEN_CLIP
    assert "cannot express vision_cfg.pool_type=avg" in card and "from transformers" not in card
    assert "transformers" not in huggingface_hub.ModelCard(card).data.tags


def test_mistakes_name_the_fix(project):
    near = "unknown run 'negclip-vit-scenes-7'; did you mean 'negclip-vit-scenes-"
    assert near in refused("negclip-vit-scenes-7", "--to", "out")
    assert "pretrained-vit-scenes-0: has no weights of its own" in refused("pretrained-vit-scenes-0", "--to", "out")
    assert "--licence My Own: must be an identifier" in refused(CELL, "--to", "out", "--licence", "My Own")
    assert "--public: is for a repository" in refused(CELL, "--to", "out", "--public")
    for target in ("hf:", "hf:name", "hf:datasets/me/x", "hf:../x", "hf:a/b/c"):
        assert f"--to {target}: must be hf:OWNER/NAME" in refused(CELL, "--to", target)
    fake_runs.trained(project, CELL).environment.unlink()
    assert f"{CELL}: not finished: no environment.json" in refused(CELL, "--to", "out")
    assert not (project / "out").exists()


# --- the hub --------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(monkeypatch):
    """A local hub, and its token in the environment."""
    with hub_receiver.serve(TOKEN) as served:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", served.url)
        template = served.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


def is_private(creation: dict) -> bool:
    """Whether a request asks for a private repository; older clients say so by another key."""
    return creation["visibility"] == "private" if "visibility" in creation else creation["private"]


def test_a_repository_is_private_and_whole(project, hub, capsys):
    """One commit with every byte of the folder; nothing stays behind here."""
    before = names(project)
    assert main([CELL, "--to", "hf:me/tiny"]) == 0
    assert is_private(hub.creations["me/tiny"])
    assert len(hub.commits) == 1 and hub.commits[0].startswith(f"{CELL} by compclip ")
    requests = list(hub.requests)
    main([CELL, "--to", "out"])
    assert hub.requests == requests  # a folder asks no hub
    folder = {name: (project / "out" / name).read_bytes() for name in names(project / "out")}
    assert hub.files["me/tiny"] == folder | {".gitattributes": b""}
    assert names(project) == before | {f"out/{name}" for name in folder}
    assert f"{hub.url}/me/tiny: {CELL}" in capsys.readouterr().out


def test_a_publication_follows_an_earlier_one(project, hub):
    """Formats that the new model does not have are removed in the same commit."""
    main([CELL, "--to", "hf:me/tiny", "--public"])
    assert not is_private(hub.creations["me/tiny"])
    hub.files["me/tiny"] |= dict.fromkeys((heads.CONFIG, heads.WEIGHTS), b"{}")  # a head, read with weights not its own
    save_unconvertible(project)
    main([CELL, "--to", "hf:me/tiny"])
    assert len(hub.commits) == 2 and not {heads.CONFIG, heads.WEIGHTS} & hub.files["me/tiny"].keys()
    assert not any(name.endswith("model.safetensors") for name in hub.files["me/tiny"].keys() - OPEN_CLIP)


def test_a_repository_of_others_is_left_alone(project, hub):
    """Before anything is read or sent."""
    hub.files["me/theirs"] = {"README.md": b"mine"}
    assert "theirs: is not empty, and no earlier publication; give another name" in refused(
        CELL, "--to", "hf:me/theirs"
    )
    assert hub.files["me/theirs"] == {"README.md": b"mine"} and hub.commits == []


def test_a_head_comes_back_from_the_hub(project, hub, tmp_path, monkeypatch):
    """With its weights; of a repository without a head there is none, and one that is not available is no model without it."""
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    checkpoint = fake_runs.trained(project, CELL).checkpoint
    hub.files["me/plain"] = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    head = heads.TextPooling(TINY["embed_dim"], 2)
    head.save(checkpoint)
    hub.files["me/pooling"] = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    assert backbone.load("hf-hub:me/plain").head is None
    loaded = backbone.load("hf-hub:me/pooling").head
    assert loaded.kind == "text_pooling"
    assert all(torch.equal(tensor, loaded.state_dict()[name]) for name, tensor in head.state_dict().items())
    with monkeypatch.context() as patch:
        patch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
        assert backbone.load("hf-hub:me/pooling").head.kind == "text_pooling"  # from the cache
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "another"))
    del hub.files["me/pooling"][heads.WEIGHTS]
    with pytest.raises(UserError, match="hf-hub:me/pooling: its head cannot be fetched"):
        backbone.load("hf-hub:me/pooling")


def test_a_wrong_token_is_a_line_without_it(project, hub, monkeypatch):
    """And no repository; a hub that does not answer is a line too."""
    wrong = "hf_" + "b2" * 16
    monkeypatch.setenv("HF_TOKEN", wrong)
    error_line = refused(CELL, "--to", "hf:me/tiny")
    assert "me/tiny: not allowed; set HF_TOKEN to a token that may write there" in error_line
    assert wrong not in error_line
    assert hub.creations == {}
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # between the hub library's attempts
    assert "http://127.0.0.1:9/me/tiny: " in refused(CELL, "--to", "hf:me/tiny")
