"""Profiles of others: what they say becomes options in a job's script, never commands but for `setup`."""

import re
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from submitit.slurm.slurm import _make_sbatch_string

from compclip.base.errors import UserError
from compclip.launch import profiles, slurm
from compclip.runs.run_store import StoredRun
from tests import fake_store

NAMES = ("partition", "account", "qos", "constraint")


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> list[StoredRun]:
    return fake_store.runs(fake_store.project(tmp_path_factory.mktemp("p") / "p"))


def script(path: Path, runs: list[StoredRun], commands: bool = False) -> list[str]:
    """What sbatch would be given of a profile, above the commands or with them."""
    root = runs[0].root
    options = slurm.submitit_options(profiles.load_profile(path), runs, root / "code", root)
    text = _make_sbatch_string(command="true", folder=root, map_count=2, **options)
    return (text if commands else text[: text.index("\n# setup\n")]).split("\n")


def no_command(line: str) -> bool:
    """Whether a shell passes over a line."""
    return not line or line.startswith("#")


@pytest.mark.parametrize(("text", "message"), [
    ({"account": "a\ntouch X"}, r"profile.yaml: account='a\\ntouch X': must be one line of plain"),
    ({"partition": "a\x85touch X"}, "must be one line of plain text; a command belongs into setup"),
    ({"partition": "a\u2028touch X"}, "must be one line of plain text"),
    ({"options": {"comment": "a\ntouch X"}}, r"options.comment='a\\ntouch X': must be one line"),
    ({"options": {"x\ntouch X": "a"}}, r"options: 'x\\ntouch X': is no option of sbatch; give its name, as mail-"),
    ({"options": {"--wrap": "a"}}, "options: '--wrap': is no option of sbatch"),
    ({"options": {"a": ["x"]}}, "profile.options"),
    ({"srun": {"cpu-bind": "cores\ntouch X"}}, r"srun.cpu-bind='cores\\ntouch X': must be one line"),
    ({"srun": {"--cpu-bind": "cores"}}, "srun: '--cpu-bind': is no option of srun; give its name, as cpu-bind"),
    ({"srun": {"task-prolog": "x"}}, "srun: 'task-prolog': starts a program or sets variables; use setup for that"),
    ({"srun": {"prol": "x"}}, "srun: 'prol': starts a program"),
    ({"srun": {"export": "PYTHONPATH=x"}}, "srun: 'export': starts a program or sets variables"),
    ({"srun": {"exact": True}}, "profile.srun.exact=True: must be str"),
    ({"memory_gb": "nan"}, "profile.memory_gb='nan': must be float"),
    ({"memory_gb": float("inf")}, "memory_gb=inf: must be a finite number"),
    ({"jobs": True}, "profile.jobs=True: must be int; the default is 1"),
    ({"setup": [["x"]]}, r"profile.setup.0=\['x'\]: must be str"),
    ({"notify": "A\nB"}, "notify: names no environment variable"),
    ({"partitoin": "gpu"}, "unknown key 'partitoin'; did you mean 'partition'"),
    ({"executor": "slrum"}, "unknown executor 'slrum'; did you mean 'slurm'"),
    ({"time_min": 0}, "time_min=0: must be > 0"), ({"memory_gb": -1}, "memory_gb=-1: must be >= 0"),
    ({"time_min": 2, "signal_s": 120}, "signal_s=120: must be shorter than time_min=2"),
    ({"gpus": 2, "tasks_per_node": 3}, "tasks_per_node=3: one process a GPU, gpus=2"), ([1], "must be a mapping"),
])  # fmt: skip
def test_profiles_that_are_refused(tmp_path, text, message):
    """Key, value and fix in one line."""
    path = tmp_path / "profile.yaml"
    path.write_text(yaml.safe_dump(text))
    with pytest.raises(UserError, match=message) as error:
        profiles.load_profile(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "hint"), [
    ("a100.yaml", "did you mean 'slurm/a100.yaml'?"), ("mine/gpu.yam", "did you mean 'mine/gpu.yaml'?"),
    ("nope", "known: slurm/a100.yaml"), ("x" * 600, ""),  # a name that no file can have
])  # fmt: skip
def test_an_unknown_profile_names_profiles_and_no_other_file(tmp_path, monkeypatch, name, hint):
    for file in ("params.yaml", "slurm/a100.yaml", "mine/gpu.yaml"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=rf"unknown profile '{name}.*{re.escape(hint)}"):
        profiles.load_profile(name)


def test_what_people_write_reaches_the_script(tmp_path, runs):
    """Quotes, commas and dollars are a value's own."""
    path = tmp_path / "profile.yaml"
    path.write_text("{partition: 'a,b', account: \"o'neil\", options: {comment: '$(touch X) `y`', mail-type: END}}")
    lines = script(path, runs)
    assert "#SBATCH --partition=a,b" in lines and "#SBATCH --mail-type=END" in lines
    assert "#SBATCH --comment='$(touch X) `y`'" in lines
    assert all(map(no_command, lines))


@pytest.mark.parametrize(("text", "arguments"), [
    ("{cpus: 16}", "--kill-on-bad-exit=1 --cpus-per-task=16 --export=ALL"),
    ("{}", "--kill-on-bad-exit=1 --cpus-per-task=1 --export=ALL"),
    ("{cpus: 4, srun: {cpu-bind: 'map_cpu:0,1', exact: '', kill-on-bad-exit: '0'}}", "--kill-on-bad-exit=0 --cpus-per-task=4 --export=ALL --cpu-bind=map_cpu:0,1 --exact"),
    ("{srun: {comment: 'a b; touch X'}}", "--kill-on-bad-exit=1 --cpus-per-task=1 --export=ALL '--comment=a b; touch X'"),
])  # fmt: skip
def test_srun_is_told_what_sbatch_no_longer_tells_it(tmp_path, runs, text, arguments):
    """The cores of a process, the end of all where one fails, and what the profile says: words, never commands."""
    path = tmp_path / "profile.yaml"
    path.write_text(text)
    [command] = [line for line in script(path, runs, commands=True) if line.startswith("srun ")]
    assert command.endswith(f" {arguments} true")


def test_a_process_that_was_stopped_waits_for_the_first_one():
    """Which saves: srun ends all where one leaves. After the warning until the next signal, after SIGTERM not for long."""
    warned, terminated = slurm.JobCommand("0123456789abcdef"), slurm.JobCommand("0123456789abcdef")
    assert not warned._leave_at
    warned._note_warning()
    terminated._stop()
    assert warned._leave_at > terminated._leave_at > time.monotonic()
    for command in (warned, terminated):
        command._stop()
        assert 0 < command._leave_at <= time.monotonic()


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20)),
       st.dictionaries(st.text(max_size=8), st.text(max_size=20), max_size=2))  # fmt: skip
def test_no_value_ends_a_line(tmp_path_factory, runs, values, options):
    """Every profile is refused, or leaves a script with no line of its own."""
    path = tmp_path_factory.mktemp("p") / "profile.yaml"
    path.write_text(yaml.safe_dump({**values, "options": options}), errors="surrogatepass")
    try:
        assert all(map(no_command, script(path, runs)))
    except UserError as error:
        assert "\n" not in str(error)  # noqa: PT017


def test_a_folder_that_ends_a_line(tmp_path, runs):
    """The project's own place is in the script too."""
    with pytest.raises(UserError, match=r"cannot be in a job's script; rename the folder"):
        slurm.submitit_options(profiles.Profile(), runs, Path("code"), tmp_path / "a\ntouch X")
