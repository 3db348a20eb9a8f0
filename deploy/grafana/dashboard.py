"""The dashboard of workers, as code: `python deploy/grafana/dashboard.py > deploy/grafana/apportion.json`.

Decides what an operator looks at, in four rows: is it keeping up, what does it cost, what is dropped and why,
what is refused. Grafana imports the JSON; a test holds it to this file, and its metrics to those of a worker.
"""

import json
import sys
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_WIDTH, _HEIGHT, _COLUMNS = 8, 8, 3

_LEFT_OUT = (
    'sum by (reason) (rate(apportion_candidates_total{job=~"$job",outcome="omitted"}[$__rate_interval]))'
)

_Panel = tuple[str, str, tuple[tuple[str, str], ...]]
"""A title, a unit of Grafana's, and each line: its expression and its name."""


def _sum(metric: str, by: str = "") -> str:
    labels = f" by ({by})" if by else ""
    return f'sum{labels} (rate({metric}{{job=~"$job"}}[$__rate_interval]))'


def _now(function: str, metric: str, by: str = "") -> str:
    labels = f" by ({by})" if by else ""
    return f'{function}{labels} ({metric}{{job=~"$job"}})'


def _quantiles(metric: str) -> tuple[tuple[str, str], ...]:
    buckets = _sum(f"{metric}_bucket", "le")
    return tuple(
        (f"histogram_quantile({share}, {buckets})", f"p{share * 100:g}") for share in (0.5, 0.95, 0.99)
    )


def _mean(metric: str) -> str:
    return f"{_sum(metric + '_sum')} / {_sum(metric + '_count')}"


def _hits(metric: str) -> str:
    hits = f'sum (rate({metric}{{job=~"$job",result="hit"}}[$__rate_interval]))'
    return f"{hits} / {_sum(metric)}"


ROWS: dict[str, tuple[_Panel, ...]] = {
    "Is it keeping up?": (
        ("Lag", "short", ((_now("sum", "apportion_lag_events"), "events"),)),
        ("Lag by partition", "short", ((_now("sum", "apportion_lag_events", "partition"), "{{partition}}"),)),
        ("Events", "ops", ((_sum("apportion_events_total"), "events/s"),)),
        ("From recorded to durable", "s", _quantiles("apportion_end_to_end_seconds")),
        ("Composing a request", "s", _quantiles("apportion_compose_seconds")),
        ("Writing a batch", "s", _quantiles("apportion_write_seconds")),
        (
            "Workers",
            "short",
            (
                (_now("count", "apportion_build_info", "engine_version"), "running {{engine_version}}"),
                (_now("sum", "apportion_ready"), "ready"),
                (_now("sum", "apportion_live"), "live"),
            ),
        ),
        (
            "Brokers last heard",
            "s",
            ((_now("max", "apportion_brokers_heard_seconds", "instance"), "{{instance}}"),),
        ),
        (
            "Rebalances and recoveries in an hour",
            "short",
            (
                ('sum (increase(apportion_rebalances_total{job=~"$job"}[1h]))', "rebalances"),
                ('sum (increase(apportion_recoveries_total{job=~"$job"}[1h]))', "recoveries"),
                ('sum (increase(apportion_recovery_seconds_total{job=~"$job"}[1h]))', "seconds of recovery"),
            ),
        ),
        (
            "Behind in event time",
            "s",
            (
                (
                    f"time() - {_now('min', 'apportion_stream_time_seconds', 'partition')}",
                    "{{partition}}",
                ),
            ),
        ),
        ("Events of a batch", "short", _quantiles("apportion_batch_events")),
        (
            "Waiting for turns, and read again after a crash",
            "short",
            (
                (_now("sum", "apportion_waiting_events"), "events that wait"),
                (_now("max", "apportion_uncommitted_offsets", "partition"), "uncommitted of {{partition}}"),
            ),
        ),
        (
            "In flight",
            "short",
            ((_now("sum", "apportion_in_flight_batches"), "batches"),),
        ),
    ),
    "What does it cost?": (
        ("CPU", "percentunit", ((_sum("process_cpu_seconds_total", "instance"), "{{instance}}"),)),
        (
            "CPU an event",
            "s",
            ((f"{_sum('process_cpu_seconds_total')} / {_sum('apportion_events_total')}", "CPU"),),
        ),
        ("Memory", "bytes", ((_now("sum", "process_resident_memory_bytes", "instance"), "{{instance}}"),)),
        (
            "Sessions held",
            "short",
            ((_now("sum", "apportion_rows"), "sessions"),),
        ),
        (
            "Bytes held and in flight",
            "bytes",
            (
                (_now("sum", "apportion_row_bytes"), "sessions"),
                (_now("sum", "apportion_in_flight_bytes"), "in flight"),
                (_now("sum", "apportion_waiting_bytes"), "waiting for turns"),
                (_now("sum", "apportion_composition_cache_bytes"), "compositions"),
            ),
        ),
        ("Bytes written", "Bps", ((_sum("apportion_output_bytes_total"), "before compression"),)),
        (
            "Tokens",
            "ops",
            (
                (_sum("apportion_tokens_offered_total"), "offered"),
                (_sum("apportion_tokens_limit_total"), "allowed"),
                (_sum("apportion_tokens_used_total"), "used"),
            ),
        ),
        ("Parts of requests", "ops", ((_sum("apportion_part_tokens_used_total", "part"), "{{part}}"),)),
        ("Budget used, on average", "percentunit", ((_mean("apportion_budget_utilisation"), "used"),)),
        (
            "Remembered",
            "percentunit",
            (
                (_hits("apportion_composition_cache_total"), "compositions"),
                (_hits("apportion_count_memory_total"), "counts"),
            ),
        ),
    ),
    "What is dropped, and why?": (
        ("Answers by status", "ops", ((_sum("apportion_decisions_total", "status"), "{{status}}"),)),
        ("Answers by policy", "ops", ((_sum("apportion_decisions_total", "policy"), "{{policy}}"),)),
        ("Candidates left out", "ops", ((_LEFT_OUT, "{{reason}}"),)),
    ),
    "What is refused?": (
        ("Dead letters by code", "ops", ((_sum("apportion_dead_letters_total", "code"), "{{code}}"),)),
        (
            "Share of the last events, for the breaker",
            "percentunit",
            ((_now("max", "apportion_dead_letter_share", "instance"), "{{instance}}"),),
        ),
        (
            "Events that have ended workers",
            "short",
            ((_now("max", "apportion_event_failures", "partition"), "{{partition}}"),),
        ),
    ),
}


def dashboard() -> dict[str, Any]:
    """Return the dashboard as Grafana imports it."""
    panels: list[dict[str, Any]] = []
    top = 0
    for row, of_row in ROWS.items():
        panels.append(_placed({"type": "row", "title": row, "collapsed": False}, 0, top, 24, 1))
        top += 1
        for number, panel in enumerate(of_row):
            left = number % _COLUMNS * _WIDTH
            panels.append(_placed(_graph(*panel), left, top + number // _COLUMNS * _HEIGHT, _WIDTH, _HEIGHT))
        top += -(-len(of_row) // _COLUMNS) * _HEIGHT
    return {
        "title": "Apportion",
        "uid": "apportion",
        "tags": ["apportion"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "job",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": "label_values(apportion_build_info, job)",
                    "includeAll": True,
                    "allValue": ".+",
                    "multi": True,
                    "refresh": 2,
                },
            ]
        },
        "panels": [panel | {"id": number} for number, panel in enumerate(panels, 1)],
    }


def _placed(panel: dict[str, Any], left: int, top: int, width: int, height: int) -> dict[str, Any]:
    return panel | {"gridPos": {"x": left, "y": top, "w": width, "h": height}}


def _graph(title: str, unit: str, lines: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return {
        "type": "timeseries",
        "title": title,
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": name}
            for number, (expression, name) in enumerate(lines)
        ],
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(dashboard(), indent=2) + "\n")
