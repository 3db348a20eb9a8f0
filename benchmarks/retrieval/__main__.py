"""The commands of the evaluation: `python -m benchmarks.retrieval --help`."""

from benchmarks.retrieval.commands import app

if __name__ == "__main__":
    app()
