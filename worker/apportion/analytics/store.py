"""Where the tables stand: a folder, or a bucket of an object store.

Decides that a file is written whole and once: what stands is never written over. Never decides what stands in
a file.
"""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import LocalStore, from_url

_FAILED = (BaseError, OSError, ValueError)
"""Not all of what obstore raises is its own."""


class StoreError(Exception):
    """The store cannot be reached, or refuses; what stands in it is whole."""

    code = "store_failed"


class Store:
    """Files under a folder or a URL (`s3://bucket/prefix`, `gs://…`, `az://…`), by their paths below it.

    Credentials and endpoints of object stores come from where their own tools find them (AWS_ENDPOINT_URL,
    AWS_ACCESS_KEY_ID, …). A request that fails is tried again for `patience_s`.
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
        """Write a file that is not there, whole or not at all; tell whether this one did.

        Raises:
            StoreError: it may stand, or not.
        """
        try:
            self._store.put(path, content, mode="create")
        except AlreadyExistsError:
            return False
        except _FAILED as error:
            raise self._failed("write", path, error) from None
        return True

    def read(self, path: str) -> bytes:
        """Return what a file holds.

        Raises:
            StoreError: it cannot be read, or is not there.
        """
        try:
            return bytes(self._store.get(path).bytes())
        except _FAILED as error:
            raise self._failed("read", path, error) from None

    def size(self, path: str) -> int | None:
        """Return how many bytes a file has; None where there is none.

        Raises:
            StoreError: nobody knows.
        """
        try:
            return int(self._store.head(path)["size"])
        except FileNotFoundError:
            return None
        except _FAILED as error:
            raise self._failed("look at", path, error) from None

    def names(self, folder: str) -> list[str]:
        """Return the paths of the files below a folder, in order; of a folder that is not there, none.

        Raises:
            StoreError: nobody knows.
        """
        try:
            return sorted(one["path"] for some in self._store.list(f"{folder}/") for one in some)
        except _FAILED as error:
            raise self._failed("list", folder, error) from None

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files, those that are there.

        Raises:
            StoreError: some may be there still.
        """
        for path in paths:
            try:
                self._store.delete(path)
            except FileNotFoundError:
                continue
            except _FAILED as error:
                raise self._failed("delete", path, error) from None

    def _failed(self, what: str, path: str, error: Exception) -> StoreError:
        """Return what failed, by obstore's first line, without the debugging below it."""
        said = str(error).partition("\n")[0]
        return StoreError(f"{self.place}: cannot {what} {path or 'it'}: {said}")
