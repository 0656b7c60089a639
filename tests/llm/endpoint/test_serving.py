"""A server of the task's own: started where that is allowed, waited for, watched, and gone with the task."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from PIL import Image

from compclip.base.errors import UserError
from compclip.base.files import write_json
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.data.sample import Sample
from compclip.llm import chat_client, local_server, server_guard
from compclip.prepare import shard_stages
from compclip.prepare.captioners import endpoint
from tests.captioned import captioned
from tests.conftest import ROOT
from tests.data.reading import in_folder

STAND_IN = Path(__file__).with_name("stand_in.py")
DATA = Data("karpathy", "d.json", ".", captioner="endpoint")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Makes settings whose server is the stand-in, in some ways."""
    monkeypatch.setenv(local_server.ALLOW, "1")
    monkeypatch.setattr(local_server, "PATIENCE_S", 5.0)
    monkeypatch.setattr(chat_client, "WAIT_S", 0.0)

    def make(*ways, **settings):
        command = f"'{sys.executable}' -S -I {STAND_IN} {{port}} {' '.join(ways)}"
        defaults = {"cache": str(tmp_path / "c" / "answers.sqlite")}
        return endpoint.Config(**{"server": command, "model": "m"} | defaults | settings)

    return make


@pytest.fixture
def sample(tmp_path):
    Image.new("RGB", (20, 10)).save(tmp_path / "a.png")
    return Sample("a", str(tmp_path / "a.png"), ("old",))


def log(tmp_path):
    (file,) = (tmp_path / "c").rglob("server-*.log")
    return file.read_text()


def pids(text):
    return [int(word) for word in text.partition("pids")[2].split("\n")[0].split()]


def gone(pid):
    """Whether a process has ended, though nobody may have asked how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def await_gone(*process_ids):
    """Return when all have ended; a minute is more than any needs."""
    for _ in range(6000):
        if all(map(gone, process_ids)):
            return
        threading.Event().wait(0.01)
    raise AssertionError("still there")


@pytest.mark.parametrize("way", ["loads", "bare"])
def test_for_the_length_of_a_task(server, sample, tmp_path, way):
    """It is asked once it is ready, whichever way it says so; its log lies beside the answers; then it is gone."""
    with endpoint.opened(DATA, server(way)) as caption:
        samples, counts = caption([sample], "00000")
        (pid,) = pids(log(tmp_path))
        assert not gone(pid)
        again, repeated_counts = caption([sample], "00000")
    assert gone(pid)
    assert samples[0].captions == ("A picture.",) and again == samples
    assert (counts["answered"], repeated_counts["cached"]) == (1, 1)
    assert log(tmp_path).count("asked /v1/chat/completions") == 1


def test_a_strangers_grid_starts_nothing(server, sample, tmp_path, monkeypatch):
    """Only where the environment says so; the line shows the command."""
    for value in ("", "0", None):
        monkeypatch.setenv(local_server.ALLOW, value) if value is not None else monkeypatch.delenv(local_server.ALLOW)
        with pytest.raises(UserError, match=r"server=.*stand_in.py {port} .*allow grids .* COMPCLIP_ALLOW_SERVER=1"):
            captioned(endpoint, [sample], server())
    assert not (tmp_path / "c").exists()


def test_no_shell_sees_the_command(tmp_path, monkeypatch):
    """Words are words, whatever they hold."""
    monkeypatch.setenv(local_server.ALLOW, "1")
    script = "import sys; print(sys.argv[2:])"
    command = f"'{sys.executable}' -c '{script}' {{port}} $HOME ; touch {tmp_path}/ran '$(touch x)' | *"
    run = local_server.run_server(Server(model="m", server=command), tmp_path / "log")
    with pytest.raises(UserError, match="ended with exit code 0"), run:
        pass
    words = ["$HOME", ";", "touch", f"{tmp_path}/ran", "$(touch x)", "|", "*"]
    assert (tmp_path / "log").read_text().strip() == str(words)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [("no-such-program-here {port}", r"exit code 127; its log .* ends with: no-such-program-here: .*No such file"),
     (f"'{sys.executable}' {STAND_IN} {{port}} fails", r"code 1; .*with: out of memory \| lower --gpu-memory-utilization$")],
)  # fmt: skip
def test_one_that_does_not_start(server, sample, command, message):
    """One line with the end of its log."""
    with pytest.raises(UserError, match=message) as caught:
        captioned(endpoint, [sample], server(server=command))
    assert "\n" not in str(caught.value)


def test_one_that_is_never_ready(server, sample, tmp_path, monkeypatch):
    """It is stopped."""
    monkeypatch.setattr(local_server, "READY_S", 1.0)
    with pytest.raises(UserError, match="not ready within 1 s; its log"):
        captioned(endpoint, [sample], server("never"))
    await_gone(*pids(log(tmp_path)))


def test_one_that_dies_while_it_is_asked(server, sample, monkeypatch):
    """The next attempt would be in a quarter of an hour."""
    monkeypatch.setattr(chat_client, "WAIT_S", 900.0)
    monkeypatch.setattr(chat_client, "LONGEST_WAIT_S", 900.0)
    message = "ended with exit code 7; its log .* with: .*CUDA error: an illegal memory access$"
    with pytest.raises(UserError, match=message):
        captioned(endpoint, [sample], server("dies"))


def test_a_deaf_one_and_its_children_are_ended(server, sample, tmp_path, monkeypatch):
    """By SIGKILL, when SIGTERM had its time."""
    monkeypatch.setattr(local_server, "PATIENCE_S", 0.3)
    captioned(endpoint, [sample], server("deaf", "parent"))
    process_ids = pids(log(tmp_path))
    assert len(process_ids) == 2
    await_gone(*process_ids)  # SIGKILL has no answer, and where others have the cores they end a moment later


TASK = """
import sys
from pathlib import Path
from compclip.config.sections import Data
from compclip.config.servers import Server
from compclip.llm import local_server
with local_server.run_server(Server(model="m", server=sys.argv[1]), Path(sys.argv[2])):
    print("ready", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_it_goes_with_a_task_that_is_killed(server, tmp_path, number):
    """Whatever signal ends the task, and its child with it."""
    command = [sys.executable, "-c", TASK, server("parent").server, str(tmp_path / "log")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    task = subprocess.Popen(command, **pipes, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert task.stdout.readline() == b"ready\n"
    process_ids = pids((tmp_path / "log").read_text())
    assert len(process_ids) == 2 and not any(map(gone, process_ids))
    task.send_signal(number)
    task.communicate()
    await_gone(*process_ids)


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_it_goes_with_its_guard(server, tmp_path):
    """Also when that one is killed."""
    port, log_file = local_server._free_port(), tmp_path / "log"
    guard = local_server._start(server().server, port, log_file)
    local_server._ServerProcess(guard, "", log_file).await_ready(port, 60)
    guard.kill()
    guard.wait()
    await_gone(*pids((tmp_path / "log").read_text()))


def test_a_guard_whose_parent_has_gone_before(tmp_path):
    """It starts nothing that stays."""
    process = subprocess.run([sys.executable, "-I", server_guard.__file__, "1", "5", "sleep", "600"], timeout=60)
    assert process.returncode == 128 + signal.SIGTERM


def test_one_command_captions_with_a_server_of_its_own(server, sample, tmp_path, monkeypatch):
    """From params.yaml to the shard; the second time nothing is missing, and nothing is started."""
    monkeypatch.chdir(tmp_path)
    records = [{"filename": "a.png", "split": "train", "sentences": [{"raw": "old"}]}]
    write_json(tmp_path / "d.json", {"images": records})
    cfg = server()
    options = {"server": cfg.server, "model": cfg.model, "cache": cfg.cache}
    section = {"source": "karpathy", "path": "d.json", "images": ".", "captioner": "endpoint", "options": options}
    sections = {"methods": {"finetune": {}}, "backbones": {"b": {"model": "ViT-B-32"}}, "data": {"d": section}}
    grid = {name: list(names) for name, names in sections.items()} | {"seeds": [0]}
    write_json(tmp_path / "params.yaml", {"grid": grid} | sections)
    for _ in range(2):
        assert shard_stages.main(["--data", "d"]) == 0
        assert [s.captions for s in in_folder(tmp_path / "data" / "d")] == [("A picture.",)]
    assert log(tmp_path).count("asked") == 1
    assert all(map(gone, pids(log(tmp_path))))
