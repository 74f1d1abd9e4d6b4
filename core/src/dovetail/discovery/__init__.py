"""Find backends and admit them: listed without running their code, each step with its reason.

`entry_points` and `scanning` list, `search_path` looks at the place, `elf` and `content` at the
bytes, `manifest` at the versions, `probe` tries a backend in a child process, `verdicts` remembers
how that went, `opening` loads it; `reasons` are the codes. `docs/loading.md` tells it all.
"""

from .entry_points import Offer, forget, load_object, offers

__all__ = ["Offer", "forget", "load_object", "offers"]
