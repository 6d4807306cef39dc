"""Plant one fault into a module of the package while it is imported, in this process and in those that it starts.

Python imports a module of this name at every start where its folder is on the path. The environment names the fault;
without it nothing happens. Files do not change, and no byte code of the fault is ever written or read. Standard
library only: it runs before anything else.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import sys
from pathlib import Path

VARIABLE = "GNNQLAB_PLANTED"
"""JSON: ``module`` and its ``path``, the text ``before`` and ``after``, and the file ``told`` that marks an import."""


class _Loader(importlib.machinery.SourceFileLoader):
    """Compiles a source file with the edit made."""

    def __init__(self, name, path, fault):
        super().__init__(name, path)
        self._fault = fault

    def get_code(self, fullname):
        source = Path(self.path).read_text(encoding="utf-8")
        if source.count(self._fault["before"]) != 1:
            raise ImportError(f"the text that a fault replaces must stand once in {self.path}")
        Path(self._fault["told"]).touch()
        edited = source.replace(self._fault["before"], self._fault["after"])
        return compile(edited, self.path, "exec", dont_inherit=True)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds a single module, before every other finder."""

    def __init__(self, fault):
        self._fault = fault

    def find_spec(self, fullname, path=None, target=None):
        if fullname != self._fault["module"]:
            return None
        file = self._fault["path"]
        return importlib.util.spec_from_file_location(fullname, file, loader=_Loader(fullname, file, self._fault))


if VARIABLE in os.environ:
    sys.meta_path.insert(0, _Finder(json.loads(os.environ[VARIABLE])))
