"""Steps of methods beside the released programs' own, for `perf/released_steps.py`: two files of a method.

METHOD.py has `step(paths, model, theirs)`: the batch by our loader's functions, our loss, and its slopes.
METHOD_program.py has `run(folder, given)`: the same by the program whose clone is FOLDER. It is run in a process of its
own, with that folder first in its path, and imports nothing of compclip.
"""
