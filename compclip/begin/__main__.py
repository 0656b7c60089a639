"""Begin a project with your own data, add to one, or bring one up to date.

compclip init NAME --data D --test T --model M
                                  a new project, ready for `compclip repro`; each option may be left out
compclip init --data D2           in a project: one more data set; so --test and --model
compclip init NAME [--grid GRID]  a new project with a file of experiments/grids
compclip init                     in a project: what differs from the package's files
compclip init --diff | --update   show the differences | take over what nobody edited

docs/own_data.md says what is recognised, and how a test set is held out where none is given.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compclip.base import links, yaml_text
from compclip.base.command_line import CommandParser
from compclip.base.errors import UserError, entry
from compclip.base.files import read_text, write_atomic
from compclip.base.messages import format_count
from compclip.begin import grid_fit, held_out, project_text
from compclip.begin.benchmark_section import describe_test, find_tests
from compclip.begin.data_section import SHOWN, find_section, make_name, survey_data
from compclip.begin.held_out import PictureDraw
from compclip.begin.project_text import Additions
from compclip.config import grid, project_files, read
from compclip.config.drawn_scenes import WORLD
from compclip.config.read import DEFAULT, GRIDS
from compclip.config.sections import Params
from compclip.fetch import missing_inputs
from compclip.fetch.catalogue import find_offers

PHOTOGRAPHS = "first_hour"  # the grid that a project with one's own pictures begins with


def main(argv: list[str]) -> int:
    """Begin a project, add to one, or say what the package would change in one."""
    args = _parse_arguments(argv)
    if not (args.data or args.test or args.model):
        return project_files.run(args)
    folder = args.folder
    is_new = not (folder / DEFAULT).exists()
    if args.diff or args.update or (args.grid and not is_new):
        raise UserError("--diff, --update and --grid of a project: call them without --data, --test and --model")
    source = project_files.find_source()
    if args.grid:
        project_files.find_grid(source, args.grid)
    brought = Project(folder, args.images, is_mixed=len(args.data) > 1)
    for text in args.data:
        brought.add_data(text)
    for text in args.test:
        brought.add_test(text)
    if args.model:
        brought.add_model(args.model, args.activation)
    with brought.undoing():
        if not args.test and is_new:
            brought.hold_out()
        if is_new:
            brought.begin(source, args.grid)
        else:
            brought.extend()
    print(*brought.lines, sep="\n")
    change_folder = f"cd {folder}; " if folder != Path(".") else ""
    print(f"Next: {change_folder}compclip repro")
    return 0


def _parse_arguments(argv: list[str]) -> Any:
    parser = CommandParser(prog="compclip init", description=__doc__, example="my_project --data captions.csv")
    project_files.add_options(parser)
    parser.add_argument("--data", action="append", default=[], metavar="PATH", help="pictures and captions; repeatable")
    parser.add_argument("--images", default="", help="the folder of the pictures, where they are not found")
    parser.add_argument("--test", action="append", default=[], metavar="PATH", help="a test set; repeatable")
    parser.add_argument("--model", default="", help="the pretrained model")
    parser.add_argument(
        "--activation", default="", choices=("gelu", "quickgelu"), help="of a file of weights, where it is asked for"
    )
    return parser.parse_args(argv)


class Project:
    """What a reader brings to a project, as it is recognised, and the lines that say so."""

    def __init__(self, folder: Path, images: str, is_mixed: bool) -> None:
        self.folder = folder
        self.images = images
        self.is_mixed = is_mixed  # of several data sets, of which less is said
        self.additions = Additions()
        self.lines: list[str] = []
        self.pictures: list[int] = []  # of each data set, for training
        self._draws: dict[str, PictureDraw] = {}

    def add_data(self, text: str) -> None:
        """Recognise a data set, and read it once."""
        name = str(make_name(text, "data"))
        section = find_section(text, self.images)
        draw = PictureDraw()
        survey = survey_data(section, draw.add)
        self.additions.data[name] = section
        self.pictures.append(survey.usable)
        self._draws[name] = draw
        first, *details = survey.describe(1 if self.is_mixed else SHOWN)
        self.lines += [f"data {name}: {section['source']}, {first}", *details]

    def add_test(self, text: str) -> None:
        """Recognise a test set."""
        folders = [section["images"] for section in self.additions.data.values()]
        images = "" if self.additions.data else self.images
        for name, section in find_tests(text, images, folders).items():
            self.additions.tests[str(name)] = section
            self.lines.append(f"test {describe_test(name, section)}")

    def add_model(self, text: str, activation: str) -> None:
        """Recognise a model."""
        from compclip.begin.model_section import find_model  # and with it torch

        name, section = find_model(text, activation)
        self.additions.backbones[str(name)] = section
        self.lines.append(f"model {name}: {', '.join(map(str, filter(None, section.values())))}")

    def hold_out(self) -> None:
        """Write a test set of each data set: its own split, or pictures that are drawn from it."""
        for number, (name, section) in enumerate(self.additions.data.items()):
            split, samples = held_out.read_test_split(section)
            if not samples:
                samples = self._draws[name].samples()
                self.pictures[number] -= len(samples)
            test_set = held_out.write_test_set(self.folder / held_out.FOLDER / name, split, samples)
            self.additions.tests |= held_out.benchmark_sections(name, test_set)
            self.lines.append(describe_held_out(name, test_set))

    @contextlib.contextmanager
    def undoing(self) -> Iterator[None]:
        """Leave nothing behind where a project cannot be begun or extended."""
        existed = self.folder.exists()
        try:
            yield
        except BaseException:
            for name in self._draws if existed else ():
                links.remove(self.folder / held_out.FOLDER / name)
            if not existed:
                links.remove(self.folder)
            raise

    def begin(self, source: Path, grid_name: str) -> None:
        """Lay out a project whose params.yaml has what the reader brings."""
        grid_name = grid_name or self._choose_grid()
        where = f"grid {grid_name or 'of the scenes'} with what you bring"
        base = read_base(source, grid_name)
        additions = self.additions.relative_to(self.folder.absolute())
        sections, left_out = project_text.compose(base, additions, self.folder)
        steps = self._fit(sections, where)
        text = project_text.write_out(sections)
        check_text(text, where)
        project_files.create(source, self.folder, grid_name)
        write_atomic(self.folder / DEFAULT, text)
        self.lines.insert(0, f"{self.folder}: a new project")
        if left_out:
            self.lines.append(describe_left_out(left_out, base["benchmarks"]))
        self.lines.append(project_text.describe_grid(sections, steps))
        self._add_missing(check_text(text, where))

    def _choose_grid(self) -> str:
        sections = self.additions.data.values()
        is_drawn = any(Path(WORLD).name in Path(section["path"]).parts for section in sections)
        return "" if is_drawn else PHOTOGRAPHS

    def _fit(self, sections: dict[str, Any], where: str) -> list[int]:
        """Fit the schedule to the data and this machine; return the steps on each data set."""
        if not self.pictures:
            return [sections["train"].get("max_steps", 0)]
        machine = grid_fit.measure_machine(len(sections["grid"]["seeds"]))
        train = sections["train"] = grid_fit.fit_schedule(sections["train"], min(self.pictures), machine)
        sections["evaluate"]["threads"] = min(grid_fit.MOST_THREADS, machine.cores)
        params = check_text(project_text.write_out(sections), where)
        micro_batch = grid_fit.find_micro_batch(list(grid.resolve_all(params)), machine)
        if micro_batch:
            train["micro_batch"] = micro_batch
        batch = train["batch_size"]
        return [train.get("max_steps") or round(train["epochs"] * (count // batch)) for count in self.pictures]

    def extend(self) -> None:
        """Add to the params.yaml that is there; it stays as it is where no grid would come of that."""
        path = self.folder / DEFAULT
        text = read_text(path)
        values = yaml_text.to_unresolved(yaml_text.parse_yaml(text, str(path), read.NO_SECTIONS))
        extended = project_text.add_to(text, values, self.additions.relative_to(self.folder.absolute()))
        params = check_text(extended, str(path))
        write_atomic(path, extended)
        self.lines.insert(0, f"{path}: added")
        self._add_missing(params)

    def _add_missing(self, params: Params) -> None:
        """Say what the grid reads and is not there, and what brings it."""
        missing = missing_inputs.list_missing(params, self.folder)
        self.lines += [f"missing: {item.describe()}" for item in missing]


def describe_held_out(name: str, test_set: held_out.HeldOut) -> str:
    """Return a line on a test set that was held out."""
    origin = f"of the data's own split {test_set.split!r}" if test_set.split else "held out, never trained on"
    unreadable = f" ({test_set.unreadable} unreadable ones left out)" if test_set.unreadable else ""
    captions = format_count(test_set.captions, "caption")
    text = f"test {name}_test: {format_count(test_set.pictures, 'picture')} {origin}{unreadable}, {captions}"
    if not test_set.pairs:
        return text
    rules = ", ".join(f"{rule} {count}" for rule, count in test_set.pairs.items())
    pairs = format_count(sum(test_set.pairs.values()), "pair")
    return f"{text}; {name}_pairs: {pairs} that rules made of them ({rules}), easier than pairs by people"


def describe_left_out(names: Sequence[str], sections: Mapping[str, Mapping[str, str]]) -> str:
    """Return a line on benchmarks that are left out, and what brings them."""
    offers: list[str] = []
    for name in names:
        for key in ("path", "images"):
            offers += [offer.name for offer in find_offers(sections[name][key])[0]]
    fetch = f"; `compclip fetch {' '.join(dict.fromkeys(offers))}`, then `compclip init --test PATH`" if offers else ""
    return f"left out, not here: {', '.join(names)}{fetch}"


def read_base(source: Path, grid_name: str) -> Mapping[str, Any]:
    """Return the grid that a new project begins with, as plain values."""
    path = source / GRIDS / f"{grid_name}.yaml" if grid_name else source / DEFAULT
    values: Mapping[str, Any] = yaml_text.to_unresolved(read.read_with_overrides(path, ()))
    return values


def check_text(text: str, where: str) -> Params:
    """Return what a params.yaml says. Raises UserError where no grid comes of it."""
    return read.check_params(yaml_text.parse_yaml(text, where, read.NO_SECTIONS), where, together=True)


if __name__ == "__main__":
    sys.exit(entry(main))
