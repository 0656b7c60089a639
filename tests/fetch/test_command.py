"""`compclip fetch`: whole entries from a web server and a hub, to where the grids look, and every way it goes wrong."""

import hashlib
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from compclip.benchmarks import sugarcrepe
from compclip.fetch import __main__ as command
from tests.conftest import ROOT
from tests.fetch import hub_server
from tests.fetch.file_server import status

ADDRESS = "/{repo_id}/resolve/{revision}/{filename}"
RECORD = {"0": {"filename": "000000000001.jpg", "caption": "a dog", "negative_caption": "a cat"}}


@pytest.fixture
def fetch(files, tmp_path, monkeypatch, capsys):
    """Runs the command over a catalogue of one's own in an empty project; gives the code, stdout and stderr."""
    from huggingface_hub import constants

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(constants, "ENDPOINT", files.url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", files.url + ADDRESS)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("HF_TOKEN", raising=False)

    def run(entries: dict, *words: str):
        (tmp_path / "catalogue.yaml").write_text(yaml.safe_dump(entries))
        code = command.main(["--catalogue", "catalogue.yaml", *words])
        return code, *capsys.readouterr()

    return run


def web(served, **settings):
    return {"what": "x", "kind": "benchmark", "folder": "data/raw/x", "http": served.url, **settings}


def below(folder):
    """Files below a folder, without what the command keeps for itself."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file() and ".fetch" not in p.parts)


def sum_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def test_a_benchmark_and_its_pictures(fetch, files, tmp_path, zipped):
    """SugarCrepe and COCO's val2017 in their real layouts; the benchmark opens what came. A second call asks nobody."""
    body = json.dumps(RECORD).encode()
    pictures = zipped({"val2017/000000000001.jpg": "picture", "val2017/000000000002.jpg": "another"})
    files.bodies |= {f"/crepe/{name}.json": body for name in sugarcrepe.SUBSETS}
    files.bodies["/val2017.zip"] = pictures
    catalogue = {
        "sugarcrepe": web(
            files, http=f"{files.url}/crepe", folder="data/raw/sugarcrepe", needs=["coco_val2017"],
            files={f"{name}.json": {"size": len(body), "sha256": sum_of(body)} for name in sugarcrepe.SUBSETS},
        ),
        "coco_val2017": web(
            files, folder="data/raw/coco", files={"val2017.zip": {"sha256": sum_of(pictures), "unpack": True}}
        ),
    }  # fmt: skip
    code, out, _ = fetch(catalogue, "sugarcrepe")
    assert code == 0
    assert out.splitlines() == [
        f"sugarcrepe: 7 fetched ({len(body) * 7} B) in data/raw/sugarcrepe",
        "sugarcrepe: needs coco_val2017 as well: x",
    ]
    code, out, _ = fetch(catalogue, "sugarcrepe", "coco_val2017")
    assert out.splitlines()[0] == "sugarcrepe: 7 there already in data/raw/sugarcrepe"
    assert below(tmp_path / "data/raw/coco") == ["val2017/000000000001.jpg", "val2017/000000000002.jpg"]
    benchmark = sugarcrepe.load("data/raw/sugarcrepe", "data/raw/coco/val2017")
    assert {os.path.isfile(path) for record in benchmark.records for path in record.images} == {True}
    request_count = len(files.requests)
    code, out, _ = fetch(catalogue, "sugarcrepe", "coco_val2017")
    assert (code, len(files.requests)) == (0, request_count)
    assert "coco_val2017: 1 there already in data/raw/coco" in out


def test_cut_then_run_again(fetch, files, tmp_path):
    files.bodies["/a.bin"], files.cuts["/a.bin"] = b"0123456789", [4, 0, 0, 0, 0]
    catalogue = {"x": web(files, files={"a.bin": {"sha256": sum_of(b"0123456789")}})}
    code, out, error = fetch(catalogue, "x")
    assert (code, out, below(tmp_path / "data")) == (2, "", [])
    assert error.startswith("error: x: http://127.0.0.1") and error.count("\n") == 1
    assert "run this again to go on; or fetch" in error and "put it at data/raw/x/a.bin" in error
    assert fetch(catalogue, "x")[0] == 0
    assert (tmp_path / "data/raw/x/a.bin").read_bytes() == b"0123456789"
    assert files.ranges("/a.bin")[-1] == "bytes=4-"
    assert sorted(p.name for p in (tmp_path / "data/raw/x/.fetch").iterdir()) == ["x.lock"]


def test_the_rest_of_another_file_is_noticed(fetch, files, tmp_path):
    """Its sum is wrong; nothing of it stays, and the next call has the file."""
    files.bodies["/a.bin"], files.cuts["/a.bin"] = b"0123456789", [4, 0, 0, 0, 0]
    catalogue = {"x": web(files, files={"a.bin": {"sha256": sum_of(b"9876543210")}})}
    assert fetch(catalogue, "x")[0] == 2
    files.bodies["/a.bin"] = b"9876543210"
    assert "SHA-256 is" in fetch(catalogue, "x")[2] and fetch(catalogue, "x")[0] == 0
    assert (tmp_path / "data/raw/x/a.bin").read_bytes() == b"9876543210"


@pytest.mark.parametrize("unpack", [True, False])
def test_a_wrong_sum_keeps_nothing(fetch, files, tmp_path, zipped, unpack):
    files.bodies["/a.zip"] = zipped({"a.txt": "a"})
    code, _, error = fetch({"x": web(files, files={"a.zip": {"sha256": "0" * 64, "unpack": unpack}})}, "x")
    assert (code, error.count("\n")) == (2, 1)
    assert f"data/raw/x/a.zip: SHA-256 is {sum_of(files.bodies['/a.zip'])}, the catalogue says 0000" in error
    assert below(tmp_path / "data") == []
    assert not list((tmp_path / "data/raw/x/.fetch").glob("*.part"))


def test_one_fails_and_the_next_has_its_turn(fetch, files, tmp_path):
    files.specials["/a.bin"], files.bodies["/b.bin"] = status(401), b"b"
    catalogue = {"bad": web(files, files={"a.bin": {"size": 50}}), "good": web(files, files={"b.bin": {}})}
    code, out, error = fetch(catalogue, "bad", "good")
    assert (code, error.count("\n")) == (2, 1)
    assert "401: not for everybody" in error
    assert out == "good: 1 fetched (1 B) in data/raw/x\n"
    assert below(tmp_path / "data/raw/x") == ["b.bin"]


def test_no_network_and_then_by_hand(fetch, files, tmp_path, zipped):
    """One line that says what to put where; what somebody put there is checked, unpacked, and left."""
    raw = zipped({"top/a.txt": "a"})
    file = {"source": "http://127.0.0.1:9/a.zip", "sha256": sum_of(raw), "unpack": True, "strip": 1}
    catalogue = {"x": web(files, files={"a.zip": file})}
    code, _, error = fetch(catalogue, "x")
    message = "x: http://127.0.0.1:9/a.zip: cannot reach 127.0.0.1; or fetch http://127.0.0.1:9/a.zip elsewhere"
    assert (code, error) == (2, f"error: {message} and put it at data/raw/x/a.zip\n")
    (tmp_path / "data/raw/x/a.zip").write_bytes(b"another file")
    assert "SHA-256 is" in fetch(catalogue, "x")[2]
    (tmp_path / "data/raw/x/a.zip").write_bytes(raw)
    code, out, _ = fetch(catalogue, "x")
    assert (code, out) == (0, "x: 1 file unpacked in data/raw/x\n")
    assert below(tmp_path / "data/raw/x") == ["a.txt", "a.zip"]


def test_no_network_names_every_file(fetch, files, tmp_path):
    """All that is not here, each with its place; what is here is not named."""
    names = {f"{name}.bin": {"source": f"http://127.0.0.1:9/{name}"} for name in "abc"}
    (tmp_path / "data/raw/x").mkdir(parents=True)
    (tmp_path / "data/raw/x/b.bin").write_bytes(b"b")
    code, _, error = fetch({"x": web(files, files=names)}, "x")
    places = ", ".join(f"http://127.0.0.1:9/{name} (as data/raw/x/{name}.bin)" for name in "ac")
    message = "x: http://127.0.0.1:9/a: cannot reach 127.0.0.1; or fetch elsewhere and put each there"
    assert (code, error) == (2, f"error: {message}: {places}\n")


def test_a_list_of_pictures(fetch, files):
    """The command that fetches its pictures is printed; what a catalogue says is one word each of a shell."""
    files.bodies["/list.csv"] = b"Image Path,caption\nhttp://x/1.jpg,one\n"
    pictures = {"list": "list.csv", "format": "csv", "url": "Image $(Path)", "caption": "c", "into": "data/raw/y"}
    code, out, _ = fetch({"x": web(files, files={"list.csv": {}}, pictures=pictures)}, "x")
    words = shlex.split(out.splitlines()[1].partition("pictures: ")[2])
    assert (code, words[0]) == (0, "img2dataset")
    assert {"--url_list=data/raw/x/list.csv", "--url_col=Image $(Path)", "--output_folder=data/raw/y"} <= set(words)


def test_two_at_once(fetch, files, tmp_path):
    """The second one is told who is at it."""
    from compclip.base.files import hold_exclusively

    with hold_exclusively(tmp_path / "data/raw/x/.fetch/x.lock", "{}"):
        code, _, error = fetch({"x": web(files, files={"a.bin": {}})}, "x")
    assert (code, error) == (2, f"error: x: process {os.getpid()} is fetching it; wait for it, or stop it\n")


def hubbed(**settings):
    return {"what": "x", "kind": "captions", "folder": "data/raw/x", "hub": "datasets/some/one", **settings}


def test_a_repository_of_the_hub(fetch, files, tmp_path, zipped):
    """Winoground's layout: a file under another name, an archive, and whatever fits a pattern under its own."""
    bodies = {"data/examples.jsonl": b"{}\n", "data/images.zip": zipped({"images/a.png": "picture"})}
    bodies |= {
        "data/part_00.parquet": b"PAR0",
        "data/part_01.parquet": b"PAR1",
        "README.md": b"#",
        ".gitattributes": b"",
    }
    hub_server.repository(files, "some/one", bodies)
    named_files = {"examples.jsonl": {"source": "data/examples.jsonl"}}
    named_files["images.zip"] = {"source": "data/images.zip", "unpack": True}
    catalogue = {"x": hubbed(files=named_files, patterns=["data/part_*.parquet"])}
    code, out, error = fetch(catalogue, "x")
    assert (code, error) == (0, "")
    assert out.startswith("x: 4 fetched (") and out.endswith("), 1 file unpacked in data/raw/x\n")
    places = ["data/part_00.parquet", "data/part_01.parquet", "examples.jsonl", "images/a.png"]
    assert below(tmp_path / "data/raw/x") == places
    assert (tmp_path / "data/raw/x/data/part_01.parquet").read_bytes() == b"PAR1"
    request_count = len(files.requests)
    code, out, _ = fetch(catalogue, "x")
    assert (code, out, len(files.requests)) == (0, "x: 4 there already in data/raw/x\n", request_count)


def test_weights_go_into_the_cache(fetch, files, tmp_path):
    """Where the hub's library looks for them, which is where open_clip does."""
    from huggingface_hub import try_to_load_from_cache

    hub_server.repository(files, "timm/vit", {"open_clip_model.safetensors": b"weights"}, "models")
    weights = {"open_clip_model.safetensors": {"sha256": sum_of(b"weights")}}
    tag = {"what": "x", "kind": "weights", "hub": "timm/vit", "cache": True, "files": weights}
    assert fetch({"x": tag}, "x")[:2] == (0, "x: 1 fetched (7 B) in the hub's cache\n")
    cached_path = try_to_load_from_cache("timm/vit", "open_clip_model.safetensors", cache_dir=tmp_path / "cache")
    assert Path(cached_path).read_bytes() == b"weights"
    weights["open_clip_model.safetensors"]["sha256"] = "0" * 64
    code, _, error = fetch({"x": tag}, "x")
    assert code == 2 and "SHA-256 is" in error
    assert not Path(cached_path).exists()


def test_a_gated_repository_says_what_it_wants(fetch, files, tmp_path):
    hub_server.repository(files, "some/one", {"a.json": b"{}"}, gated=True)
    code, _, error = fetch({"x": hubbed(files={"a.json": {}})}, "x")
    assert (code, error.count("\n")) == (2, 1)
    page = f"{files.url}/datasets/some/one"
    terms = "gated: accept its terms there, and set HF_TOKEN to a token of yours"
    assert f"x: {page}: {terms}; or fetch a.json of {page}" in error


def test_the_token_is_sent_and_never_shown(fetch, files, monkeypatch):
    tokens = []
    hub_server.repository(files, "some/one", {"a.json": b"{}"})
    tree = "/api/datasets/some/one/tree/main"
    answer = files.specials[tree]
    files.specials[tree] = lambda handler: (tokens.append(handler.headers.get("Authorization")), answer(handler))
    monkeypatch.setenv("HF_TOKEN", "hf_secretsecretsecretsecret")
    code, out, error = fetch({"x": hubbed(files={"b.json": {}})}, "x")
    assert tokens == ["Bearer hf_secretsecretsecretsecret"]
    assert code == 2 and "has no file b.json; correct the catalogue" in error
    assert "secretsecret" not in out + error


def test_a_hub_whose_bytes_are_others(fetch, files, tmp_path):
    """The hub's own sums hold where the catalogue has none."""
    hub_server.repository(files, "some/one", {"a.json": b"{}"})
    original_answers = dict(files.specials)
    hub_server.repository(files, "some/one", {"a.json": b"[]"})
    files.specials |= {path: answer for path, answer in original_answers.items() if "/tree/" in path}
    code, _, error = fetch({"x": hubbed(files={"a.json": {}})}, "x")
    assert code == 2 and "the hub says" in error
    assert below(tmp_path / "data") == []


@pytest.mark.parametrize("name", ["../evil.json", "/evil.json", "a/../../evil.json"])
def test_a_hub_that_leads_out(fetch, files, tmp_path, name):
    hub_server.repository(files, "some/one", {name: b"{}"})
    code, _, error = fetch({"x": hubbed(patterns=["*.json"])}, "x")
    assert code == 2 and "must be a path below its folder" in error
    assert below(tmp_path) == ["catalogue.yaml"]


def test_a_whole_process(files, tmp_path):
    """As a person types it: HF_ENDPOINT names the hub; a name that is not there is one line."""
    hub_server.repository(files, "some/one", {"a.json": b"{}"})
    (tmp_path / "c.yaml").write_text(yaml.safe_dump({"x": hubbed(files={"a.json": {}})}))
    env = {**os.environ, "PYTHONPATH": str(ROOT), "HF_ENDPOINT": files.url}
    start = [sys.executable, "-m", "compclip", "fetch", "--catalogue", "c.yaml"]
    process = subprocess.run([*start, "x"], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (process.returncode, process.stdout) == (0, "x: 1 fetched (2 B) in data/raw/x\n"), process.stderr
    assert (tmp_path / "data/raw/x/a.json").read_bytes() == b"{}"
