"""Prometheus's own programs, and the queries of the dashboard.

Without the programs tests are skipped; with `TEST_REQUIRE_PROMTOOL=1` they fail.
"""

import json
import shutil
from pathlib import Path

from support.requiring import PROMETHEUS

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/prometheus/alerts.yaml"
DASHBOARD = ROOT / "deploy/grafana/apportion.json"


def program(name: str) -> str:
    """Return where a program of Prometheus is; without it the test is skipped, or fails where it must run."""
    PROMETHEUS.require()
    found = shutil.which(name)
    assert found is not None, name
    return found


def expressions() -> list[str]:
    """Return every expression of the dashboard, as Prometheus is asked for it."""
    panels = json.loads(DASHBOARD.read_text(encoding="utf-8"))["panels"]
    asked = [target["expr"] for panel in panels for target in panel.get("targets", [])]
    return [expression.replace("$__rate_interval", "5m").replace("$job", ".+") for expression in asked]
