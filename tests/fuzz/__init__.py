"""Made inputs against every reader: `python -m tests.fuzz --inputs 10000 --seed 0`.

An input is a reader's valid files with a few changes that a person, a broken disk or a stranger could have made. A
reader may accept it or refuse it in one line; a traceback, a hang, the end of the process and a file outside its folder
are defects. The same reader and number give the same input.
"""
