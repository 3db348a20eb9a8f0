"""Settings of a cluster that must fit together, and the messages about conflicts."""

from pathlib import Path
from typing import Any

import pytest

from apportion.settings import Settings, SettingsError, load_settings
from apportion.settings.value_types import SaslMechanism, SecurityProtocol

PLAIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "ours",
    "sasl_password": "hush",
}
REGISTRY = {
    "schema_registry": "https://registry:8081",
    "schema_registry_username": "ours",
    "schema_registry_password": "hush",
}
TOKEN = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER", "sasl_token_command": "get-token"}


def without(given: dict[str, str], *names: str) -> dict[str, str]:
    return {name: value for name, value in given.items() if name not in names}


def problems_of(given: dict[str, str]) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load_settings(environment={f"APPORTION_{name.upper()}": value for name, value in given.items()})
    assert "hush" not in str(caught.value)
    return list(caught.value.problems)


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"security_protocol": "SSL"},
        {"security_protocol": "SSL", "ssl_cafile": "ca", "ssl_certfile": "c", "ssl_keyfile": "k"},
        {"security_protocol": "SSL", "ssl_certfile": "c", "ssl_key_password_file": "p"},
        PLAIN,
        PLAIN | {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"},
        without(PLAIN, "sasl_password") | {"sasl_mechanism": "SCRAM-SHA-512", "sasl_password_file": "p"},
        TOKEN,
        {"max_lateness_s": "7200"},
    ],
)
def test_consistent_settings_are_accepted(given: dict[str, str]) -> None:
    settings = load_settings(
        environment={f"APPORTION_{name.upper()}": value for name, value in given.items()}
    )
    assert settings.security_protocol == given.get("security_protocol", SecurityProtocol.PLAINTEXT)
    assert settings.sasl_mechanism == (given.get("sasl_mechanism") and SaslMechanism(given["sasl_mechanism"]))


@pytest.mark.parametrize(
    ("given", "setting", "what_to_do"),
    [
        ({"ssl_cafile": "ca"}, "ssl_cafile", "set security_protocol to SASL_SSL or SSL"),
        (PLAIN | {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": "ca"}, "ssl_cafile", "is for TLS"),
        ({"security_protocol": "SSL", "ssl_keyfile": "k"}, "ssl_keyfile", "set ssl_certfile, too"),
        (
            {"security_protocol": "SSL", "ssl_key_password_file": "p"},
            "ssl_key_password_file",
            "set ssl_certfile, too",
        ),
        ({"sasl_password": "hush"}, "sasl_password", "set security_protocol to SASL_SSL"),
        ({"security_protocol": "SSL", "sasl_username": "u"}, "sasl_username", "set security_protocol"),
        (without(PLAIN, "sasl_mechanism"), "sasl_mechanism", "set it to one of PLAIN, SCRAM-SHA-256"),
        (without(PLAIN, "sasl_username"), "sasl_username", "is needed by PLAIN"),
        (
            without(PLAIN, "sasl_password"),
            "sasl_password_file",
            "set it, or the variable APPORTION_SASL_PASSWORD",
        ),
        (PLAIN | {"sasl_password_file": "p"}, "sasl_password", "is set together with sasl_password_file"),
        (PLAIN | {"sasl_token_command": "c"}, "sasl_token_command", "is not used by PLAIN"),
        (without(TOKEN, "sasl_token_command"), "sasl_token_command", "set a command that prints a token"),
        ({"schema_registry_username": "u"}, "schema_registry_username", "set schema_registry, or"),
        (
            REGISTRY | {"schema_registry": "http://r", "schema_registry_cafile": "f"},
            "schema_registry_cafile",
            "use https in schema_registry",
        ),
        (
            without(REGISTRY, "schema_registry_username"),
            "schema_registry_password",
            "set schema_registry_username, too",
        ),
        (
            without(REGISTRY, "schema_registry_password"),
            "schema_registry_username",
            "set schema_registry_password_file, too",
        ),
        (
            REGISTRY | {"schema_registry_password_file": "p"},
            "schema_registry_password",
            "is set together with schema_registry_password_file",
        ),
        (REGISTRY | {"schema_registry_username": "a:b"}, "schema_registry_username", "has a colon"),
        ({"schema_registry": "http://user:pw@registry"}, "schema_registry", "expected a URL"),
        ({"schema_registry": "registry:8081"}, "schema_registry", "as in https://registry:8081"),
        ({"delivery_timeout_s": "5"}, "delivery_timeout_s", "one attempt (request_timeout_s): raise it"),
        ({"session_timeout_s": "15"}, "session_timeout_s", "shorter than delivery_timeout_s: raise it"),
        ({"max_lateness_s": "7200", "tenant_events_per_s": "1"}, "max_lateness_s", "limits of tenants"),
        ({"max_lateness_s": "7200", "tenant_batch_share": "0.5"}, "max_lateness_s", "Sessions that are over"),
        ({"max_lateness_s": "1"}, "max_lateness_s", "Set 0, or 7200 or more"),
        ({"max_lateness_s": "7199"}, "max_lateness_s", "clock may be an hour ahead"),
        ({"rebalance_timeout_s": "30"}, "rebalance_timeout_s", "shorter than twice delivery_timeout_s"),
        ({"production": "true", "replication_factor": "2"}, "replication_factor", "leave one of them out"),
        (TOKEN | {"sasl_password": "hush"}, "sasl_password", "is not used by OAUTHBEARER"),
    ],
)
def test_conflicting_settings_are_reported_by_name_with_a_remedy(
    given: dict[str, str], setting: str, what_to_do: str
) -> None:
    [problem] = problems_of(given)
    assert problem.startswith(f"{setting} (")
    assert what_to_do in problem


def test_all_conflicting_settings_are_reported_at_once() -> None:
    given: dict[str, Any] = {"ssl_cafile": "ca", "sasl_username": "u", "sasl_password": "hush"}
    assert [one.split(" ")[0] for one in problems_of(given)] == list(given)


def test_the_production_switch_is_a_flag_a_variable_and_a_key(tmp_path: Path) -> None:
    (tmp_path / "on.toml").write_text("production = true")
    assert load_settings({"production": True}, environment={}).copies == 3
    assert load_settings(environment={"APPORTION_PRODUCTION": "true"}).copies == 3
    assert load_settings(config=tmp_path / "on.toml", environment={}).copies == 3
    assert load_settings({"production": False}, tmp_path / "on.toml", {}).copies == 1


@pytest.mark.parametrize(
    ("given", "copies", "in_sync"),
    [
        ({}, 1, 1),
        ({"production": True}, 3, 2),
        ({"production": True, "replication_factor": 5}, 5, 4),
        ({"replication_factor": 2}, 2, 1),
    ],
)
def test_one_copy_may_be_away_where_there_are_more(given: dict[str, Any], copies: int, in_sync: int) -> None:
    settings = Settings(**given)
    assert (settings.copies, settings.copies_in_sync_min) == (copies, in_sync)


def test_a_prefix_is_added_to_every_topic_once() -> None:
    settings = Settings(topic_prefix="staging.", composed_topic="staging.answers")
    names = [name for name in type(settings).model_fields if name.endswith("_topic")]
    assert {name: getattr(settings, name) for name in names} == {
        "requests_topic": "staging.context-requests",
        "policies_topic": "staging.context-policies",
        "composed_topic": "staging.answers",
        "decisions_topic": "staging.context-decisions",
        "dead_letters_topic": "staging.context-dead-letters",
        "usage_topic": "staging.context-usage",
    }
    assert Settings(**settings.model_dump()).model_dump() == settings.model_dump()


def test_prefixed_names_that_are_too_long_or_equal_are_refused() -> None:
    assert problems_of({"topic_prefix": "p" * 200, "requests_topic": "r" * 50})[0].startswith(
        "requests_topic"
    )
    [problem] = problems_of({"topic_prefix": "p.", "policies_topic": "p.context-requests"})
    assert "is the name of requests_topic already" in problem
