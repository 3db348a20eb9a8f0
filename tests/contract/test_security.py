"""TLS and logins, against an Apache Kafka with one listener that requires both."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.commands import process
from support.containers import container, free_port
from support.requiring import DOCKER
from support.running import own_settings, request, staged, variables_of, worker_running

from apportion.settings import Settings
from apportion.shell.kafka.topics import TopicStatus, check_topics

PASSWORD = "a password of a test"  # noqa: S105 - it protects nothing
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker, and a folder with what its clients need."""

    bootstrap_servers: str
    folder: Path

    def settings(self, mechanism: str, **changes: Any) -> Settings:
        given: dict[str, Any] = {
            "security_protocol": "SASL_SSL",
            "ssl_cafile": self.folder / "cert.pem",
            "sasl_mechanism": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            given["sasl_token_command"] = f"{sys.executable} {self.folder / 'token.py'}"
        else:
            given |= {"sasl_username": "ours", "sasl_password_file": self.folder / "password"}
        return own_settings(self.bootstrap_servers, **given | changes)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    DOCKER.require()
    folder, port = tmp_path_factory.mktemp("secured"), free_port()
    made = "req -x509 -newkey rsa:2048 -nodes -subj /CN=test -addext subjectAltName=IP:127.0.0.1"
    openssl = ["openssl", *made.split(), "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(openssl, cwd=folder, check=True, capture_output=True)  # noqa: S603 - a test's own
    (folder / "broker.pem").write_text((folder / "key.pem").read_text() + (folder / "cert.pem").read_text())
    (folder / "password").write_text(PASSWORD)
    (folder / "wrong").write_text("another password")
    (folder / "token.py").write_text(TOKEN_PROGRAM)
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    scram = {
        f"KAFKA_LISTENER_NAME_HOST_SCRAM___SHA___{bits}_SASL_JAAS_CONFIG": (
            f"{MODULES}.scram.ScramLoginModule required;"
        )
        for bits in (256, 512)
    }
    broker = container(
        port,
        security_protocol="SASL_SSL",
        KAFKA_SSL_KEYSTORE_TYPE="PEM",
        KAFKA_SSL_KEYSTORE_LOCATION="/pem/broker.pem",
        KAFKA_SASL_ENABLED_MECHANISMS=",".join(MECHANISMS),
        KAFKA_LISTENER_NAME_HOST_PLAIN_SASL_JAAS_CONFIG=(
            f'{MODULES}.plain.PlainLoginModule required user_ours="{PASSWORD}";'
        ),
        KAFKA_LISTENER_NAME_HOST_OAUTHBEARER_SASL_JAAS_CONFIG=(
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        **scram,
    ).with_volume_mapping(folder, "/pem")
    with broker:
        tool = ["/opt/kafka/bin/kafka-configs.sh", "--bootstrap-server", "localhost:19092", "--alter"]
        for bits in (256, 512):  # Kafka takes one a call
            added = f"SCRAM-SHA-{bits}=[password={PASSWORD}]"
            user = ["--entity-type", "users", "--entity-name", "ours", "--add-config", added]
            done = broker.exec([*tool, *user])
            assert done.exit_code == 0, done.output
        yield Secured(f"127.0.0.1:{port}", folder)


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


TOKEN_PROGRAM = f"""
import base64, json, time
claims = json.dumps({{"sub": "ours", "iat": time.time() - 1, "exp": time.time() + 600}}).encode()
print("{encoded({"alg": "none"})}." + base64.urlsafe_b64encode(claims).rstrip(b"=").decode() + ".")
"""
"""Print an unsigned token, accepted by a broker that is configured without an authority."""


@pytest.mark.asyncio
@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_worker_answers_over_tls_after_its_login(secured: Secured, mechanism: str) -> None:
    settings = secured.settings(mechanism, partitions=2)
    async with staged(settings) as stage, worker_running(settings) as worker:
        await stage.send(request("1"), request("2", "other"))
        await stage.outputs.wait_for(lambda outputs: outputs.answered(["1", "2"]))
        assert await worker.stop() == 0
        assert PASSWORD not in worker.log
    assert {report.status for report in await check_topics(settings)} == {TopicStatus.EXISTS}


@pytest.mark.parametrize(
    ("mechanism", "changes", "told"),
    [
        ("PLAIN", {"sasl_password_file": "wrong"}, r"does not let us in by PLAIN; see sasl_username"),
        ("SCRAM-SHA-512", {"sasl_password_file": "wrong"}, r"does not let us in by SCRAM-SHA-512"),
        ("PLAIN", {"ssl_cafile": None}, r"a certificate that does not hold .*; set ssl_cafile"),
        ("OAUTHBEARER", {"sasl_token_command": "false"}, r"sasl_token_command ended with exit code 1"),
        (
            "PLAIN",
            {"security_protocol": "SASL_PLAINTEXT", "ssl_cafile": None},
            r"hangs up; .*security_protocol",
        ),
    ],
)
def test_a_refused_login_is_explained_with_the_setting(
    secured: Secured, mechanism: str, changes: dict[str, Any], told: str
) -> None:
    files = {
        name: value and secured.folder / value for name, value in changes.items() if name.endswith("file")
    }
    settings = secured.settings(mechanism, **changes | files)
    ended = process("topics", "create", stdin=b"", **variables_of(settings))
    assert ended.exit_code == 1
    assert re.search(rf"^apportion: broker_refused: {secured.bootstrap_servers} .*{told}", ended.err)


@pytest.mark.parametrize(
    ("protocol", "login"),
    [("SSL", {}), ("SASL_PLAINTEXT", {"sasl_mechanism": "PLAIN", "sasl_username": "ours"})],
)
def test_a_listener_without_tls_or_login_is_named(
    kafka: str, tmp_path: Path, protocol: str, login: dict[str, Any]
) -> None:
    (tmp_path / "password").write_text(PASSWORD)
    given = login and login | {"sasl_password_file": tmp_path / "password"}
    settings = own_settings(kafka, security_protocol=protocol, **given)
    ended = process("topics", "create", stdin=b"", **variables_of(settings))
    assert ended.exit_code == 1
    assert re.search(rf"broker_refused: .*one for {protocol} \(security_protocol\)", ended.err)
