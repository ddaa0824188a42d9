"""What a profile decides, in the form in which the engine reads it.

Runs in: commands outside GDB and the server. May call: abi, config.
Owns: the fields of the control page that a profile fills.
"""

from __future__ import annotations

from gdbrr.abi import Ctl, ffi
from gdbrr.quick.rows import TYPE_CHECKING

if TYPE_CHECKING:
    from gdbrr.config.profiles import Profile


def fill(page: Ctl, profile: Profile) -> None:
    """What the profile decides, in the form the engine reads."""
    sys_action, class_action = profile.actions()
    ffi.memmove(page.c.sys_action, sys_action, len(sys_action))
    ffi.memmove(page.c.class_action, class_action, len(class_action))
    kinds = profile.kinds()
    ffi.memmove(page.c.kind_action, kinds, len(kinds))
    rules = profile.rules()
    ffi.memmove(page.c.rules, rules, len(rules))
    for number, value in enumerate(profile.knobs().values()):
        page.c.knob[number] = value
