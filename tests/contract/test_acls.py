"""The ACLs of `deploy/acls.sh`: sufficient for a worker, and errors about missing ones, on Apache Kafka."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.commands import process
from support.containers import container, free_port
from support.gateways import body, gateway
from support.requiring import DOCKER
from support.running import own_settings, request, staged, variables_of, worker_running
from testcontainers.core.container import DockerContainer

from apportion.doors.gateway.kafka_backend import open_kafka_backend
from apportion.settings import Settings
from apportion.settings.value_types import Guarantee

DEPLOY = Path(__file__).parents[2] / "deploy"
PASSWORD = "a password of a test"  # noqa: S105 - it protects nothing
USERS = ("admin", "worker", "creator", "gateway")
TOOL = """#!/bin/sh
exec java -cp '/opt/kafka/libs/*' org.apache.kafka.tools.AclCommand "$@"
"""
"""The command of `kafka-acls.sh`, without the wait for a larger heap."""


@dataclass(frozen=True, slots=True)
class Authorized:
    """A broker that refuses every operation without an ACL, except for its own user `admin`."""

    port: int
    folder: Path
    broker: DockerContainer

    def settings(self, user: str, of: Settings | None = None, **changes: Any) -> Settings:
        """Return settings for a user, with new topics or with the topics of `of`."""
        given: dict[str, Any] = {} if of is None else of.model_dump(exclude_defaults=True)
        login = {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_username": user,
            "sasl_password_file": self.folder / "password",
        }
        return own_settings(f"127.0.0.1:{self.port}", **given | login | changes)

    def run(self, settings: Settings, *command: str) -> None:
        """Run a command in the broker's container, which has the script."""
        variables = {
            "BOOTSTRAP": "localhost:19092",
            "KAFKA_ACLS": "/tools/acls",
            "WORKER": "User:worker",
            "CREATOR": "User:creator",
            "GATEWAY": "User:gateway",
            **variables_of(settings),
        }
        done = self.broker.exec(["env", *(f"{name}={value}" for name, value in variables.items()), *command])
        assert done.exit_code == 0, done.output.decode()

    def change(self, settings: Settings, how: str, operation: str, *resource: str) -> None:
        """Add or remove a permission of the worker."""
        tool = ["/tools/acls", "--bootstrap-server", "localhost:19092", "--force", how]
        self.run(settings, *tool, "--allow-principal", "User:worker", "--operation", operation, *resource)


@pytest.fixture(scope="module")
def authorized(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authorized]:
    DOCKER.require()
    folder, port = tmp_path_factory.mktemp("authorized"), free_port()
    (folder / "password").write_text(PASSWORD)
    (folder / "acls").write_text(TOOL)
    (folder / "acls").chmod(0o755)
    folder.chmod(0o755)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    users = " ".join(f'user_{user}="{PASSWORD}"' for user in USERS)
    broker = container(
        port,
        security_protocol="SASL_PLAINTEXT",
        KAFKA_SASL_ENABLED_MECHANISMS="PLAIN",
        KAFKA_LISTENER_NAME_HOST_PLAIN_SASL_JAAS_CONFIG=f"{module} required {users};",
        KAFKA_AUTHORIZER_CLASS_NAME="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        KAFKA_SUPER_USERS="User:ANONYMOUS;User:admin",  # the broker itself, and its tools
    )
    broker.with_volume_mapping(DEPLOY, "/deploy").with_volume_mapping(folder, "/tools")
    with broker:
        yield Authorized(port, folder, broker)


@pytest.mark.asyncio
@pytest.mark.parametrize("guarantee", Guarantee)
async def test_the_scripts_acls_let_a_worker_answer_and_topics_be_created(
    authorized: Authorized, guarantee: Guarantee
) -> None:
    admin = authorized.settings("admin", partitions=2, guarantee=guarantee)
    authorized.run(admin, "/deploy/acls.sh")
    made = process("topics", "create", stdin=b"", **variables_of(authorized.settings("creator", admin)))
    assert made.exit_code == 0, made.err
    settings = authorized.settings("worker", admin)
    async with staged(admin, "read_committed") as stage, worker_running(settings) as worker:
        await stage.send(request("1"), {"type": "nothing", "session_id": "s"}, request("2", "other"))
        await stage.outputs.wait_for(lambda out: out.answered(["1", "2"]) and len(out.dead_letters) == 1)
        async with (
            open_kafka_backend(authorized.settings("gateway", admin)) as backend,
            gateway(backend) as caller,
        ):
            for _ in ("first", "again"):
                call = await caller.post("/v1/compose?decision=true", json=body(request_id="3"))
                assert (await call.json())["decision"]["request_id"] == "3"
        assert await worker.stop() == 0, worker.log


@pytest.mark.asyncio
async def test_a_worker_without_one_acl_ends_and_names_it(authorized: Authorized) -> None:
    admin = authorized.settings("admin", partitions=1, guarantee=Guarantee.EXACTLY_ONCE)
    authorized.run(admin, "/deploy/acls.sh")
    settings = authorized.settings("worker", admin)
    identity = ("--transactional-id", f"{admin.app_id}:{admin.requests_topic}:")
    async with staged(admin) as stage:
        await stage.send(request("1"))
        for told, *resource in (
            ("not_allowed: .* the group ", "Read", "--group", admin.app_id),
            ("not_allowed: .* the topic .*-requests", "DescribeConfigs", "--topic", admin.requests_topic),
            ("TransactionalIdAuth", "Write", *identity, "--resource-pattern-type", "prefixed"),
            ("TopicAuthorization", "Write", "--topic", admin.composed_topic),
        ):
            authorized.change(admin, "--remove", *resource)
            async with worker_running(settings, until_ready=False) as worker:
                assert await worker.ended() == 1
            assert re.search(told, worker.log), worker.log
            authorized.change(admin, "--add", *resource)
