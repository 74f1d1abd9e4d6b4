"""Hook into setuptools for each project built in an environment with this package.

These include projects of others.
"""

from __future__ import annotations

from typing import Any

from .project_file import pyproject

_LISTS = ("library-sources", "sources", "include-dirs", "libraries", "link-arguments", "requirements")
_KEYS = ("class", "package", *_LISTS)


def configure(distribution: Any) -> None:
    """Tell setuptools of the backend of the project, if ``[tool.dovetail.backend]`` names one.

    Raises:
        ValueError: The table or the manifest is malformed.
        FileNotFoundError: There is no manifest, or a pattern matches no file.
    """
    said = pyproject().get("tool", {}).get("dovetail", {}).get("backend")
    if said is None:
        return
    from .project import keywords  # here: it needs the core, and other projects are built without

    unknown = [name for name in said if name not in _KEYS]
    if unknown:
        raise ValueError(f"[tool.dovetail.backend] has no {unknown[0]!r}; it has {', '.join(_KEYS)}")
    entry_point = said.get("class", said.get("package", ""))
    module, _, class_name = entry_point.partition(":")
    if not module or ("class" in said) == ("package" in said) or bool(class_name) != ("class" in said):
        raise ValueError(
            '[tool.dovetail.backend] must have class = "package:Class", or package = "package" with library-sources'
        )
    lists = {name.replace("-", "_"): said[name] for name in _LISTS if name in said}
    wanted = keywords(module.partition(".")[0], entry_point=entry_point, **lists)
    distribution.ext_modules = wanted["ext_modules"]
    distribution.install_requires = wanted["install_requires"]
    distribution.cmdclass.update(wanted["cmdclass"])
    if "entry_points" in wanted:
        distribution.entry_points = wanted["entry_points"]
