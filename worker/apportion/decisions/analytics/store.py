"""The storage of the tables: a folder, or a bucket of an object store.

A file is written whole and only once; it is never written over.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

_FAILED = (BaseError, OSError, ValueError)
"""All errors that obstore raises; some are not its own types."""


class StoreError(Exception):
    """The store cannot be reached, or refuses a request. The files in it are complete."""

    code = "store_failed"


class Store:
    """Files under a folder or a URL (`s3://bucket/prefix`, `gs://…`, `az://…`), by their paths below it.

    Credentials and endpoints of object stores come from the usual variables of their tools (AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, …). A failed request is retried for `patience_s`, then raises StoreError.
    """

    def __init__(self, place: str, patience_s: float = 30.0) -> None:
        self.place = place
        try:
            if "://" in place:
                patience = timedelta(seconds=patience_s)
                self._store = from_url(place, retry_config={"max_retries": 100, "retry_timeout": patience})
            else:
                self._store = LocalStore(Path(place).absolute(), mkdir=True)
        except _FAILED as error:
            raise self._failed("open", "", error) from None

    def create(self, path: str, content: bytes) -> bool:
        """Write a new file, whole or not at all. Return False if a file of that name exists.

        Raises:
            StoreError: writing failed; the file may exist or not.
        """
        try:
            self._store.put(path, content, mode="create")
        except AlreadyExistsError:
            return False
        except _FAILED as error:
            raise self._failed("write", path, error) from None
        return True

    def read(self, path: str) -> bytes:
        """Return the content of a file."""
        try:
            return bytes(self._store.get(path).bytes())
        except _FAILED as error:
            raise self._failed("read", path, error) from None

    def size(self, path: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        try:
            return int(self._store.head(path)["size"])
        except FileNotFoundError:
            return None
        except _FAILED as error:
            raise self._failed("look at", path, error) from None

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files below a folder, sorted; none if the folder does not exist."""
        try:
            return sorted(file["path"] for page in self._store.list(f"{folder}/") for file in page)
        except _FAILED as error:
            raise self._failed("list", folder, error) from None

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; those that do not exist are ignored.

        Raises:
            StoreError: deleting failed; some files may be left.
        """
        for path in paths:
            try:
                self._store.delete(path)
            except FileNotFoundError:
                continue
            except _FAILED as error:
                raise self._failed("delete", path, error) from None

    def _failed(self, action: str, path: str, error: Exception) -> StoreError:
        """Return an error with the first line of obstore's message, without the debugging output below it."""
        reason = str(error).partition("\n")[0]
        return StoreError(f"{self.place}: cannot {action} {path or 'it'}: {reason}")
