"""A grid may be a stranger's: of the environment it gets what the reader allowed by name, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from compclip.base import environment_variables
from compclip.base.errors import UserError
from compclip.config import __main__ as config_command
from compclip.config import grid, read
from tests.conftest import ROOT
from tests.shipped_files import SHIPPED_PARAMS

SECRET = "wJalrXUtnFEMI/K7MDENG"  # what AWS's pages call a key
URL = "https://models.example/v1"
ENDPOINT = "data.x={source: flickr8k, path: p, images: i, captioner: endpoint, options: "
KEY = ENDPOINT + "{url: 'URL', model: m, api_key_env: NAME}}"
REWRITER = "data.x={source: flickr8k, path: p, images: i, captioner: none, rewriter: {url: 'URL', model: m, api_key_env: NAME}}"
PROMPT = ENDPOINT + "{url: 'URL', model: m, prompt: 'TEXT'}}"
MODEL = ENDPOINT + "{url: 'URL', model: 'TEXT'}}"
REFERENCE = "${oc.env:AWS_SECRET_ACCESS_KEY}"


@pytest.fixture
def secret(monkeypatch, tmp_path) -> str:
    """A secret of the reader's, in an empty folder with the shipped grid."""
    monkeypatch.delenv(environment_variables.ALLOW, raising=False)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("params.yaml").write_bytes(SHIPPED_PARAMS.read_bytes())
    return SECRET


def section(text: str, url: str = URL, name: str = "AWS_SECRET_ACCESS_KEY", value: str = REFERENCE) -> str:
    """An override with its places filled."""
    return text.replace("URL", url).replace("NAME", name).replace("TEXT", value)


STRANGERS = {
    "a captioner's key": (section(KEY), f"data.x.options.api_key_env=AWS_SECRET_ACCESS_KEY: .*@{URL[:-3]}"),
    "a rewriter's key": (section(REWRITER), f"data.x.rewriter.api_key_env=AWS_SECRET_ACCESS_KEY: .*@{URL[:-3]}"),
    "a prompt": (section(PROMPT), "data.x.options.prompt: reads the environment variable AWS_SECRET_ACCESS_KEY"),
    "a model's name": (section(MODEL), "data.x.options.model: reads the environment variable AWS_SECRET_ACCESS_KEY"),
    "a path": ("benchmarks.x={benchmark: sugarcrepe, path: '${oc.env:AWS_SECRET_ACCESS_KEY}/a', images: i}",
               "benchmarks.x.path: reads the environment variable AWS_SECRET_ACCESS_KEY"),
    "with a default": (section(MODEL, value="${oc.env:AWS_SECRET_ACCESS_KEY,none}"), "reads the environment variable"),
    "as a default": (section(MODEL, value="${oc.env:NO_SUCH,${oc.env:AWS_SECRET_ACCESS_KEY}}"), "the environment var"),
    "decoded": (section(MODEL, value="${oc.decode:${oc.env:AWS_SECRET_ACCESS_KEY}}"), "reads the environment variable"),
    "escaped": (section(MODEL, value="\\" + REFERENCE), "data.x.options.model: reads the environment variable"),
}  # fmt: skip


@pytest.mark.parametrize(("override", "line"), STRANGERS.values(), ids=STRANGERS)
def test_a_stranger_gets_no_secret(secret, override, line):
    """One line that says what to set, and nothing is written."""
    with pytest.raises(UserError, match=line) as error:
        config_command.main(["plan", override])
    assert "\n" not in str(error.value) and "export COMPCLIP_ALLOW_ENV=" in str(error.value)
    assert secret not in str(error.value)
    assert os.listdir() == ["params.yaml"]


def test_the_whole_command(secret):
    """Of a grid in a file: exit code 2."""
    section = f"  x: {{source: flickr8k, path: p, images: i, captioner: none, split: '{REFERENCE}'}}"
    Path("params.yaml").write_text(Path("params.yaml").read_text().replace("\ndata:\n", f"\ndata:\n{section}\n"))
    process = subprocess.run([sys.executable, "-m", "compclip.config", "check"], capture_output=True, text=True)
    assert (process.returncode, process.stdout, len(process.stderr.splitlines())) == (2, "", 1)
    assert process.stderr.startswith(
        "error: params.yaml: data.x.split: reads the environment variable AWS_SECRET_ACCESS_"
    )
    assert os.listdir() == ["params.yaml"]


def test_texts_are_not_put_together_to_a_reference(secret):
    """Sections are resolved again by those who read them: what is left to resolve is refused."""
    value = "${data.x.split}{oc.env:AWS_SECRET_ACCESS_KEY}"
    override = section(MODEL, value=value).replace("images: i", "images: i, split: '$'")
    message = r"data.x.options.model: gives '\$\{oc.env:AWS.*', which holds \$\{; write it w"
    with pytest.raises(UserError, match=message):
        config_command.main(["plan", override])
    assert os.listdir() == ["params.yaml"]


def test_what_is_allowed_by_name(secret, monkeypatch):
    """The line of the refusal, typed, is enough; what was allowed before stays."""
    monkeypatch.setenv("DATA_ROOT", "/somewhere")
    monkeypatch.setenv("OTHER", "there")
    path = "${oc.env:DATA_ROOT}/${oc.env:OTHER}"
    override = f"data.x={{source: flickr8k, path: '{path}', images: i, captioner: none}}"
    with pytest.raises(UserError, match="export COMPCLIP_ALLOW_ENV=DATA_ROOT,OTHER$"):
        read.load_params("params.yaml", [override])
    monkeypatch.setenv(environment_variables.ALLOW, "DATA_ROOT")
    with pytest.raises(UserError, match=r"export COMPCLIP_ALLOW_ENV=\$COMPCLIP_ALLOW_ENV,OTHER$"):
        read.load_params("params.yaml", [override])
    monkeypatch.setenv(environment_variables.ALLOW, "DATA_ROOT,OTHER")
    assert read.load_params("params.yaml", [override]).data["x"].path == "/somewhere/there"


def test_a_key_goes_to_the_server_it_was_allowed_for(secret, monkeypatch):
    """Whatever way its address is written; not to another host or port, and not without encryption."""
    for allowed in ("https://models.example", "https://models.example:443/v1", "https://MODELS.example"):
        monkeypatch.setenv(environment_variables.ALLOW, f"AWS_SECRET_ACCESS_KEY,AWS_SECRET_ACCESS_KEY@{allowed}")
        params = read.load_params("params.yaml", [section(KEY)])
        assert grid.captioner_config(params.data["x"]).api_key_env == "AWS_SECRET_ACCESS_KEY"
    other_urls = "http://models.example/v1 https://models.example:8443 https://models.example.org https://other"
    for url in other_urls.split():
        with pytest.raises(UserError, match="would send this environment variable to http"):
            read.load_params("params.yaml", [section(KEY, url)])


def test_a_plan_holds_no_key(secret, monkeypatch):
    """Its variable's name alone: an allowed key is sent, is no value, and is written nowhere."""
    monkeypatch.setenv(environment_variables.ALLOW, f"AWS_SECRET_ACCESS_KEY@{URL}")
    with pytest.raises(UserError, match="reads the environment variable AWS_SECRET_ACCESS_KEY"):
        read.load_params("params.yaml", [section(MODEL)])
    overrides = [section(KEY), "grid.data=[x]", "wise_ft.methods=[]", "data.x.exclude=[]"]
    assert config_command.main(["plan", *overrides]) == 0
    texts = [path.read_text() for path in Path(".").rglob("*") if path.is_file()]
    assert any("AWS_SECRET_ACCESS_KEY" in text for text in texts) and not any(secret in text for text in texts)


def test_the_key_of_a_server_that_the_grid_starts(secret, monkeypatch):
    """It has no address before it runs."""
    override = section(KEY).replace(f"url: '{URL}'", "server: 'serve --port {port}'")
    with pytest.raises(UserError, match="export COMPCLIP_ALLOW_ENV=AWS_SECRET_ACCESS_KEY@server$"):
        read.load_params("params.yaml", [override])
    monkeypatch.setenv(environment_variables.ALLOW, "AWS_SECRET_ACCESS_KEY@server")
    assert read.load_params("params.yaml", [override])
