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

from compclip.base.errors import UserError

PACKAGES = ("wordnet-base", "wordnet-sense-index")
DEBIAN = Path("/usr/share/wordnet")
REQUIRED_FILES = (
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


def find_folder() -> Path:
    """Return the folder with WordNet's files. Raises UserError naming the three ways to get it."""
    folder = find_installed()
    if folder is None:
        raise UserError(ADVICE)
    return folder


def find_installed() -> Path | None:
    """Return WordNet's folder where NLTK looks for data, or None."""
    import nltk

    for root in nltk.data.path:
        path = Path(root) / "corpora" / "wordnet"
        if all((path / name).is_file() for name in (*REQUIRED_FILES, "lexnames")):
            return path
        if path.with_suffix(".zip").is_file():
            return _unzip(path.with_suffix(".zip"))
    return None


def install() -> tuple[Path, str]:
    """Make WordNet available; return its folder and its origin. Raises UserError where no way works."""
    for source, attempt in (
        ("NLTK data", find_installed),
        ("NLTK download", _download),
        ("Debian files", _copy_from_debian),
        ("Debian packages", _install_with_apt),
    ):
        path = attempt()
        if path is not None:
            return path, source
    raise UserError(ADVICE)


def target_folder() -> Path:
    """Return the folder for a copy in this Python environment."""
    return Path(sys.prefix) / "nltk_data" / "corpora" / "wordnet"


def _download(timeout_s: float = 20) -> Path | None:
    """Download through NLTK; None where its server cannot be reached."""
    import nltk

    timeout_before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(timeout_s)
    try:
        with open(os.devnull, "w") as nowhere:
            succeeded = nltk.download("wordnet", str(target_folder().parent.parent), quiet=True, print_error_to=nowhere)
    except (OSError, ValueError):  # ValueError: the index is not what NLTK expects
        succeeded = False
    finally:
        socket.setdefaulttimeout(timeout_before)
    return find_installed() if succeeded else None


def _copy_from_debian(source: Path = DEBIAN) -> Path | None:
    """Copy Debian's dictionary files and generate `lexnames`; None where they are not installed."""
    if not all((source / name).is_file() for name in REQUIRED_FILES):
        return None
    return _copy_dictionary(source, target_folder())


def _install_with_apt() -> Path | None:
    """Install Debian's packages where this process may, and copy their files."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None
    print(
        f"WordNet: not here, and NLTK's server cannot be reached; installing {' '.join(PACKAGES)} with apt-get",
        flush=True,
    )
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update", "-q"], ["install", "-q", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run(
            ["apt-get", *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
    return _copy_from_debian()


def _copy_dictionary(source: Path, destination: Path) -> Path:
    """Copy a dictionary; `destination` is complete or absent."""
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
    """Return the content of WordNet 3.0's `lexnames`, which Debian leaves out."""
    return "".join(f"{i:02d}\t{name}\t{_NUMBER[name.split('.')[0]]}\n" for i, name in enumerate(LEXNAMES.split()))


def _unzip(archive: Path) -> Path:
    """Unpack NLTK's zipped download, which is several times faster to read."""
    with tempfile.TemporaryDirectory() as temporary:
        with zipfile.ZipFile(archive) as file:
            file.extractall(temporary)
        return _copy_dictionary(Path(temporary) / "wordnet", target_folder())
