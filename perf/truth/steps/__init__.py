"""Steps of methods beside the released programs' own, for `perf/truth/released_steps.py`: two files of a method.

METHOD.py has `step(paths, model, theirs)`: the batch by our loader's functions, our loss, and its slopes. Where it has
`OPTIONS`, the model is prepared for the method with these, its head as a part named `heads`; `MODEL` changes the tiny
model's config, `open_model` builds it.
METHOD_program.py has `run(folder, shared_inputs)`: the same by the program whose clone is FOLDER. It is run in a
process of its own, with that folder first in its path, and imports nothing of compclip.
"""
