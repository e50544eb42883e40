"""A broker that asks for a login, and the settings of its clients."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from headgate.feeder.broker import Broker

USER = "me"
SECRET = "s3cr3t-of-kafka"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MODULES = "org.apache.kafka.common.security"


@dataclass(frozen=True)
class Login:
    """A user's login by one of `MECHANISMS`."""

    mechanism: str = "PLAIN"
    password: str = SECRET

    @property
    def client(self) -> dict[str, str]:
        """Settings of librdkafka."""
        return {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
            "sasl.username": USER,
            "sasl.password": self.password,
        }

    @property
    def options(self) -> dict[str, str]:
        """Options of a stream or a sink."""
        return {
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": self.mechanism,
            "kafka.sasl.jaas.config": f'{_module(self.mechanism)} username="{USER}" password="{self.password}";',
        }


def guarded_broker(folder: Path) -> Broker:
    """A broker, started, on which `USER` may log in by all mechanisms."""
    settings = {
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        # Otherwise the broker talks to itself without a login, fails, and never ends a transaction.
        "inter.broker.listener.name": "PLAINTEXT",
    }
    for mechanism in MECHANISMS:
        own = f' username="{USER}" password="{SECRET}" user_{USER}="{SECRET}"' if mechanism == "PLAIN" else ""
        settings[f"listener.name.plaintext.{mechanism.lower()}.sasl.jaas.config"] = f"{_module(mechanism)}{own};"
    broker = Broker(folder, settings=settings)
    broker.start()
    admin = AdminClient({"bootstrap.servers": broker.servers, **Login().client})
    for kind in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        # A request for one user can name one mechanism.
        new = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), SECRET.encode())
        for done in admin.alter_user_scram_credentials([new]).values():
            done.result()
    return broker


def _module(mechanism: str) -> str:
    name = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return f"{_MODULES}.{name} required"
