"""Runs the measurement: see `report`."""

import typer

from benchmarks.value.report import main

if __name__ == "__main__":
    typer.run(main)
