"""The profile `cluster` of docker-compose.yml: consistent files, and an unchanged default `up`."""

import subprocess
from typing import Any

import pytest
import yaml
from support.prometheus_tools import ROOT, program

from apportion.settings import Settings

DEFAULTS = {"gateway", "kafka", "settings", "topics", "worker"}
BROKERS = ("kafka-1", "kafka-2", "kafka-3")
PROMETHEUS = "deploy/prometheus/prometheus.yaml"
PROVISIONING = "deploy/grafana/provisioning"


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = read("docker-compose.yml")["services"]
    return found


def mounts(service: dict[str, Any]) -> dict[str, str]:
    """Return which file or folder of ours is where in a container."""
    pairs = (each.removesuffix(":ro").split(":") for each in service["volumes"])
    return {place: file for file, place in pairs}


def test_without_the_profile_there_are_one_broker_one_worker_and_one_gateway(
    services: dict[str, Any],
) -> None:
    assert {name for name, service in services.items() if "profiles" not in service} == DEFAULTS
    assert all(service.get("profiles", ["cluster"]) == ["cluster"] for service in services.values())


def test_three_brokers_keep_three_replicas_with_two_in_sync(services: dict[str, Any]) -> None:
    for number, name in enumerate(BROKERS, 1):
        environment = services[name]["environment"]
        assert environment["KAFKA_NODE_ID"] == number
        assert f"NETWORK://{name}:9092" in environment["KAFKA_ADVERTISED_LISTENERS"]
        assert environment["KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR"] == 3
        assert environment["KAFKA_MIN_INSYNC_REPLICAS"] == 2
    workers = services["workers"]
    assert workers["environment"]["APPORTION_BROKERS"] == ",".join(f"{name}:9092" for name in BROKERS)
    assert workers["environment"]["APPORTION_PRODUCTION"] == "true"
    assert workers["deploy"]["replicas"] == 2


def test_prometheus_finds_the_workers_at_the_port_of_their_health(services: dict[str, Any]) -> None:
    [job] = read(PROMETHEUS)["scrape_configs"]
    [found] = job["dns_sd_configs"]
    assert set(found["names"]) <= set(services)
    assert found["port"] == Settings().health_port
    assert services["workers"]["environment"]["APPORTION_HEALTH_HOST"] == "0.0.0.0"  # noqa: S104 - in its network


def test_prometheus_accepts_its_configuration_with_the_alerts(services: dict[str, Any]) -> None:
    placed = mounts(services["prometheus"])
    assert placed["/etc/prometheus/prometheus.yaml"] == f"./{PROMETHEUS}"
    assert placed["/etc/prometheus/alerts.yaml"] == "./deploy/prometheus/alerts.yaml"
    command = [program("promtool"), "check", "config", str(ROOT / PROMETHEUS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - as found
    assert done.returncode == 0, done.stdout + done.stderr
    assert "rules found" in done.stdout


def test_grafana_has_prometheus_and_the_dashboard(services: dict[str, Any]) -> None:
    placed = mounts(services["grafana"])
    [source] = read(f"{PROVISIONING}/datasources/prometheus.yaml")["datasources"]
    [provider] = read(f"{PROVISIONING}/dashboards/apportion.yaml")["providers"]
    assert placed["/etc/grafana/provisioning"] == f"./{PROVISIONING}"
    assert source["url"] == "http://prometheus:9090"
    assert source["isDefault"]
    dashboard = f"{provider['options']['path']}/apportion.json"
    assert placed[dashboard] == "./deploy/grafana/apportion.json"
    assert services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == dashboard


def test_mounted_files_exist(services: dict[str, Any]) -> None:
    for name in ("prometheus", "grafana"):
        for file in mounts(services[name]).values():
            assert (ROOT / file).exists()


def test_the_check_of_the_cluster_waits_for_all_its_partitions_and_workers() -> None:
    script = (ROOT / "deploy/check_cluster.py").read_text(encoding="utf-8")
    assert f"count(apportion_lag_events) == {Settings().partitions}" in script
    assert "sum(apportion_ready) == 2" in script
