"""Wheel and sdist of a release: their contents, and installation in an empty environment (`make dist`)."""

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
UV = str(Path(sys.executable).with_name("uv"))
TRIES = (
    "import apportion; print(apportion.__version__, len(apportion.builtin_policies()))",
    "from apportion import fit; fit([{'role': 'user', 'content': 'Hello'}], 100, session_id='s')",
    "import sys; from apportion.cli import main; sys.argv[1:] = ['policies', 'list', '--offline']; main()",
)
"""Lines that run in the environment, which needs no extra for them."""


def main(folder: Path) -> None:
    """Check the wheel and the sdist of a folder.

    Raises:
        SystemExit: a file is missing or too much, or an installation does not run.
    """
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    if found := [*_wrong_files(wheel, sdist)]:
        sys.exit("\n".join(found))
    for package in (wheel, sdist):
        with TemporaryDirectory() as environment:
            _install(package, Path(environment))
        print(f"{package.name}: {package.stat().st_size:,} bytes; complete, installs and runs")  # noqa: T201 - a tool's result


def _wrong_files(wheel: Path, sdist: Path) -> Iterator[str]:
    tracked = set(_output("git", "ls-files").splitlines())
    modules = {name.removeprefix("worker/") for name in tracked if name.startswith("worker/")}
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    yield from (f"{wheel.name}: differs from the repository: {name}" for name in sorted(names ^ modules))
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()} - {"PKG-INFO"}
    yield from (f"{sdist.name}: not in the repository: {name}" for name in sorted(packed - tracked))
    needed = {name for name in tracked if name.startswith("worker/")} | {"README.md", "LICENSE"}
    yield from (f"{sdist.name}: missing: {name}" for name in sorted(needed - packed))


def _install(package: Path, environment: Path) -> None:
    _output(UV, "venv", "--quiet", str(environment))
    python = str(environment / "bin" / "python")
    _output(UV, "pip", "install", "--quiet", "--python", python, str(package))
    for code in TRIES:
        _output(python, "-I", "-c", code)


def _output(*line: str) -> str:
    done = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - our own tools
    if done.returncode:
        sys.exit(f"{' '.join(line)}: exit code {done.returncode}\n{done.stderr}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1]))
