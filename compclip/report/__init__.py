"""Result files of the grid's cells -> tables, intervals, plots and one page."""
