"""Downloading an archive with every wait bounded, so that a missing network is noticed in seconds."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

__all__ = ["check_reachable", "fetch_archive"]

REACH_S = 5.0  # for the answer to the first question, name resolution included
STALL_S = 20.0  # a transfer that brings nothing for so long has failed
_BLOCK = 1 << 20


def check_reachable(url: str, *, seconds: float | None = None) -> int | None:
    """Ask the server for the size of ``url``; proxies of the environment are honoured.

    Returns:
        The size in bytes, or ``None`` if the server does not tell.

    Raises:
        ConnectionError: with one line of reason, after at most ``seconds`` (5 by default).
    """
    seconds = REACH_S if seconds is None else seconds
    answer: list[int | None] = []
    failure: list[str] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD")
            with urllib.request.urlopen(request, timeout=seconds) as response:
                size = response.headers.get("Content-Length")
                answer.append(int(size) if size else None)
        except Exception as error:
            failure.append(_reason(error))

    # Name resolution obeys no timeout of its own, so it runs beside us and may be left behind.
    asking = threading.Thread(target=ask, daemon=True, name="gnnqlab-reachable")
    asking.start()
    asking.join(seconds)
    host = url.split("/")[2]
    if answer:
        return answer[0]
    raise ConnectionError(f"{host} does not answer ({failure[0] if failure else f'nothing within {seconds:g} s'})")


def fetch_archive(url: str, folder: Path) -> None:
    """Download a ``.zip`` and unpack it as ``folder``, which appears only when it is complete.

    Progress goes to standard error.

    Raises:
        ConnectionError: if the server cannot be reached or the transfer stalls or breaks.
        OSError: if the disk cannot hold it.
    """
    from tqdm import tqdm

    size = check_reachable(url)
    folder.parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(folder.parent).free
    if size is not None and 3 * size > free:
        raise OSError(
            f"{url} has {size / 1e9:.1f} GB and needs about {3 * size / 1e9:.0f} GB to unpack, "
            f"{folder.parent} has {free / 1e9:.1f} GB left"
        )
    archive = folder.with_name(f".{folder.name}.{os.getpid()}.zip")
    fresh = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        with (
            urllib.request.urlopen(url, timeout=STALL_S) as response,
            archive.open("wb") as file,
            tqdm(total=size, unit="B", unit_scale=True, desc=folder.name, file=sys.stderr) as bar,
        ):
            while block := response.read(_BLOCK):
                file.write(block)
                bar.update(len(block))
        if size is not None and archive.stat().st_size != size:
            raise ConnectionError(f"{url} broke off after {archive.stat().st_size} of {size} bytes")
        with zipfile.ZipFile(archive) as unpacked:
            unpacked.extractall(fresh)
        os.replace(fresh, folder)
    except (urllib.error.URLError, TimeoutError, zipfile.BadZipFile) as error:
        raise ConnectionError(f"{url}: {_reason(error)}") from error
    finally:
        archive.unlink(missing_ok=True)
        shutil.rmtree(fresh, ignore_errors=True)


def _reason(error: BaseException) -> str:
    if isinstance(error, urllib.error.HTTPError):
        return f"HTTP {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(error.reason)
    return str(error) or type(error).__name__
