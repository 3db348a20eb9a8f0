"""The manifests of deploy/kubernetes: valid under Kubernetes' schemas, confined, and matching the settings.

Needs kubectl (`kubectl kustomize` renders them); with `TEST_REQUIRE_KUSTOMIZE=1` its absence is a failure.
No schemas of KEDA's and Prometheus's resources can be installed. Tests compare them with other files.
"""

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from support.prometheus_tools import ALERTS
from support.requiring import KUBECTL

from apportion.doors.gateway.serving import END_S
from apportion.settings import Settings, load_settings
from apportion.shell.stream.run import STOP_TIMEOUT_S

FOLDER = Path(__file__).parents[3] / "deploy" / "kubernetes"
OVERLAYS = ("staging", "production")
VERSIONS = ("1.30", kubernetes_validate.latest_version())
OTHERS = ("keda.sh", "monitoring.coreos.com")
SECRETS = Path("/run/secrets/apportion")

Resource = dict[str, Any]


@cache
def rendered(name: str) -> tuple[Resource, ...]:
    """The resources of an overlay."""
    return kustomize(FOLDER / "overlays" / name)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> tuple[Resource, ...]:
    """The resources that the gateway's component adds to the overlay `production`."""
    folder = tmp_path_factory.mktemp("with-gateway")
    base, component = (
        os.path.relpath(FOLDER / name, folder.resolve())
        for name in ("overlays/production", "components/gateway")
    )
    (folder / "kustomization.yaml").write_text(f"resources: [{base}]\ncomponents: [{component}]\n")
    return tuple(each for each in kustomize(folder) if each["metadata"]["name"] == "apportion-gateway")


def kustomize(folder: Path) -> tuple[Resource, ...]:
    made = subprocess.check_output([KUBECTL.require(), "kustomize", str(folder)], text=True)  # noqa: S603 - our own files
    return tuple(yaml.safe_load_all(made))


@pytest.fixture(params=OVERLAYS)
def overlay(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def production() -> tuple[Resource, ...]:
    return rendered("production")


def of_kind(resources: tuple[Resource, ...], kind: str) -> Resource:
    [one] = (each for each in resources if each["kind"] == kind)
    return one


def settings_of(name: str) -> Settings:
    return load_settings(config=FOLDER / "overlays" / name / "apportion.toml", environment={})


def pods(resources: tuple[Resource, ...]) -> Iterator[Resource]:
    """Yield the pod specs of all workloads."""
    for each in resources:
        if each["kind"] in ("Deployment", "StatefulSet", "Job"):
            yield each["spec"]["template"]["spec"]


def secret_of(pod: Resource) -> Resource:
    """Return the secret that a pod mounts."""
    [secret] = (volume["secret"] for volume in pod["volumes"] if volume["name"] == "secrets")
    return dict(secret)


def require_valid(resources: tuple[Resource, ...], version: str) -> None:
    own = [each for each in resources if each["apiVersion"].partition("/")[0] not in OTHERS]
    assert own
    for each in own:
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
def test_rendered_overlays_are_valid_for_kubernetes_schemas(overlay: str, version: str) -> None:
    require_valid(rendered(overlay), version)


def test_a_worker_is_known_to_its_group_by_its_pods_name(production: tuple[Resource, ...]) -> None:
    [worker] = of_kind(production, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    given = [(each["name"], each["valueFrom"]["fieldRef"]["fieldPath"]) for each in worker["env"]]
    assert given == [("APPORTION_STATIC_MEMBER", "metadata.name")]


def test_the_job_for_topics_logs_in_as_its_own_user(production: tuple[Resource, ...]) -> None:
    pod = of_kind(production, "Job")["spec"]["template"]["spec"]
    [job] = pod["containers"]
    [login] = job["env"]
    source = {"secretKeyRef": {"name": "apportion-topics", "key": "username"}}
    assert login == {"name": "APPORTION_SASL_USERNAME", "valueFrom": source}
    assert secret_of(pod)["secretName"] == "apportion-topics"
    worker = of_kind(production, "StatefulSet")["spec"]["template"]["spec"]
    assert secret_of(worker) == {"secretName": "apportion", "defaultMode": 0o440}


def test_without_a_login_the_job_that_makes_topics_needs_no_secret() -> None:
    pod = of_kind(rendered("staging"), "Job")["spec"]["template"]["spec"]
    [job] = pod["containers"]
    assert "env" not in job
    assert secret_of(pod)["optional"] is True


def test_the_script_of_acls_lets_the_jobs_user_create_topics_and_the_workers_not() -> None:
    given = {
        "WORKER": "User:apportion",
        "CREATOR": "User:apportion-topics",
        "BOOTSTRAP": "kafka:9092",
        "KAFKA_ACLS": "echo",
    }
    script = FOLDER.parent / "acls.sh"
    told = subprocess.check_output([script], env={**os.environ, **given}, text=True)  # noqa: S603 - our own file
    allowed = [line for line in told.splitlines() if "--operation Create" in line]
    assert allowed
    assert all("--allow-principal User:apportion-topics " in line for line in allowed)


def test_a_worker_that_makes_no_progress_is_started_again_within_a_minute(
    production: tuple[Resource, ...],
) -> None:
    [worker] = of_kind(production, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    paths = {name: worker[name]["httpGet"]["path"] for name in worker if name.endswith("Probe")}
    assert paths == {"livenessProbe": "/livez", "readinessProbe": "/readyz", "startupProbe": "/livez"}
    [served] = of_kind(production, "Service")["spec"]["ports"]
    [scraped] = of_kind(production, "ServiceMonitor")["spec"]["endpoints"]
    [let_in] = of_kind(production, "NetworkPolicy")["spec"]["ingress"]
    assert {served["name"], scraped["port"], worker["ports"][0]["name"]} == {"health"}
    settings = settings_of("production")
    assert (settings.health_host, settings.health_port) == ("0.0.0.0", worker["ports"][0]["containerPort"])  # noqa: S104 - in a pod
    assert let_in["ports"] == [{"protocol": "TCP", "port": "health"}]
    liveness = worker["livenessProbe"]
    assert liveness["periodSeconds"] * liveness["failureThreshold"] <= 60


def test_the_worker_accepts_the_settings_file(overlay: str) -> None:
    files = of_kind(rendered(overlay), "ConfigMap")["data"]
    assert files == {"apportion.toml": (FOLDER / "overlays" / overlay / "apportion.toml").read_text()}
    settings = settings_of(overlay)
    named = [
        getattr(settings, name) for name in ("fingerprint_secret_file", "sasl_password_file", "ssl_cafile")
    ]
    assert settings.fingerprint_secret_file is not None
    assert {path.parent for path in named if path is not None} == {SECRETS}


def test_sessions_that_are_over_go_after_a_day(overlay: str) -> None:
    assert settings_of(overlay).max_lateness_s == 24 * 60 * 60


def test_the_memory_alert_uses_the_limit_of_the_pod(overlay: str) -> None:
    [worker] = of_kind(rendered(overlay), "StatefulSet")["spec"]["template"]["spec"]["containers"]
    [group] = yaml.safe_load(ALERTS.read_text(encoding="utf-8"))["groups"]
    [expression] = [rule["expr"] for rule in group["rules"] if rule["alert"] == "ApportionMemory"]
    gibibytes = worker["resources"]["limits"]["memory"].removesuffix("Gi")
    assert f"> 0.8 * {gibibytes} * 1024 ^ 3" in expression


def test_production_is_encrypted_and_survives_a_broker() -> None:
    settings = settings_of("production")
    assert settings.security_protocol.has_tls
    assert (settings.copies, settings.copies_in_sync_min) == (3, 2)


@pytest.mark.parametrize("version", VERSIONS)
def test_resources_of_the_gateway_are_valid(gateway: tuple[Resource, ...], version: str) -> None:
    kinds = {each["kind"] for each in gateway}
    assert kinds == {"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceMonitor"}
    require_valid(gateway, version)


def test_a_gateway_serves_at_the_port_that_its_probes_service_and_policy_name(
    gateway: tuple[Resource, ...],
) -> None:
    pod = of_kind(gateway, "Deployment")["spec"]["template"]
    [container] = pod["spec"]["containers"]
    given = dict(argument.removeprefix("--").split("=") for argument in container["args"][1:])
    assert given == {
        "gateway-host": "0.0.0.0",  # noqa: S104 - in a pod
        "gateway-port": str(container["ports"][0]["containerPort"]),
        "gateway-tokens-file": str(SECRETS / "tokens.toml"),
    }
    assert container["ports"][0]["name"] == "http"
    probes = {name: container[name]["httpGet"] for name in container if name.endswith("Probe")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startupProbe": "/livez",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    assert {probe["port"] for probe in probes.values()} == {"http"}
    [served] = of_kind(gateway, "Service")["spec"]["ports"]
    [way_in] = of_kind(gateway, "NetworkPolicy")["spec"]["ingress"]
    [scraped] = of_kind(gateway, "ServiceMonitor")["spec"]["endpoints"]
    assert (served["targetPort"], scraped["port"]) == ("http", served["name"])
    assert way_in["ports"] == [{"protocol": "TCP", "port": "http"}]
    for selector in (
        of_kind(gateway, "Service")["spec"]["selector"],
        of_kind(gateway, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        of_kind(gateway, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(rendered("production"), "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= pod["metadata"]["labels"].items()


def test_the_workers_service_budget_and_pods_are_not_the_gateways(gateway: tuple[Resource, ...]) -> None:
    labels = of_kind(gateway, "Deployment")["spec"]["template"]["metadata"]["labels"]
    production = rendered("production")
    for selector in (
        of_kind(production, "Service")["spec"]["selector"],
        of_kind(production, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
    ):
        assert not selector.items() <= labels.items()


def test_a_gateway_has_its_own_secret_and_user(gateway: tuple[Resource, ...]) -> None:
    pod = of_kind(gateway, "Deployment")["spec"]["template"]["spec"]
    assert secret_of(pod)["secretName"] == "apportion-gateway"
    [login] = pod["containers"][0]["env"]
    source = {"secretKeyRef": {"name": "apportion-gateway", "key": "username", "optional": True}}
    assert login == {"name": "APPORTION_SASL_USERNAME", "valueFrom": source}


def test_a_gateway_has_the_time_to_answer_the_calls_in_flight(gateway: tuple[Resource, ...]) -> None:
    pod = of_kind(gateway, "Deployment")["spec"]["template"]["spec"]
    paused_s = int(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])
    assert pod["terminationGracePeriodSeconds"] >= paused_s + END_S + 10
    assert pod["shareProcessNamespace"] is True


@pytest.mark.parametrize("installation", [*OVERLAYS, "gateway"])
def test_workloads_are_confined_and_read_settings_and_secrets_as_files(
    installation: str, gateway: tuple[Resource, ...]
) -> None:
    for pod in pods(gateway if installation == "gateway" else rendered(installation)):
        assert pod["enableServiceLinks"] is pod["automountServiceAccountToken"] is False
        assert pod["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        [container] = pod["containers"]
        assert all("valueFrom" in each for each in container.get("env", [])), "no value stands there"
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"settings": "/etc/apportion", "secrets": str(SECRETS)}
        assert container["resources"]["limits"]["memory"]
        assert secret_of(pod)["defaultMode"] == 0o440


def test_a_worker_has_the_time_to_stop(overlay: str) -> None:
    pod = of_kind(rendered(overlay), "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] >= STOP_TIMEOUT_S + 10
    assert pod["shareProcessNamespace"] is True


def test_the_service_and_the_budget_are_the_workers_and_not_the_jobs(overlay: str) -> None:
    resources = rendered(overlay)
    labels = of_kind(resources, "StatefulSet")["spec"]["template"]["metadata"]["labels"]
    others = of_kind(resources, "Job")["spec"]["template"]["metadata"]["labels"]
    for selector in (
        of_kind(resources, "Service")["spec"]["selector"],
        of_kind(resources, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(resources, "StatefulSet")["spec"]["selector"]["matchLabels"],
    ):
        assert selector.items() <= labels.items()
        assert not selector.items() <= others.items()


def test_the_network_leads_to_the_name_service_and_the_brokers_alone(overlay: str) -> None:
    resources = rendered(overlay)
    policy = of_kind(resources, "NetworkPolicy")["spec"]
    names, brokers = policy["egress"]
    [to] = names["to"]
    assert to["podSelector"] == {
        "matchExpressions": [{"key": "k8s-app", "operator": "In", "values": ["kube-dns"]}]
    }
    let_in = {port["port"] for way in policy["ingress"] for port in way["ports"]}
    assert let_in == ({"health"} if overlay == "production" else set())
    ports = {port["port"] for port in brokers["ports"]}
    assert {int(address.rpartition(":")[2]) for address in settings_of(overlay).brokers} <= ports
    for kind in ("StatefulSet", "Job"):
        labels = of_kind(resources, kind)["spec"]["template"]["metadata"]["labels"]
        assert policy["podSelector"]["matchLabels"].items() <= labels.items()


def test_the_scaler_watches_this_groups_lag_and_knows_its_bounds() -> None:
    settings = settings_of("production")
    scaled = of_kind(rendered("production"), "ScaledObject")["spec"]
    [trigger] = scaled["triggers"]
    told = trigger["metadata"]
    assert all(isinstance(value, str) for value in told.values())
    assert told["bootstrapServers"] == ",".join(settings.brokers)
    assert (told["consumerGroup"], told["topic"]) == (settings.app_id, settings.requests_topic)
    assert told["sasl"] == str(settings.sasl_mechanism).lower().replace("-", "_").replace("sha_", "sha")
    assert scaled["maxReplicaCount"] == settings.partitions
    rebalance_s = settings.rebalance_timeout_s + settings.recovery_timeout_s
    behavior = scaled["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
    assert behavior["scaleDown"]["stabilizationWindowSeconds"] > rebalance_s
    assert scaled["cooldownPeriod"] > rebalance_s
    for direction in ("scaleUp", "scaleDown"):
        assert all(policy["periodSeconds"] > rebalance_s for policy in behavior[direction]["policies"])
    assert "replicas" not in of_kind(rendered("production"), "StatefulSet")["spec"]
