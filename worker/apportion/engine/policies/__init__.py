"""Policy files, built in or in a folder. They are read here, and checked by the core."""

import tomllib
from collections.abc import Iterable
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from apportion.core.errors import EventError
from apportion.core.models import Models
from apportion.core.policies.catalogue import Catalogue
from apportion.core.strategies import parse_policy
from apportion.core.strategy_api.policy import Policy, PolicyError, Problem


def load_policy(file: Traversable | Path) -> Policy:
    """Return the policy of a TOML file; raise OSError, or PolicyError with all problems and the file."""
    return read_policy(file.read_bytes(), str(file))


def read_policy(toml: bytes, source: str) -> Policy:
    """Return the policy of a text in TOML; raises PolicyError as `load_policy`, with this source."""
    try:
        raw = tomllib.loads(toml.decode())
    except (ValueError, RecursionError) as error:  # a plain ValueError: an integer of thousands of digits
        raise PolicyError((Problem("file", f"not TOML in UTF-8: {error}"),), source) from None
    try:
        return parse_policy(raw)
    except PolicyError as error:
        raise PolicyError(error.problems, source) from None


def load_policies(
    files: Iterable[Traversable | Path], models: Models | None = None
) -> tuple[dict[str, Policy], tuple[Problem, ...]]:
    """Return the policies of TOML files by file, and all problems of the other files; raise OSError.

    A file with the name and version of an earlier one is refused, because the two would be ambiguous. With
    `models`, a policy for a model without a row is refused, too.
    """
    policies: dict[str, Policy] = {}
    problems: list[Problem] = []
    published: dict[tuple[str, str], str] = {}
    for file in files:
        try:
            policy = load_policy(file)
            if models is not None and policy.model is not None:
                models.row(policy.model, "$.model")
        except PolicyError as error:
            problems += (Problem(f"{file}: {problem.key}", problem.reason) for problem in error.problems)
            continue
        except EventError as error:
            problems.append(Problem(f"{file}: model", error.message))
            continue
        first = published.setdefault((policy.name, policy.version), str(file))
        if first == str(file):
            policies[first] = policy
        else:
            reason = f"{first} has the same name and version; give each policy its own"
            problems.append(Problem(f"{file}: version", reason))
    return policies, tuple(problems)


def builtin_policies() -> tuple[Policy, ...]:
    """Return the policies that the package ships, sorted by file name."""
    return _load_all(resources.files(__name__).iterdir())


def load_catalogue(folder: Path | None, models: Models | None = None) -> Catalogue:
    """Return the built-in policies and the policies of a folder, with all versions of a name.

    `effective_from` determines which version of a name is in force; of equal times, the folder's version. A
    policy of the folder replaces a built-in one only if it has the same name and version. With `models`, each
    policy's model has a row. Raises OSError or PolicyError with all problems of all files.
    """
    own = _load_all(folder.iterdir(), models) if folder is not None else ()
    return Catalogue((*builtin_policies(), *own))


def _load_all(files: Iterable[Traversable | Path], models: Models | None = None) -> tuple[Policy, ...]:
    ordered = sorted(files, key=lambda file: file.name)
    policies, problems = load_policies((file for file in ordered if file.name.endswith(".toml")), models)
    if problems:
        raise PolicyError(problems)
    return tuple(policies.values())
