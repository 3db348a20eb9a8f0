"""`apportion run`: the worker."""

import typer

from apportion.cli._settings import read_settings, with_settings

app = typer.Typer(add_completion=False)


@app.command(
    cls=with_settings("brokers", "app_id", "partitions", "default_policy", "policies", "verify_share")
)
def run(ctx: typer.Context) -> None:
    """Run the worker against the brokers of its settings, until SIGTERM or Ctrl-C.

    It then finishes the event in flight, commits, and leaves its consumer group, within 10 s.
    Start as many as there are partitions: they share them. The topics must be there (apportion
    topics create). Logs to stderr, a line a fact.

    Examples:
      apportion run --brokers kafka-1:9092,kafka-2:9092
      APPORTION_BROKERS=kafka:9092 apportion run
    """
    from apportion.stream.faust_app.run import run_worker

    run_worker(read_settings(ctx))
