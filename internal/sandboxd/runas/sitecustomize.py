"""Starts programs of the work in the place of the work.

Python imports this module at its start, beside the verifier. A check may start a program of the work by its path. The kernel refuses
that, since such a program must not run beside the verifier, so it is handed to run-here, which dispatches it.

With -m in a folder of the work, the tests and the work may import modules of this folder, as in any other place. What nobody of
them imports, such as an optional module of a test runner, never comes from there.

Python before 3.11 ignores PYTHONSAFEPATH, so this module does what the variable says.

In a run without any work it also notes modules that no work could provide.
"""

import os
import subprocess
import sys
from importlib.machinery import PathFinder

_RUN_HERE = "/verifier/bin/run-here"
_OF_VERIFIER = ("/verifier", "/tests", "/logs/verifier", "TESTS_DIR", "VERIFIER_DIR")
_ENV, _SHELL = 4, 7  # positions of Popen's arguments among those after executable
_OWN = ("ROLLOUTD_WORK_FOLDERS", "ROLLOUTD_INLINE_CODE", "ROLLOUTD_OWN_IMAGE")  # by which run-here decides

_execute_child = subprocess.Popen._execute_child
_execve = os.execve


def _dispatched(args, executable, cwd, shell):
    if shell:
        text = args if isinstance(args, str) else " ".join(map(os.fsdecode, args))
        if executable or any(name in text for name in _OF_VERIFIER):
            return args, shell
        return ["run-as-agent", "/bin/sh", "-c", *([args] if isinstance(args, (str, bytes)) else args)], False

    words = [args] if isinstance(args, (str, bytes, os.PathLike)) else list(args)
    program = os.fsdecode(words[0]) if words else ""
    if executable or "/" not in program or not os.path.lexists(os.path.join(os.fsdecode(cwd or "."), program)):
        return args, shell
    return [_RUN_HERE, *words], False


def _execute_dispatched(self, args, executable, *rest):
    rest = list(rest)
    args, rest[_SHELL] = _dispatched(args, executable, rest[3], rest[_SHELL])
    if rest[_ENV] is not None:
        rest[_ENV] = _with_own(rest[_ENV])
    return _execute_child(self, args, executable, *rest)


def _with_own(env):
    return {**{name: os.environ[name] for name in _OWN if name in os.environ}, **env}


def _system(command):
    status = subprocess.call(command, shell=True)
    return -status if status < 0 else status << 8


def _execve_dispatched(path, args, env):
    # A path that does not exist must raise: execvp then tries the next folder of PATH.
    if isinstance(path, int) or os.fsdecode(path) == _RUN_HERE or not os.path.lexists(path):
        return _execve(path, args, env)
    return _execve(_RUN_HERE, [_RUN_HERE, path, *list(args)[1:]], _with_own(env))


def _execv_dispatched(path, args):
    return _execve_dispatched(path, args, os.environ)


class _Missing:
    """Notes the names of modules that no other finder finds in folders which no work can change."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if path is None and all(map(_is_systems, sys.path)):
            with open(_NOTES, "a") as notes:
                notes.write(name + "\n")


def _is_systems(folder):
    at = os.path.realpath(folder) + "/"
    work = os.environ.get("ROLLOUTD_WORK_FOLDERS", "/home/user").split(":")
    libraries = [os.path.realpath(p) + "/lib" for p in (sys.prefix, sys.base_prefix)]
    return at.startswith(("/usr/lib", "/usr/local/lib", "/lib", "/verifier/", "/tests/", *libraries)) and not any(at.startswith(w + "/") for w in work)


class _OfWork:
    """Finds modules in a folder of the work, after all other finders, for imports in files of the tests and of the work."""

    def __init__(self, folder):
        self.folder = folder
        self.importers = ("/verifier/tests/", "/tests/", *(w + "/" for w in os.environ.get("ROLLOUTD_WORK_FOLDERS", "/home/user").split(":")))

    def find_spec(self, name, path=None, target=None):
        importer = self._importer() if path is None else ""
        # a package that is installed below the tests tries optional modules, too
        if importer.startswith(self.importers) and "/site-packages/" not in importer:
            return PathFinder.find_spec(name, [self.folder], target)

    @staticmethod
    def _importer():
        frame = sys._getframe(2)
        while frame and frame.f_globals.get("__name__", "").partition(".")[0] == "importlib":
            frame = frame.f_back
        return frame.f_code.co_filename if frame else ""


class _SafePath:
    """Removes the folder that Python puts first into its search path after it has imported this module: at the first import then."""

    before = list(sys.path)
    removed = False

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        # Python before 3.8 sets it together with the folder
        first = _first_folder(sys.argv[0]) if hasattr(sys, "argv") else None
        if not cls.removed and sys.path.count(first) > cls.before.count(first):
            sys.path.remove(first)
            # This stays among the finders: an import goes through their list meanwhile, and would miss the next one.
            cls.removed = True


def _first_folder(program):
    if program == "-m" and sys.version_info >= (3, 7):
        return os.getcwd()
    return "" if program in ("", "-", "-c", "-m") else os.path.dirname(os.path.realpath(program))


if not getattr(sys.flags, "safe_path", False):
    sys.meta_path.insert(0, _SafePath)

_NOTES = os.environ.get("ROLLOUTD_MISSING_MODULES")
if _NOTES:
    sys.meta_path.append(_Missing)

_modules = os.environ.pop("ROLLOUTD_WORK_MODULES", "")
if _modules:
    sys.meta_path.append(_OfWork(_modules))

sys.executable = os.environ.pop("ROLLOUTD_PYTHON", sys.executable)
subprocess.Popen._execute_child = _execute_dispatched
os.system = _system
os.execve = _execve_dispatched
os.execv = _execv_dispatched
