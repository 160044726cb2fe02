//! The names of system errors. It must never know where an error came from.

use rustix::io::Errno;
use std::borrow::Cow;

macro_rules! names {
    ($($constant:ident)*) => {
        /// The symbolic name of an error, such as `ENOENT`; `E<number>` for one that no file operation is known to give.
        pub(crate) fn name(error: Errno) -> Cow<'static, str> {
            match error {
                $(Errno::$constant => Cow::Borrowed(concat!("E", stringify!($constant))),)*
                // The two whose constants do not spell their names.
                Errno::ACCESS => Cow::Borrowed("EACCES"),
                Errno::TOOBIG => Cow::Borrowed("E2BIG"),
                other => Cow::Owned(format!("E{}", other.raw_os_error())),
            }
        }
    };
}

names! {
    PERM NOENT SRCH INTR IO NXIO NOEXEC BADF CHILD AGAIN NOMEM FAULT NOTBLK BUSY EXIST XDEV NODEV NOTDIR ISDIR
    INVAL NFILE MFILE NOTTY TXTBSY FBIG NOSPC SPIPE ROFS MLINK PIPE DOM RANGE DEADLK NAMETOOLONG NOLCK NOSYS NOTEMPTY
    LOOP NODATA TIME PROTO OVERFLOW ILSEQ OPNOTSUPP CONNREFUSED CONNRESET NETDOWN NETUNREACH HOSTDOWN HOSTUNREACH
    TIMEDOUT NOTCONN STALE UCLEAN DQUOT NOMEDIUM MEDIUMTYPE CANCELED NOKEY KEYEXPIRED KEYREVOKED KEYREJECTED REMOTEIO
    BADMSG NOLINK COMM NOBUFS
}

/// What the system says of an error.
pub(crate) fn message(error: Errno) -> String {
    let text = std::io::Error::from(error).to_string();
    match text.rfind(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_system_headers() {
        let cases = [
            (2, "ENOENT"),
            (13, "EACCES"),
            (21, "EISDIR"),
            (20, "ENOTDIR"),
            (40, "ELOOP"),
            (28, "ENOSPC"),
            (1, "EPERM"),
            (7, "E2BIG"),
            (11, "EAGAIN"),
            (74, "EBADMSG"),
            (4000, "E4000"),
        ];
        for (number, expected) in cases {
            assert_eq!(name(Errno::from_raw_os_error(number)), expected);
        }
        assert_eq!(message(Errno::NOENT), "No such file or directory");
    }
}
