"""The storage of the tables: a folder, or a bucket of an object store; a file is written whole and once."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url


class StoreError(Exception):
    """The store cannot be reached, or refuses a request. The files in it are complete."""

    code = "store_failed"


class Store:
    """Files under a folder or a URL (`s3://bucket/prefix`, `gs://…`, `az://…`), by their paths below it.

    Credentials and endpoints of object stores come from the usual variables of their tools (AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, …). A failed request is retried for `patience_s`, then raises StoreError.
    """

    def __init__(self, location: str, patience_s: float = 30.0) -> None:
        self.location = location
        with self._naming("open", "it"):
            if "://" in location:
                patience = timedelta(seconds=patience_s)
                self._store = from_url(location, retry_config={"max_retries": 100, "retry_timeout": patience})
            else:
                self._store = LocalStore(Path(location).absolute(), mkdir=True)

    def create(self, path: str, content: bytes) -> bool:
        """Write a new file whole; return False if it exists. After a StoreError, it may exist."""
        with self._naming("write", path), suppress(AlreadyExistsError):
            self._store.put(path, content, mode="create")
            return True
        return False

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        with self._naming("read", path):
            return bytes(self._store.get(path).bytes())

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        with self._naming("look at", path), suppress(FileNotFoundError):
            return int(self._store.head(path)["size"])
        return None

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files below a folder, sorted; none if the folder does not exist."""
        with self._naming("list", folder):
            return sorted(file["path"] for page in self._store.list(f"{folder}/") for file in page)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, and ignore missing ones. After a StoreError, some files may be left."""
        for path in paths:
            with self._naming("delete", path), suppress(FileNotFoundError):
                self._store.delete(path)

    @contextmanager
    def _naming(self, action: str, path: str) -> Iterator[None]:
        """Turn an error of obstore into a StoreError with the first line of its message."""
        try:
            yield
        except (BaseError, OSError, ValueError) as error:  # obstore also raises Python's own types
            reason = str(error).partition("\n")[0]
            raise StoreError(f"{self.location}: cannot {action} {path}: {reason}") from None
