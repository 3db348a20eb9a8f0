"""What composing needs, made from the settings: the same for the worker, the command and replay.

Decides nothing beyond the settings. Reads the secrets and the policy files that they name.
"""

from msgspec.structs import replace

from apportion.core.engine import Engine
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.library import ENGINE
from apportion.policies import load_catalogue
from apportion.settings import Settings, SettingsError
from apportion.settings.fingerprint_secrets import read_secrets


def create_engine(settings: Settings) -> Engine:
    """Return the engine that the settings describe.

    Raises:
        SettingsError: the secrets cannot be read.
    """
    return replace(ENGINE, secrets=read_secrets(settings), omitted_max=settings.decision_omitted_max)


def create_catalogue(settings: Settings) -> Catalogue:
    """Return the built-in policies and those of the settings' folder; the default one is among them.

    Raises:
        PolicyError: with every problem of every file of the folder.
        SettingsError: the folder cannot be read, or there is no default policy.
    """
    try:
        catalogue = load_catalogue(settings.policies)
    except OSError as error:
        raise SettingsError(
            [f"policies ({settings.origin('policies')}): {error.filename}: cannot be read: {error.strerror}"]
        ) from None
    names = sorted({policy.name for policy in catalogue})
    if settings.default_policy not in names:
        origin = settings.origin("default_policy")
        raise SettingsError([f"default_policy ({origin}): no policy of that name; known: {', '.join(names)}"])
    return catalogue


def create_timeline(settings: Settings) -> Timeline:
    """Return the policies of an empty topic: those of files alone.

    Raises:
        PolicyError, SettingsError: as `create_catalogue`.
    """
    return Timeline(create_catalogue(settings), settings.app_id, round(settings.policy_settle_s * 1000))
