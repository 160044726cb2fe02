//! Why a command could not be started.
//!
//! Owns: the kinds of start failure with their stable codes. Must never know: envelopes. No
//! message names a path, an argument or a variable.

use rustix::io::Errno;

use crate::errno::errno_name;

/// A command that never ran. Each kind carries the error number the system gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// No such program, or no program of that name on the child's `PATH`.
    #[error("the executable was not found")]
    ExecutableNotFound(i32),
    /// The folder is missing, or it is none.
    #[error("the working directory was not found")]
    CwdNotFound(i32),
    /// The program, its interpreter or the folder is not ours to use.
    #[error("permission to execute was denied")]
    PermissionDenied(i32),
    /// Not a program this system can execute; a script without `#!` too.
    #[error("the executable has no known format")]
    ExecFormatError(i32),
    /// Arguments or environment are beyond the kernel's limits.
    #[error("the argument list or the environment is too long")]
    ArgumentListTooLong(i32),
    /// The program is there, the interpreter that it names is not.
    #[error("the interpreter of the executable was not found")]
    InterpreterNotFound(i32),
    /// Anything else, such as a lack of descriptors or memory.
    #[error("the process could not be started")]
    SpawnFailed(i32),
}

impl StartError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::ExecutableNotFound(_) => "executable_not_found",
            Self::CwdNotFound(_) => "cwd_not_found",
            Self::PermissionDenied(_) => "permission_denied",
            Self::ExecFormatError(_) => "exec_format_error",
            Self::ArgumentListTooLong(_) => "argument_list_too_long",
            Self::InterpreterNotFound(_) => "interpreter_not_found",
            Self::SpawnFailed(_) => "spawn_failed",
        }
    }

    /// The system's name for the cause, such as `ENOENT`, where it has a common one.
    pub fn errno(&self) -> Option<&'static str> {
        let (Self::ExecutableNotFound(number)
        | Self::CwdNotFound(number)
        | Self::PermissionDenied(number)
        | Self::ExecFormatError(number)
        | Self::ArgumentListTooLong(number)
        | Self::InterpreterNotFound(number)
        | Self::SpawnFailed(number)) = self;
        errno_name(Errno::from_raw_os_error(*number))
    }

    /// A failure that says nothing about the command itself.
    pub(crate) fn failed(errno: Errno) -> Self {
        Self::SpawnFailed(errno.raw_os_error())
    }
}
