"""The engine and the policies that the settings and their files describe, for worker, command and replay."""

from difflib import get_close_matches

from msgspec.structs import replace

from apportion.core.engine import Engine
from apportion.core.models import Models
from apportion.core.policies.catalogue import Catalogue
from apportion.core.policies.timeline import Timeline
from apportion.engine.counters import counters_with
from apportion.engine.default import ENGINE
from apportion.engine.models import load_models
from apportion.engine.policies import load_catalogue
from apportion.settings import Settings, SettingsError
from apportion.settings.fingerprint_secrets import read_secrets


def create_engine(settings: Settings) -> Engine:
    """Return the engine that the settings describe.

    Raises:
        ModelsError: the table of models is refused.
        SettingsError: the secrets or the table of models cannot be read.
    """
    return replace(
        ENGINE,
        counters=counters_with(settings.counter_files),
        secrets=read_secrets(settings),
        omitted_max=settings.decision_omitted_max,
        models=create_models(settings),
    )


def create_models(settings: Settings) -> Models:
    """Return the built-in models, and before them the rows of the file in the settings.

    Raises:
        ModelsError, SettingsError: as raised by `create_engine`.
    """
    try:
        return load_models(settings.models_file)
    except OSError as error:
        problem = f"models_file ({settings.origin('models_file')}): {error.filename}: {error.strerror}"
        raise SettingsError([problem]) from None


def create_catalogue(settings: Settings) -> Catalogue:
    """Return the policies, built in and in the settings' folder.

    A policy's model needs a row in the table of models.

    Raises:
        PolicyError: policies are refused. It lists all problems of all files.
        ModelsError, SettingsError: as raised by `create_engine`, or the folder cannot be read.
    """
    try:
        catalogue = load_catalogue(settings.policies, create_models(settings))
    except OSError as error:
        raise SettingsError(
            [f"policies ({settings.origin('policies')}): {error.filename}: cannot be read: {error.strerror}"]
        ) from None
    names = sorted({policy.name for policy in catalogue})
    if settings.default_policy not in names:
        origin = settings.origin("default_policy")
        near = get_close_matches(settings.default_policy, names)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        problem = f"no policy of that name; {hint}known: {', '.join(names)}"
        raise SettingsError([f"default_policy ({origin}): {problem}"])
    return catalogue


def create_timeline(settings: Settings) -> Timeline:
    """Return the timeline of an empty policies topic; raises as `create_catalogue`."""
    return Timeline(create_catalogue(settings), settings.app_id, round(settings.policy_settle_s * 1000))
