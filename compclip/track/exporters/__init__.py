"""Exporters, found by module name: `compclip export NAME` writes finished runs as another tracker reads them.

Each offers TARGET, where it writes by default; `find_content(name, to)`, the content of a run that is there already,
"" where none is; and `write_run(run, to)`, which puts a `compclip.track.exported_runs.ExportedRun` in its place.
"""
