"""Where WordNet 3.0 comes from: NLTK's data, else NLTK's download, else Debian's packages.

The reader and the format are NLTK's; a copy made here lies in `nltk_data` of the Python environment, where NLTK looks.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from types import ModuleType

from compclip.base import lean
from compclip.base.errors import UserError

PACKAGES = ("wordnet-base", "wordnet-sense-index")
DEBIAN = Path("/usr/share/wordnet")
NEEDED = (
    tuple(f"{kind}.{pos}" for kind in ("index", "data") for pos in ("adj", "adv", "noun", "verb"))
    + tuple(f"{pos}.exc" for pos in ("adj", "adv", "noun", "verb"))
    + ("cntlist.rev",)
)
# number, name and part of speech (1 noun, 2 verb, 3 adjective, 4 adverb) of WordNet's lexicographer files
LEXNAMES = """
adj.all adj.pert adv.all
noun.Tops noun.act noun.animal noun.artifact noun.attribute noun.body noun.cognition noun.communication noun.event
noun.feeling noun.food noun.group noun.location noun.motive noun.object noun.person noun.phenomenon noun.plant
noun.possession noun.process noun.quantity noun.relation noun.shape noun.state noun.substance noun.time
verb.body verb.change verb.cognition verb.communication verb.competition verb.consumption verb.contact verb.creation
verb.emotion verb.motion verb.perception verb.possession verb.social verb.stative verb.weather
adj.ppl
"""
_NUMBER = {"noun": 1, "verb": 2, "adj": 3, "adv": 4}
ADVICE = (
    "no WordNet: give NLTK its data with `python -m nltk.downloader wordnet`, or as root run `apt-get install "
    f"{' '.join(PACKAGES)}`, then `python -m compclip.text.wordnet --install`"
)


def folder() -> Path:
    """The folder with WordNet's files. Raises UserError naming the three ways to get it."""
    found = installed()
    if found is None:
        raise UserError(ADVICE)
    return found


def installed() -> Path | None:
    """WordNet where NLTK looks for data, its own copies included, or None."""
    for root in _nltk().data.path:
        path = Path(root) / "corpora" / "wordnet"
        if all((path / name).is_file() for name in (*NEEDED, "lexnames")):
            return path
        if path.with_suffix(".zip").is_file():
            return _unzip(path.with_suffix(".zip"))
    return None


def _nltk() -> ModuleType:
    with lean.without("pandas", "scipy", "sklearn"):
        import nltk
    return nltk


def install() -> tuple[Path, str]:
    """Make WordNet available; returns its folder and where it came from. Raises UserError where no way works."""
    for source, attempt in (
        ("NLTK data", installed),
        ("NLTK download", _download),
        ("Debian files", _debian),
        ("Debian packages", _apt),
    ):
        path = attempt()
        if path is not None:
            return path, source
    raise UserError(ADVICE)


def target() -> Path:
    """Where a copy for this Python environment goes."""
    return Path(sys.prefix) / "nltk_data" / "corpora" / "wordnet"


def _download(timeout_s: float = 20) -> Path | None:
    """NLTK's own download, or None where its server cannot be reached."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout_s)
    try:
        with open(os.devnull, "w") as nowhere:
            done = _nltk().download("wordnet", str(target().parent.parent), quiet=True, print_error_to=nowhere)
    except (OSError, ValueError):  # ValueError: the index is not what NLTK expects
        done = False
    finally:
        socket.setdefaulttimeout(before)
    return installed() if done else None


def _debian(source: Path = DEBIAN) -> Path | None:
    """A copy of Debian's dictionary files with a generated `lexnames`, or None where they are not installed."""
    if not all((source / name).is_file() for name in NEEDED):
        return None
    return _place(source, target())


def _apt() -> Path | None:
    """Install Debian's packages where this process may, and copy their files."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run(
            ["apt-get", *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    return _debian()


def _place(source: Path, destination: Path) -> Path:
    """Copy a dictionary so that `destination` is either whole or not there."""
    try:
        destination.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=destination.parent) as temporary:
            copy = Path(temporary) / "wordnet"
            shutil.copytree(source, copy)
            if not (copy / "lexnames").is_file():
                (copy / "lexnames").write_text(lexnames())
            shutil.rmtree(destination, ignore_errors=True)
            copy.rename(destination)
    except OSError as error:
        raise UserError(f"{destination}: cannot write: {error.strerror or error}; make the folder writable") from error
    return destination


def lexnames() -> str:
    """The file `lexnames` of WordNet 3.0, which Debian leaves out."""
    return "".join(f"{i:02d}\t{name}\t{_NUMBER[name.split('.')[0]]}\n" for i, name in enumerate(LEXNAMES.split()))


def _unzip(archive: Path) -> Path:
    """NLTK keeps its download zipped; reading it plain is several times faster."""
    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(archive) as file:
            file.extractall(temporary)
        return _place(Path(temporary) / "wordnet", target())
