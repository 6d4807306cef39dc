"""Compiled kernels: paths and loading of the libraries, and selection of the backend.

CPU: ``_lib/libgnnqlab_cpu.so`` holds each operator once per instruction set, as ``gnnqlab_<operator>_<isa>``. The best
one supported by the processor is used; ``GNNQLAB_ISA=avx512|avx2|scalar`` forces another. CUDA:
``_lib/libgnnqlab_cuda.so`` holds ``gnnqlab_<operator>_cuda``. Without a library the plain-PyTorch reference runs, with
one warning that has the reason; ``GNNQLAB_KERNELS=reference|native`` (or `use`) forces either.

To add an operator: ``_spmm = declare("spmm", "p p i f")`` at the top of its module, then ``_spmm(...)`` on CPU tensors
and ``_spmm.cuda(device, ...)`` on CUDA tensors, both only when ``active(device)`` is true. `register` makes it an
operator of PyTorch for compiled graphs.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch  # before the library is loaded: its OpenMP runtime then serves both

__all__ = [
    "ISAS",
    "Kernel",
    "active",
    "call",
    "declare",
    "isa",
    "openmp_runtimes",
    "refused",
    "register",
    "status",
    "take_refusal",
    "threads",
    "use",
]

ABI = 7
"""Version of the C interface; a library of another version is not used. Increase it when arguments or results of a call
change, and for new functions: 7 added 3-bit rotated rows and their encoding on CUDA, joins of layers in one pass, and
products of many rows with a small matrix."""

ISAS = ("avx512", "avx2", "scalar")
"""Instruction sets, the fastest first."""
_TYPES = {"p": ctypes.c_void_p, "i": ctypes.c_int64, "f": ctypes.c_float}
_LIBRARY = torch.library.Library("gnnqlab", "FRAGMENT")  # other libraries may add operators to this namespace
_WHY_NOT = {
    "libgnnqlab_cpu.so": "no compiler at installation); reinstall the package with one",
    "libgnnqlab_cuda.so": "it is optional); reinstall the package with nvcc and "
    "--config-settings=cmake.define.GNNQLAB_CUDA=ON",
}
_NOTHING_REFUSED = 2**63 - 1  # above every refusal code: kernels record the minimum
_BACKENDS = ("native", "reference")

_forced_backend: str | None = None  # set by `use`, takes precedence over GNNQLAB_KERNELS
_forced_isa: str | None = None  # likewise over GNNQLAB_ISA


class Kernel:
    """One operator of the C interface, created by `declare`.

    Calling it runs the CPU function of the instruction set in use and returns its int64 result, whose meaning depends
    on the operator; by convention 0 is success. Tensors and arrays are passed as addresses of their elements.
    """

    def __init__(self, name: str, signature: str) -> None:
        self.name = name
        letters = signature.split()
        self._argtypes = [_TYPES[letter] for letter in letters]
        self._pointers = [place for place, letter in enumerate(letters) if letter == "p"]
        self._functions: dict[str, Callable[..., int]] = {}

    def __call__(self, *arguments: Any) -> int:
        name = _forced_isa or _default_isa()
        # Bound at the first call, so that an import loads no library.
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._bind(_cpu_library(), name, self._argtypes)
        # As `_addressed`, without a call: four kernels run in an aggregation.
        values = list(arguments)
        for place in self._pointers:
            value = values[place]
            if value is not None:
                values[place] = value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data
        return function(*values)

    def cuda(self, device: torch.device, *arguments: Any) -> None:
        """Launch the CUDA function on the device's current stream.

        Raises:
            RuntimeError: if the launch failed; errors during execution appear at the next synchronization.
        """
        function = self._functions.get("cuda")
        if function is None:
            # Every CUDA function has one more argument, the stream.
            function = self._functions["cuda"] = self._bind(_cuda_library(), "cuda", [*self._argtypes, ctypes.c_void_p])
        # On the current stream, so that the kernel is ordered with PyTorch's operations.
        with torch.cuda.device(device):
            code = function(*self._addressed(arguments), torch.cuda.current_stream(device).cuda_stream)
        if code:
            text = _cuda_library().gnnqlab_cuda_error(code).decode()
            raise RuntimeError(f"CUDA kernels must launch, got error {code} ({text}) from {self.name}")

    def _addressed(self, arguments: tuple[Any, ...]) -> list[Any]:
        """Return the arguments with addresses in place of tensors and arrays."""
        # The caller holds the tensors until the call returns, so their addresses remain valid.
        values = list(arguments)
        for place in self._pointers:
            value = values[place]
            if value is not None:  # None is passed as a null pointer
                values[place] = value.data_ptr() if isinstance(value, torch.Tensor) else value.ctypes.data
        return values

    def _bind(self, library: ctypes.CDLL, target: str, argtypes: list[Any]) -> Callable[..., int]:
        function = getattr(library, f"gnnqlab_{self.name}_{target}")
        # Without argument types ctypes would pass Python integers as C int, of 32 bits.
        function.argtypes, function.restype = argtypes, ctypes.c_int64
        return function


def call(kernel: Kernel, first: torch.Tensor, *arguments: Any) -> None:
    """Run an operator whose last argument is the number of threads, on the device of its first argument."""
    if first.is_cuda:
        kernel.cuda(first.device, first, *arguments, threads())
    else:
        kernel(first, *arguments, threads())


def declare(name: str, signature: str) -> Kernel:
    """Declare an operator of the C interface; its library is loaded at the first call.

    Args:
        name: the operator; the C functions are ``int64_t gnnqlab_<name>_<isa>(...)`` and
            ``int64_t gnnqlab_<name>_cuda(..., void *stream)``.
        signature: one letter for each argument, separated by spaces: ``p`` pointer (a tensor, an array or None),
            ``i`` int64, ``f`` float32.
    """
    return Kernel(name, signature)


def register(
    schema: str,
    function: Callable[..., Any],
    *,
    fake: Callable[..., Any],
    backward: Callable[..., Any] | None = None,
    setup: Callable[..., None] | None = None,
) -> None:
    """Register ``torch.ops.gnnqlab.<name>`` for compiled graphs; eager code calls the function directly.

    Args:
        schema: name, arguments and results, in PyTorch's notation.
        function: implementation for CPU and CUDA tensors.
        fake: implementation that returns the shapes of the results only.
        backward, setup: the gradient and its context, as for ``torch.library.register_autograd``; without them the
            operator has no gradient.
    """
    name = schema.split("(")[0]
    _LIBRARY.define(schema)
    # One function for both: it selects the kernel by the device of its tensors.
    for key in ("CPU", "CUDA"):
        _LIBRARY.impl(name, function, key)
    torch.library.register_fake(f"gnnqlab::{name}", fake, lib=_LIBRARY)
    if backward is not None:
        torch.library.register_autograd(f"gnnqlab::{name}", backward, setup_context=setup, lib=_LIBRARY)


def active(device: torch.device) -> bool:
    """Return True if compiled kernels are used for tensors on this device; otherwise warn once with the reason."""
    backend = _forced_backend or os.environ.get("GNNQLAB_KERNELS") or None
    if backend == "reference":
        return False
    if backend not in (None, "native"):
        raise ValueError(f"GNNQLAB_KERNELS must be one of {_BACKENDS}, got {backend!r}")
    # The library of the CPU directly: every kernel calls this function.
    reason = _load("libgnnqlab_cpu.so")[1] if device.type == "cpu" else _missing(device.type)
    if reason is None:
        return True
    if backend == "native":  # requested: a fallback would hide the missing library
        raise RuntimeError(f"native kernels were requested but {reason}")
    _warn_once(f"gnnqlab runs its plain-PyTorch reference kernels on {device.type}: {reason}")
    return False


@contextlib.contextmanager
def _restored(backend: str | None, isa_name: str | None) -> Iterator[None]:
    global _forced_backend, _forced_isa
    try:
        yield
    finally:
        _forced_backend, _forced_isa = backend, isa_name


# One record per device: kernels take its address, and `take_refusal` resets it.
@functools.cache
def refused(device: torch.device) -> torch.Tensor:
    """Return the device tensor in which CUDA kernels record the first refused position, read by `take_refusal`."""
    return torch.full((1,), _NOTHING_REFUSED, dtype=torch.int64, device=device)


def take_refusal(device: torch.device) -> int:
    """Return and reset the first refusal of CUDA kernels, position * 8 + reason, or 0; synchronizes with the device."""
    record = refused(device)
    code = int(record)  # synchronizes
    record.fill_(_NOTHING_REFUSED)
    return 0 if code == _NOTHING_REFUSED else code


def use(backend: str | None, *, isa: str | None = None) -> contextlib.AbstractContextManager[None]:
    """Force a backend for this process, or ``None`` for the default; as a context manager, for the block.

    Args:
        backend: ``"native"``, ``"reference"`` or ``None``.
        isa: one of `ISAS` supported by this processor, or ``None`` for the default.

    Raises:
        ValueError: if a name is unknown.
        RuntimeError: if the processor or the library lacks the instruction set.

    Example:
        >>> with use("reference"):
        ...     active(torch.device("cpu"))
        False
    """
    global _forced_backend, _forced_isa
    if backend is not None and backend not in _BACKENDS:
        raise ValueError(f"backend must be one of {_BACKENDS}, got {backend!r}")
    if isa is not None:
        _check_isa(isa, "isa")
    # Takes effect here, so that `use` works without ``with`` too; the context manager only restores.
    context = _restored(_forced_backend, _forced_isa)
    _forced_backend, _forced_isa = backend, isa
    return context


def library_path(name: str) -> Path:
    """Return the path of a library, existing or not; an editable install has two package folders to search."""
    folders = [Path(folder) / "_lib" for folder in sys.modules[__package__].__path__]
    return next((folder / name for folder in folders if (folder / name).exists()), folders[0] / name)


def isa() -> str:
    """Return the name of the instruction set in use on the CPU."""
    return _forced_isa or _default_isa()


threads = torch.get_num_threads
"""Return the number of threads of a kernel, which is PyTorch's setting."""


def status() -> dict[str, Any]:
    """Collect backend, library, instruction sets, CUDA, and reasons for missing parts, for ``gnnqlab doctor``."""
    cpu_reason, cuda_reason = _missing("cpu"), _missing("cuda")
    backend = _forced_backend or os.environ.get("GNNQLAB_KERNELS") or ("reference" if cpu_reason else "native")
    return {
        "backend": backend,
        "library": None if cpu_reason else str(library_path("libgnnqlab_cpu.so")),
        "isa": None if cpu_reason else isa(),
        "isas": [] if cpu_reason else [name for name in ISAS if _has_isa(name)],
        "reason": cpu_reason,
        "cuda": None if cuda_reason else str(library_path("libgnnqlab_cuda.so")),
        "cuda_reason": cuda_reason,
        "threads": threads(),
        "openmp": openmp_runtimes(),
    }


def openmp_runtimes() -> list[str]:
    """Return the OpenMP runtimes mapped into this process; more than one oversubscribe the cores."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    text = os.fsdecode(maps.read_bytes())  # any mapped file may have a path that is not UTF-8
    paths = re.findall(r"(/\S*/lib(?:gomp|iomp5|omp)[-.\w]*\.so[.\d]*)$", text, flags=re.MULTILINE)
    return sorted(set(paths))  # a library is mapped in several segments, one line each


def _missing(device_type: str) -> str | None:
    """Return the reason for missing compiled kernels on a kind of device, or None if there are some."""
    if device_type == "cpu":
        return _load("libgnnqlab_cpu.so")[1]
    if device_type == "cuda":
        return _load("libgnnqlab_cuda.so")[1] if torch.cuda.is_available() else "PyTorch or this machine has no CUDA"
    return f"there are no kernels for {device_type} tensors"


def _cpu_library() -> ctypes.CDLL:
    library, reason = _load("libgnnqlab_cpu.so")
    if library is None:
        raise RuntimeError(f"native kernels were called but {reason}")
    return library


def _cuda_library() -> ctypes.CDLL:
    library, reason = _load("libgnnqlab_cuda.so")
    if library is None:
        raise RuntimeError(f"CUDA kernels were called but {reason}")
    return library


# Cached, also a failure: a missing library is searched once.
@functools.cache
def _load(name: str) -> tuple[ctypes.CDLL | None, str | None]:
    path = library_path(name)
    if not path.exists():
        return None, f"{name} was not built ({_WHY_NOT[name]}"
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        return None, f"{name} does not load: {error}"
    if library.gnnqlab_abi() != ABI:  # its functions would misread their arguments
        return None, f"{name} is of another version of the package; reinstall it"
    if name == "libgnnqlab_cuda.so":
        library.gnnqlab_cuda_error.restype = ctypes.c_char_p  # the default, C int, would truncate the pointer
    return library, None


@functools.cache
def _default_isa() -> str:
    isa_name = os.environ.get("GNNQLAB_ISA")
    if isa_name:
        _check_isa(isa_name, "GNNQLAB_ISA")
        return isa_name
    # Every processor has "scalar", so there always is one.
    return next(name for name in ISAS if _has_isa(name))


def _check_isa(name: str, setting: str) -> None:
    if name not in ISAS:
        raise ValueError(f"{setting} must be one of {ISAS}, got {name!r}")
    if not _has_isa(name):
        names = ", ".join(isa_name for isa_name in ISAS if _has_isa(isa_name))
        raise RuntimeError(f"{setting} must be an instruction set of this processor, got {name!r}; it has {names}")


def _has_isa(name: str) -> bool:
    return bool(_cpu_library().gnnqlab_has_isa(name.encode()))


# Cached by text: one warning each, whatever the warning filters are.
@functools.cache
def _warn_once(text: str) -> None:
    warnings.warn(text, RuntimeWarning, stacklevel=4)  # the caller of the operator, above `active`
