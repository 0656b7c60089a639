"""A checkpoint on several benchmarks: each image and text encoded once, result files whole and consistent."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from PIL import Image

from compclip.base import files, links
from compclip.base.errors import UserError
from compclip.base.files import fingerprint, write_json
from compclip.benchmarks import sugarcrepe, sugarcrepe_pp
from compclip.config import grid, read, sections
from compclip.config.cell import Cell
from compclip.config.sections import BenchmarkSection as Section
from compclip.config.sections import Scoring
from compclip.evaluate import __main__ as evaluate_command
from compclip.evaluate import benchmark_module, embed, result_store, score, scoring_options
from compclip.model import backbone, clip_model, weight_files
from compclip.runs import gpus, run_store
from compclip.runs.run_folder import Published
from tests.evaluate.test_embed import CONFIG

COLOURS = ("red", "green", "blue", "white")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    (folder / "evaltiny.json").write_text(json.dumps(CONFIG))
    backbone.create(str(folder / "evaltiny.json"), seed=3).save(folder / "checkpoint")
    return folder / "checkpoint"


@pytest.fixture
def root(tmp_path):
    """Two benchmarks over the same four images and mostly the same captions; images lie in one folder."""
    for colour in COLOURS:
        (tmp_path / "images").mkdir(exist_ok=True)
        Image.new("RGB", (20, 16), colour).save(tmp_path / "images" / f"{colour}.png")
    for subset in sugarcrepe.SUBSETS:
        files.write_json(tmp_path / "sc" / f"{subset}.json", {str(i): _record(i) for i in range(4)})
    for subset in sugarcrepe_pp.SUBSETS:
        rows = [{"id": i, **_record(i), "caption2": f"it is {COLOURS[i]}"} for i in range(4)]
        files.write_json(tmp_path / "pp" / f"{subset}.json", rows)
    return tmp_path


def _record(i: int) -> dict:
    colour, wrong_colour = COLOURS[i], COLOURS[i - 1]
    return {"filename": f"{colour}.png", "caption": f"a {colour} wall", "negative_caption": f"a {wrong_colour} wall"}


@pytest.fixture
def params(root, monkeypatch):
    """Parameters as config.load gives them, and the overrides it was given."""
    spec = {name: Section(module, str(root / path), str(root / "images"))
            for name, module, path in (("sugarcrepe", "", "sc"), ("plus", "sugarcrepe_pp", "pp"))}  # fmt: skip
    how = sections.Evaluate(benchmarks=list(spec), batch_size=3, threads=1)
    fake_params = SimpleNamespace(benchmarks=spec, evaluate=how, report=sections.Report(), overrides=None)
    cells = {f"{m}-tiny-d-0": Cell(m, "tiny", "d", 0) for m in ("clip", "pretrained")}

    def load(path, overrides):
        fake_params.overrides = overrides
        return fake_params

    monkeypatch.setattr(read, "load_params", load)
    monkeypatch.setattr(grid, "resolve", lambda params, name: SimpleNamespace(cell=cells[name], train=sections.Train()))
    return fake_params


def _loaded(params, *names: str) -> benchmark_module.LoadedBenchmarks:
    """The benchmarks of the parameters, all of them or those of these names."""
    how = Scoring(batch_size=3, threads=1)
    return benchmark_module.load_benchmarks(params.benchmarks, names or list(params.benchmarks), how)


@pytest.fixture
def published(checkpoint, root) -> Published:
    """A cell with its training published, and results of an earlier evaluation."""
    cell = Published(root, Cell("clip", "tiny", "d", 0))
    shutil.copytree(checkpoint, cell.trained.checkpoint)
    for path in (cell.trained.config, cell.trained.metrics, cell.results / "stale.json"):
        files.write_atomic(path, "old")
    files.write_json(cell.trained.environment, {"run_key": "clip-key"})
    return cell


def test_each_image_and_text_is_encoded_once_for_all_benchmarks(checkpoint, params, encoded):
    benchmarks = _loaded(params).benchmarks
    scored = score.score_model(backbone.load(checkpoint), benchmarks, Scoring(batch_size=3, threads=1))
    assert sum(len(b) for b in benchmarks.values()) == 4 * (7 + 5)
    assert encoded == {"image": 4, "text": 8}
    assert scored["sugarcrepe"].counts["scored"] == 28


@pytest.mark.parametrize(("names", "texts"), [(["sugarcrepe"], 3), (["sugarcrepe", "plus"], 8)])
def test_texts_of_missing_pictures_are_not_encoded(checkpoint, params, root, encoded, names, texts):
    """Unless another record or another text is compared with them; all numbers stay."""
    for colour in COLOURS[:2]:
        (root / "images" / f"{colour}.png").unlink()
    model, loaded = backbone.load(checkpoint), _loaded(params, *names)
    scored = score.score_model(model, loaded.benchmarks, loaded.how)
    assert encoded == {"image": 2, "text": texts}
    for name, benchmark in loaded.benchmarks.items():
        all_texts = embed.encode(model, benchmark.images, benchmark.texts, loaded.how)
        assert repr(scored[name]) == repr(benchmark.score(all_texts))


@pytest.fixture
def checkpoints(checkpoint, tmp_path):
    """Three checkpoints that are fed alike, and one with a larger input."""
    write = files.write_json
    write(tmp_path / "evaltiny.json", CONFIG)
    write(tmp_path / "evalwide.json", CONFIG | {"vision_cfg": CONFIG["vision_cfg"] | {"image_size": 32}})
    folders = [checkpoint]
    for name, seed in (("evaltiny", 4), ("evalwide", 5), ("evaltiny", 6)):
        folders.append(tmp_path / f"{name}{seed}")
        backbone.create(str(tmp_path / f"{name}.json"), seed=seed).save(folders[-1])
    return [str(path) for path in folders]


def _untimed(documents: dict[str, dict]) -> dict[str, dict]:
    """Result documents but for the time they took."""
    return {name: document | {"seconds": 0} for name, document in documents.items()}


def test_checkpoints_that_are_fed_alike_share_a_pass(checkpoints, params, opened):
    """Pictures are read twice for four checkpoints, of two kinds; each has the results it has alone."""
    scored_checkpoints, loaded = [score.checkpoint_at(ref) for ref in checkpoints], _loaded(params)
    together = {one.ref: documents for one, documents in score.score_checkpoints(scored_checkpoints, loaded)}
    assert set(opened.values()) == {2} and len(opened) == 4
    for one in scored_checkpoints:
        assert _untimed(score.score_checkpoint(one, loaded)) == _untimed(together[one.ref])
    assert len({json.dumps(d["plus"]["metrics"]) for d in together.values()}) > 1


def test_all_gpus_share_the_work_and_the_results_are_those_of_one(checkpoint, params, monkeypatch):
    """`cuda` is every GPU that is seen; here two that are the CPU, each with a model of its own."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert gpus.list_devices("cuda") == ["cuda:0", "cuda:1", "cuda:2"]
    assert gpus.list_devices("cuda:1") == ["cuda:1"] and gpus.list_devices("cpu") == ["cpu"]
    loaded = replace(_loaded(params), how=Scoring(batch_size=1))
    copy_models, sizes, documents = score.copy_models, [], []
    monkeypatch.setattr(score, "copy_models", lambda *args: sizes.append(len(copied := copy_models(*args))) or copied)
    for devices in (["cpu"], ["cpu", "cpu"]):
        monkeypatch.setattr(gpus, "list_devices", lambda _, devices=devices: devices)
        documents.append(score.score_checkpoint(score.checkpoint_at(str(checkpoint)), loaded))
    assert _untimed(documents[0]) == _untimed(documents[1]) and sizes == [1, 2]


def test_memory_bounds_how_many_share_a_pass(checkpoints):
    """Two of the three of a kind fit; one at least is in a part, however small the budget."""
    size = weight_files.find_weights(Path(checkpoints[0])).stat().st_size
    alike = [checkpoints[0], checkpoints[1], checkpoints[3]]
    assert score.group_by_inputs(checkpoints, str) == [alike, [checkpoints[2]]]
    assert score.group_by_inputs(checkpoints, str, budget=2 * size) == [alike[:2], alike[2:], [checkpoints[2]]]
    assert score.group_by_inputs(alike, str, budget=1) == [[one] for one in alike]
    assert score.group_by_inputs(["ViT-B-32::a", "ViT-B-32::b"], str) == [["ViT-B-32::a"], ["ViT-B-32::b"]]


def test_a_checkpoint_with_another_bias_or_tokenizer(checkpoints):
    """A bias feeds nothing; another tokenizer is another feed."""
    config = files.read_json(Path(checkpoints[1]) / "open_clip_config.json")
    config["model_cfg"]["init_logit_bias"] = -10.0
    files.write_json(Path(checkpoints[1]) / "open_clip_config.json", config)
    assert score.group_by_inputs(checkpoints[:2], str) == [checkpoints[:2]]
    files.write_json(Path(checkpoints[1]) / "tokenizer.json", {"a": 1})
    assert score.group_by_inputs(checkpoints[:2], str) == [[checkpoints[0]], [checkpoints[1]]]


def test_one_checkpoint_that_fails_does_not_stop_the_others(checkpoints, params):
    """A diverged one and one that is no checkpoint each have their own error."""
    broken = backbone.load(checkpoints[1])
    broken.clip.visual.proj.data.fill_(float("nan"))
    broken.save(checkpoints[1])
    (Path(checkpoints[2]) / clip_model.WEIGHTS).write_bytes(b"no")
    scored_checkpoints = [score.ScoredCheckpoint(ref) for ref in checkpoints]
    result_by_ref = {one.ref: result for one, result in score.score_checkpoints(scored_checkpoints, _loaded(params))}
    assert "diverged" in str(result_by_ref[checkpoints[1]])
    assert "not a readable weights file" in str(result_by_ref[checkpoints[2]])
    assert all(set(result_by_ref[c]) == {"sugarcrepe", "plus"} for c in (checkpoints[0], checkpoints[3]))


def test_weights_of_a_file_with_several(checkpoint, params, tmp_path):
    """The result says which, and a folder has one model."""
    state = backbone.load(checkpoint).clip.state_dict()
    average = {name: tensor + 0.1 * torch.randn_like(tensor) for name, tensor in state.items()}
    torch.save({"model": state, "model_ema": average}, tmp_path / "w.pt")
    write_json(tmp_path / "tiny.json", backbone.load(checkpoint).model_cfg)
    one = ["--checkpoint", str(tmp_path / "w.pt"), "--model", str(tmp_path / "tiny.json"), "--device", "cpu"]
    evaluate_command.main([*one, "--benchmarks", "plus", "--out", str(tmp_path / "ema"), "--weights", "ema"])
    assert files.read_json(tmp_path / "ema" / "plus.json")["checkpoint"]["weights"] == "ema"
    with pytest.raises(UserError, match="--weights ema: is of a weights file; give --checkpoint FILE and --model"):
        evaluate_command.main(["--checkpoint", str(checkpoint), "--weights", "ema"])


def test_ties_go_where_the_parameters_say_and_results_say_where(checkpoint, params, root, tmp_path):
    """ARO with a shuffle that is the caption: its authors' records count where they choose the first, which is right."""
    orders = [["a red wall", "a wall red"], ["a red wall", "a red wall"]]
    rows = [{"image": "red.png", "caption_options": captions} for captions in orders]
    files.write_json(root / "aro" / "coco_order.json", rows)
    params.benchmarks["aro"] = Section("", str(root / "aro"), str(root / "images"), "coco_order")
    for ties, tied in (("wrong", {}), ("first", {"1": 1})):
        params.evaluate = sections.Evaluate(benchmarks=["aro"], ties=ties, batch_size=3, threads=1)
        evaluate_command.main(["--checkpoint", str(checkpoint), "--out", str(tmp_path / ties), "--device", "cpu"])
        document = files.read_json(tmp_path / ties / "aro.json")
        items = document["items"]["coco_order"]
        outcomes = dict(zip(items["ids"], items["outcomes"], strict=True))
        outcomes.pop("0")
        assert (outcomes, document["counts"]["tied"], document["how"]["ties"]) == (tied, len(tied), ties)


def test_a_cell_gets_its_results_folder_whole(published, params, root):
    """All of the new ones and none of the old, nothing half-written beside them; the same files as in the store."""
    evaluate_command.main(["--cell", "clip-tiny-d-0"], root)
    names = [files.CHECKSUMS, "plus.json", "sugarcrepe.json", "summary.json"]
    assert sorted(p.name for p in published.results.iterdir()) == names
    assert [p.name for p in published.results.parent.iterdir()] == [published.results.name]
    [kept_ones] = root.glob("store/clip-key/scores/*")
    assert all((kept_ones / name).samefile(published.results / name) for name in names)
    document = files.read_json(published.results / "plus.json")
    weights = fingerprint(published.trained.checkpoint)
    assert document["checkpoint"] == {"run_key": "clip-key", "fingerprint": weights}


def test_what_was_scored_is_not_scored_again(published, params, root, monkeypatch, capsys):
    """The store has its results where a cell's own are gone."""
    evaluate_command.main(["--cell", "clip-tiny-d-0"], root)
    first = files.read_json(published.results / "plus.json")
    output = capsys.readouterr().out
    monkeypatch.setattr(score, "score_models", None)
    links.remove(published.results)
    evaluate_command.main(["--cell", "clip-tiny-d-0"], root)
    assert files.read_json(published.results / "plus.json") == first
    assert capsys.readouterr().out == output


def test_the_pretrained_cell_reads_the_backbone(checkpoint, params, root):
    (root / "models").mkdir()
    (root / "models" / "tiny").symlink_to(checkpoint)
    evaluate_command.main(["--cell", "pretrained-tiny-d-0"], root)
    document = files.read_json(root / "results/pretrained/tiny-d-0/plus.json")
    assert document["checkpoint"]["path"] == str(root / "models/tiny")


@pytest.mark.parametrize("option", [["--benchmarks", "plus"], ["--out", "elsewhere"]])
def test_a_cell_is_scored_on_all_benchmarks_or_not_at_all(published, params, root, option):
    """One benchmark of it would delete the others' results; the old ones stay."""
    message = f"--cell clip-tiny-d-0: .*leave out {option[0]}, or give --checkpoint FOLDER instead"
    with pytest.raises(UserError, match=message):
        evaluate_command.main(["--cell", "clip-tiny-d-0", "evaluate.threads=1", *option], root)
    assert [p.read_text() for p in published.results.iterdir()] == ["old"]


def test_a_failure_leaves_the_old_results(published, params, root, monkeypatch):
    """The store keeps nothing that is incomplete either."""

    def write_until_the_summary(path, value):
        if path.name == "summary.json":
            raise UserError("disk full")
        write_json(path, value)

    monkeypatch.setattr(result_store, "write_json", write_until_the_summary)
    with pytest.raises(UserError, match="disk full"):
        evaluate_command.main(["--cell", "clip-tiny-d-0"], root)
    assert [p.read_text() for p in published.results.iterdir()] == ["old"]
    assert not list(root.glob("store/clip-key/scores/*"))
    task, folder = result_store.task_from_params(params, root), run_store.find_folder("clip-key", root)
    assert result_store.find_results(task, folder) is None


def test_missing_images_are_warned_of_and_texts_alone_are_scored(checkpoint, params, root, capsys):
    """Of SugarCrepe++ the texts are compared with each other; SugarCrepe has nothing left, which is an error."""
    for path in (root / "images").iterdir():
        path.unlink()
    command = ["--checkpoint", str(checkpoint), "--device", "cpu", "--out", str(root / "out")]
    evaluate_command.main([*command, "--benchmarks", "plus"])
    assert capsys.readouterr().err.splitlines() == ["warning: plus: 0 of 20 records scored (20 missing_image)"]
    assert set(files.read_json(root / "out" / "plus.json")["means"]) == {"replace_tot", "swap_tot", "average_tot"}
    with pytest.raises(UserError, match=r"benchmarks.sugarcrepe: none of its 28 records .*28 missing_image"):
        evaluate_command.main(command)


def test_texts_beyond_the_context_are_counted(checkpoint, params, monkeypatch, capsys):
    """Once each, beside the result; equal ones tie, which nobody would know."""
    model = backbone.load(str(checkpoint))
    fits, cut = "a " * model.tokenizer.room, "a " * (model.tokenizer.room + 1)
    assert score.count_cut_texts(model, [fits, cut, cut, "a"]) == 1
    loaded = _loaded(params)
    monkeypatch.setattr(score, "count_cut_texts", lambda model, texts: len(list(texts)))
    documents = score.score_checkpoint(score.checkpoint_at(str(checkpoint)), loaded)
    assert documents["sugarcrepe"]["counts"]["cut_texts"] == len(loaded.benchmarks["sugarcrepe"].texts) > 0
    scoring_options.print_warnings(documents)
    assert "cut" in capsys.readouterr().err


def test_without_a_project(checkpoint, root, monkeypatch, capsys):
    """In an empty folder, with benchmarks named and their files given: the same numbers as with params.yaml."""
    (root / "empty").mkdir()
    monkeypatch.chdir(root / "empty")
    places = [f"benchmarks.sugarcrepe.path={root}/sc", f"benchmarks.sugarcrepe.images={root}/images"]
    arguments = ["--checkpoint", str(checkpoint), "--benchmarks", "sugarcrepe", *places, "--out", "results"]
    assert evaluate_command.main(arguments) == 0
    document = json.loads(Path("results/sugarcrepe.json").read_text())
    section = Section("", str(root / "sc"), str(root / "images"))
    loaded = benchmark_module.load_benchmarks({"sugarcrepe": section}, ["sugarcrepe"])
    expected = score.score_checkpoint(score.checkpoint_at(str(checkpoint)), loaded)["sugarcrepe"]
    assert document["metrics"] == expected["metrics"] and document["items"] == expected["items"]


def test_several_checkpoints_have_a_row_each(checkpoints, params, tmp_path, capsys):
    """Numbers and items are those of each by itself; one that fails leaves the others alone."""
    refs = checkpoints[:3]
    (Path(refs[1]) / clip_model.WEIGHTS).unlink()
    assert evaluate_command.main(["--checkpoint", *refs, "train.lr=1", "--out", str(tmp_path / "out")]) == 1
    out, error = capsys.readouterr()
    assert params.overrides == ["train.lr=1"] and error.startswith(f"error: {refs[1]}: ")
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows] == ["sugarcrepe", refs[0], refs[2], "plus", refs[0], refs[2]]
    for ref, row in ((refs[0], rows[1]), (refs[2], rows[2])):
        alone = score.score_checkpoint(score.checkpoint_at(ref), _loaded(params))
        assert row[1:] == [f"{100 * alone['sugarcrepe']['metrics'][metric]:.2f}" for metric in rows[0][1:]]
        [folder] = [f for f in (tmp_path / "out").iterdir() if ref.replace("/", "_").endswith(f.name)]
        for name in ("sugarcrepe", "plus"):
            document = files.read_json(folder / f"{name}.json")
            assert document | {"seconds": 0} == json.loads(json.dumps(alone[name])) | {"seconds": 0}


def test_a_run_s_folder_is_its_checkpoint(checkpoint, published, params, root, tmp_path):
    """As a cell's place has it, and as the store has it."""
    folder_in_store = run_store.find_folder("clip-key", root)
    run_store.adopt_published(published.trained, folder_in_store)
    expected = score.score_checkpoint(score.checkpoint_at(str(checkpoint)), _loaded(params))
    for folder in (published.trained.path, folder_in_store.path):
        evaluate_command.main(["--checkpoint", str(folder), "--out", str(tmp_path / "out")], root)
        document = files.read_json(tmp_path / "out" / "plus.json")
        assert document["checkpoint"]["path"] == str(folder)
        assert document["metrics"] == expected["plus"]["metrics"]


ASKED = r"^benchmarks.{0}: no files of it are named; add benchmarks.{0}.path=\S+ benchmarks.{0}.images=\S+"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["pairs"], ASKED.format("pairs") + "$"),
     (["docci"], ASKED.format("docci") + " or take retrieval_docci$"),
     (["pairs", "benchmarks.pairs.path=t.csv"], "^benchmarks.pairs.images: must be given"),
     (["pears"], "unknown benchmark 'pears'")],
)  # fmt: skip
def test_a_benchmark_without_files_asks_for_them(tmp_path, checkpoint, monkeypatch, arguments, message):
    """No file is named that nobody here has written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        evaluate_command.main(["--checkpoint", str(checkpoint), "--benchmarks", *arguments])
