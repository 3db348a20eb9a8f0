"""`apportion run`: the worker."""

import typer

from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(
    cls=with_settings("brokers", "app_id", "partitions", "default_policy", "policies", "verify_share")
)
def run(ctx: typer.Context) -> None:
    """Run the worker until SIGTERM or Ctrl-C.

    It then finishes the batches in flight, commits, and leaves its consumer group, within 10 s.
    Workers of a group share the partitions, so start up to one per partition. The topics must exist
    (apportion topics create). It logs to stderr, one line per fact.

    Examples:
      apportion run --brokers kafka-1:9092,kafka-2:9092
      APPORTION_BROKERS=kafka:9092 apportion run
    """
    from apportion.shell.stream.run import run_worker

    run_worker(read_settings(ctx))
