"""Files that no disk holds: what the kernel makes up while they are read, under /proc and /sys."""

from __future__ import annotations

import ctypes

# The types of such file systems, from linux/magic.h and statfs(2).
_MAGIC = frozenset(
    {
        0x9FA0,  # proc
        0x62656572,  # sysfs
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x27E0EB,  # cgroup
        0x63677270,  # cgroup2
        0x73636673,  # securityfs
        0x62656570,  # configfs
        0xCAFE4A11,  # bpf
        0x6165676C,  # pstore
        0xDE5E81E4,  # efivarfs
        0x42494E4D,  # binfmt_misc
        0xF97CFF8C,  # selinux
        0x43415D53,  # smackfs
        0x1CD1,  # devpts
        0x19800202,  # mqueue
    }
)
_LARGEST_STATFS = 256

_libc = ctypes.CDLL(None, use_errno=True)


def is_made_by_kernel(descriptor: int) -> bool:
    """Whether the open file is no stored one. Some of them are regular files by their mode, and reading never ends."""
    # Python's statvfs has no type. It is the first field of struct statfs, a word on all that Python runs on but s390.
    found = ctypes.create_string_buffer(_LARGEST_STATFS)
    if _libc.fstatfs(descriptor, found) != 0:
        return False
    return (ctypes.c_ulong.from_buffer(found).value & 0xFFFFFFFF) in _MAGIC
