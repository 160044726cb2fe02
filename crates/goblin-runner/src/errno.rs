//! Names of the system's error numbers.

use rustix::io::Errno;

macro_rules! names {
    ($($constant:ident $name:literal),* $(,)?) => {
        /// The symbolic name of an error that a start can meet.
        pub(crate) fn errno_name(errno: Errno) -> Option<&'static str> {
            match errno {
                $(Errno::$constant => Some($name),)*
                _ => None,
            }
        }
    };
}

names! {
    ACCESS "EACCES",
    AGAIN "EAGAIN",
    BADF "EBADF",
    BUSY "EBUSY",
    FAULT "EFAULT",
    INTR "EINTR",
    INVAL "EINVAL",
    IO "EIO",
    ISDIR "EISDIR",
    LIBBAD "ELIBBAD",
    LOOP "ELOOP",
    MFILE "EMFILE",
    NAMETOOLONG "ENAMETOOLONG",
    NFILE "ENFILE",
    NODEV "ENODEV",
    NOENT "ENOENT",
    NOEXEC "ENOEXEC",
    NOMEM "ENOMEM",
    NOSPC "ENOSPC",
    NOSYS "ENOSYS",
    NOTDIR "ENOTDIR",
    NXIO "ENXIO",
    PERM "EPERM",
    ROFS "EROFS",
    STALE "ESTALE",
    TIMEDOUT "ETIMEDOUT",
    TOOBIG "E2BIG",
    TXTBSY "ETXTBSY",
    USERS "EUSERS",
}
