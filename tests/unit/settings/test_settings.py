import os
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from apportion.core.bounds import Bounds
from apportion.core.results import DeadLetterValue, Detail
from apportion.settings import NAMES, Settings, SettingsError, help_texts, load_settings
from apportion.settings.value_types import Partitioner

HUSH = "hush, this is a secret"


def write(folder: Path, text: str) -> Path:
    file = folder / "apportion.toml"
    file.write_text(text)
    return file


def problems_of(variables: dict[str, str], config: Path | None = None) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        load_settings(config=config, environment=variables)
    return caught.value.problems


def test_a_flag_wins_over_the_environment_that_over_the_file_and_that_over_the_default(
    tmp_path: Path,
) -> None:
    file = write(tmp_path, 'app_id = "file"\npartitions = 5\ndefault_policy = "file"')
    variables = {"APPORTION_APP_ID": "variable", "APPORTION_PARTITIONS": "6"}
    settings = load_settings({"app_id": "flag"}, file, variables)
    assert (settings.app_id, settings.origin("app_id")) == ("flag", "--app-id")
    assert (settings.partitions, settings.origin("partitions")) == (6, "APPORTION_PARTITIONS")
    assert (settings.default_policy, settings.origin("default_policy")) == ("file", str(file))
    assert (settings.retention_s, settings.origin("retention_s")) == (604_800, "default")


def test_the_file_is_apportion_toml_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "partitions = 7")
    monkeypatch.chdir(tmp_path)
    assert load_settings(environment={}).partitions == 7


def test_no_file_is_needed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings(environment={}) == Settings()


def test_a_variable_names_another_file_and_a_flag_wins_over_it(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "a.toml", tmp_path / "b.toml"
    ours.write_text("partitions = 1")
    theirs.write_text("partitions = 2")
    variables = {"APPORTION_CONFIG": str(theirs)}
    assert load_settings(environment=variables).partitions == 2
    assert load_settings(config=ours, environment=variables).partitions == 1


def test_an_explicitly_named_file_must_exist(tmp_path: Path) -> None:
    missing = tmp_path / "none.toml"
    [problem] = problems_of({"APPORTION_CONFIG": str(missing)})
    assert problem == f"{missing}: cannot be read: No such file or directory"


def test_an_unknown_key_of_the_file_is_an_error_that_names_the_nearest(tmp_path: Path) -> None:
    [problem] = problems_of({}, write(tmp_path, "partition = 5"))
    assert problem.startswith(
        f"partition ({tmp_path}/apportion.toml): no such setting; did you mean partitions"
    )


def service_links(service: str) -> dict[str, str]:
    """Return the variables that Kubernetes sets in every pod for a service."""
    port = f"{service}_PORT_9092_TCP"
    return {
        f"{service}_SERVICE_HOST": "10.0.0.11",
        f"{service}_SERVICE_PORT": "9092",
        f"{service}_SERVICE_PORT_METRICS_HTTP": "9100",
        f"{service}_PORT": "tcp://10.0.0.11:9092",
        port: "tcp://10.0.0.11:9092",
        f"{port}_PROTO": "tcp",
        f"{port}_PORT": "9092",
        f"{port}_ADDR": "10.0.0.11",
        f"{service}_PORT_53_UDP": "udp://10.0.0.11:53",
    }


@pytest.mark.parametrize("service", ["APPORTION", "APPORTION_WORKER", "APPORTION_0"])
def test_kubernetes_service_variables_are_ignored(service: str) -> None:
    variables = service_links(service) | {"APPORTION_APP_ID": "ours"}
    assert load_settings(environment=variables).model_dump() == Settings(app_id="ours").model_dump()
    assert load_settings(environment={"APPORTION_PORT": "9092"}).model_dump() == Settings().model_dump()


@pytest.mark.parametrize(
    "variable",
    [
        *("APPORTION_PORTS", "APPORTION_SERVICE", "APPORTION_SERVICE_NAME", "APPORTION_SERVICEHOST"),
        *(
            "APPORTION_PORT_9092",
            "APPORTION_PORT_X_TCP",
            "APPORTION_PORT_9092_TCP_X",
            "APPORTION_METRICS_PORT",
        ),
    ],
)
def test_variables_that_only_look_like_kubernetes_are_errors(variable: str) -> None:
    [problem] = problems_of({variable: "9092"})
    assert problem.startswith(f"{variable.removeprefix('APPORTION_').lower()} ({variable}): no such setting")


def test_an_unknown_variable_is_an_error_that_names_the_nearest_and_no_value() -> None:
    [problem] = problems_of({"APPORTION_FINGERPRINT_SECRETS": "hush"})
    assert problem.startswith(
        "fingerprint_secrets (APPORTION_FINGERPRINT_SECRETS): no such setting; did you mean"
    )
    assert "fingerprint_secret " in problem
    assert "hush" not in problem


def test_variables_of_other_programs_are_ignored() -> None:
    assert load_settings(environment={"PARTITIONS": "9", "_APPORTION_COMPLETE": "x"}) == Settings()


def test_all_problems_of_all_sources_are_reported_at_once(tmp_path: Path) -> None:
    text = 'colour = "red"\npartitions = 0'
    variables = {
        "APPORTION_BROKERS": "a:1,b,c",
        "APPORTION_SHAPE": "round",
        "APPORTION_PARTITIONER": "any one",
    }
    keys = [problem.split(" ")[0] for problem in problems_of(variables, write(tmp_path, text))]
    assert keys == ["colour", "shape", "brokers", "brokers", "partitions", "partitioner"]


def test_variables_are_parsed() -> None:
    settings = load_settings(
        environment={
            "APPORTION_BROKERS": "kafka-1:9092, [::1]:9093",
            "APPORTION_PARTITIONS": "12",
            "APPORTION_DEAD_LETTER_SHARE_MAX": "0.25",
            "APPORTION_PARTITIONER": "crc32",
            "APPORTION_POLICIES": "/etc/policies",
        }
    )
    assert settings.brokers == ("kafka-1:9092", "[::1]:9093")
    assert settings.partitions == 12
    assert settings.dead_letter_share_max == 0.25
    assert settings.partitioner is Partitioner.CRC32
    assert settings.policies == Path("/etc/policies")


def test_an_empty_variable_counts_as_unset() -> None:
    assert load_settings(environment={"APPORTION_POLICIES": "", "APPORTION_CONFIG": ""}) == Settings()


@pytest.mark.parametrize("line", ['partitions = "4"', "partitions = true", "partitions = 4.0", "app_id = 4"])
def test_values_of_the_file_keep_their_types(line: str, tmp_path: Path) -> None:
    [problem] = problems_of({}, write(tmp_path, line))
    assert problem.startswith(line.split(maxsplit=1)[0])


def test_brokers_may_be_a_list_in_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'brokers = ["a:1", "b:2"]')
    assert load_settings(config=file, environment={}).brokers == ("a:1", "b:2")


@pytest.mark.parametrize(
    "brokers", ["localhost", "localhost:", ":9092", "a:0", "a:65536", "http://a:1", "a:1,"]
)
def test_a_broker_is_a_host_and_a_port(brokers: str) -> None:
    [problem] = problems_of({"APPORTION_BROKERS": brokers})
    assert "expected host:port" in problem


def test_there_is_at_least_one_broker(tmp_path: Path) -> None:
    [problem] = problems_of({}, write(tmp_path, "brokers = []"))
    assert "at least one" in problem


@pytest.mark.parametrize("name", [".", "..", "a b", "ä", "t" * 250, "line\n"])
def test_a_topic_has_a_name_that_kafka_takes(name: str) -> None:
    [problem] = problems_of({"APPORTION_REQUESTS_TOPIC": name})
    assert problem.startswith("requests_topic (APPORTION_REQUESTS_TOPIC): expected")


def test_no_two_topics_share_a_name() -> None:
    [problem] = problems_of({"APPORTION_REQUESTS_TOPIC": "context-dead-letters"})
    assert problem.startswith("dead_letters_topic (default): is the name of requests_topic already")


def test_a_path_in_the_file_is_relative_to_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, 'policies = "policies"')
    settings = load_settings(config=file, environment={"APPORTION_FINGERPRINT_SECRET_FILE": "secret"})
    assert settings.policies == tmp_path / "policies"
    assert settings.fingerprint_secret_file == Path("secret")


def test_an_absolute_path_in_the_file_is_taken_as_it_is(tmp_path: Path) -> None:
    file = write(tmp_path, 'policies = "/etc/apportion/policies"')
    assert load_settings(config=file, environment={}).policies == Path("/etc/apportion/policies")


def test_invalid_toml_is_reported_by_line_and_not_by_text(tmp_path: Path) -> None:
    [problem] = problems_of({}, write(tmp_path, 'partitions = 4\nfingerprint_secret = "hush'))
    assert problem.startswith(f"{tmp_path}/apportion.toml: is not valid TOML (at ")
    assert "hush" not in problem


def test_a_file_in_another_encoding_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "latin.toml"
    file.write_bytes("app_id = 'ä'".encode("latin-1"))
    [problem] = problems_of({"APPORTION_CONFIG": str(file)})
    assert problem == f"{file}: is not UTF-8"


def test_a_secret_is_masked_in_every_view_of_the_settings() -> None:
    settings = load_settings(environment={"APPORTION_FINGERPRINT_SECRET": HUSH})
    assert settings.fingerprint_secret is not None
    assert settings.fingerprint_secret.get_secret_value() == HUSH
    assert "hush" not in repr(settings) + str(settings) + settings.model_dump_json()


def test_a_secret_is_in_no_error(tmp_path: Path) -> None:
    told = problems_of({}, write(tmp_path, "fingerprint_secret = 31337"))
    told += problems_of({"APPORTION_FINGERPRINT_SECRET": HUSH, "APPORTION_FINGERPRINT_SECRET_FILE": "x"})
    assert len(told) == 2
    assert not any(secret in problem for problem in told for secret in ("31337", "hush"))


def test_a_secret_and_a_file_of_secrets_exclude_each_other(tmp_path: Path) -> None:
    file = write(tmp_path, 'fingerprint_secret_file = "secret"')
    [problem] = problems_of({"APPORTION_FINGERPRINT_SECRET": HUSH}, file)
    assert problem == (
        "fingerprint_secret (APPORTION_FINGERPRINT_SECRET): "
        "is set together with fingerprint_secret_file: set one of them"
    )


def test_every_setting_has_a_help_text() -> None:
    assert [name for name in NAMES if not help_texts().get(name)] == []


def test_the_bounds_are_the_cores_until_they_are_set() -> None:
    assert Settings().bounds == Bounds()
    assert Settings(tags_max=3).bounds == Bounds(tags_max=3)


def test_settings_do_not_change() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Settings().partitions = 5


def test_importing_and_building_settings_reads_neither_environment_nor_file(tmp_path: Path) -> None:
    write(tmp_path, "this is no TOML")
    code = "from apportion.settings import Settings; print(Settings().partitions)"
    root = Path(__file__).parents[3] / "worker"
    variables = os.environ | {"APPORTION_PARTITIONS": "9", "PARTITIONS": "9", "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", code]
    run = subprocess.run(  # noqa: S603 - our own interpreter and code
        command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=True
    )
    assert run.stdout == "24\n"


def test_a_closed_set_is_text_in_a_file_too(tmp_path: Path) -> None:
    file = write(tmp_path, 'decision_detail = "summary"\ndead_letter_value = "digest"\npartitioner = "crc32"')
    settings = load_settings(config=file, environment={})
    assert (settings.decision_detail, settings.dead_letter_value, settings.partitioner) == (
        Detail.SUMMARY,
        DeadLetterValue.DIGEST,
        Partitioner.CRC32,
    )


def test_reply_headers_are_split_at_commas_and_are_none_that_answers_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("APPORTION_REPLY_HEADERS", "kafka_correlationId, x-id")
    assert load_settings().reply_headers == ("kafka_correlationId", "x-id")
    for name in ("Content-Type", "ce_id", "traceparent", "a b"):
        monkeypatch.setenv("APPORTION_REPLY_HEADERS", name)
        with pytest.raises(SettingsError, match="reply_headers"):
            load_settings()
