"""The dashboard, the alerts and the page of operations speak of the metrics that there are."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.prometheus_tools import ALERTS, DASHBOARD, ROOT, expressions, program

from apportion.doors.gateway.numbers import GatewayNumbers
from apportion.shell.operations.metrics import METRICS, MetricKind

PAGE = (ROOT / "docs/operations/watch.md").read_text(encoding="utf-8")
OF_PROMETHEUS = {
    "up",
    "process_cpu_seconds_total",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
}
"""Metrics that Prometheus and its client have for any process."""

OF_CALIBRATE = {"apportion_provider_requests", "apportion_provider_under_requests"}
"""Gauges of `apportion calibrate --metrics`, which a test of the command checks."""


def rules() -> list[dict[str, Any]]:
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    found: list[dict[str, Any]] = group["rules"]
    return found


def scraped_names() -> set[str]:
    names = OF_PROMETHEUS | OF_CALIBRATE
    for metric in METRICS:
        parts = ("_bucket", "_sum", "_count") if metric.kind is MetricKind.HISTOGRAM else ("",)
        names |= {metric.name + part for part in parts}
    families = GatewayNumbers().registry.collect()
    return names | {f"{family.name}_total" for family in families if family.type == "counter"}


def promtool(*arguments: str | Path) -> None:
    command = [program("promtool"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as found
    assert done.returncode == 0, done.stdout + done.stderr


def table() -> str:
    """Return all metrics as a table in Markdown."""
    rows = ["| metric | kind | labels | |", "|---|---|---|---|"]
    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {metric.kind} | {labels} | {metric.help} |")
    return "\n".join(rows) + "\n"


def test_the_table_of_metrics_is_the_one_of_the_module() -> None:
    assert table() in PAGE, f"docs/operations/watch.md lacks the table:\n{table()}"


@pytest.mark.parametrize("expression", [*[rule["expr"] for rule in rules()], *expressions()])
def test_alerts_and_dashboard_ask_for_metrics_that_there_are(expression: str) -> None:
    asked = set(re.findall(r"\b(?:apportion|process)_\w+|\bup\b", expression))
    assert asked
    assert asked <= scraped_names()


def test_the_dashboard_is_generated_by_its_script() -> None:
    script = DASHBOARD.with_name("dashboard.py")
    made = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert DASHBOARD.read_text(encoding="utf-8") == made.stdout


def test_each_alert_has_its_entry_in_the_page() -> None:
    for rule in rules():
        assert f"\n#### {rule['alert']}\n" in PAGE
        assert rule["annotations"]["runbook"] == f"docs/operations/watch.md#{rule['alert'].lower()}"
    assert set(re.findall(r"^#### (\w+)$", PAGE, re.MULTILINE)) == {rule["alert"] for rule in rules()}


def test_each_alert_is_tested_with_healthy_and_failing_metrics() -> None:
    tests = ALERTS.with_name("alerts.test.yaml").read_text(encoding="utf-8")
    for rule in rules():
        assert f"alertname: {rule['alert']}}}" in tests
        assert f'{{alertname="{rule["alert"]}"}}' in tests


def test_prometheus_takes_the_alerts_and_they_go_off_where_they_should() -> None:
    promtool("check", "rules", ALERTS)
    promtool("test", "rules", ALERTS.with_name("alerts.test.yaml"))


def test_prometheus_takes_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    recorded = [{"record": f"panel:{number}", "expr": each} for number, each in enumerate(expressions())]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": recorded}]}), encoding="utf-8")
    promtool("check", "rules", file)
