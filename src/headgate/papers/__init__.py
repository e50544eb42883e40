"""One module a paper: its experiments, rerun."""
