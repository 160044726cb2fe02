//! The one call that starts a process.
//!
//! Owns: `posix_spawn` and what a child begins with: a session of its own, an empty signal mask,
//! default dispositions, `/dev/null` as standard input, its two pipes, its folder, and no other
//! descriptor. Must never know: paths to search, or what an error means.
//!
//! The C library takes `posix_spawn` through a `CLONE_VFORK` that copies no page tables, so its
//! cost does not grow with the daemon. Nothing here ever forks.

use std::ffi::{CStr, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::io::Errno;
use rustix::process::Pid;
use zeroize::Zeroizing;

/// The first descriptor that a child must not see.
const FIRST_CLOSED: c_int = 3;

/// A list of strings as `execve` wants it, in one block of memory that is wiped afterwards:
/// environments hold secrets.
pub(crate) struct StringList {
    bytes: Zeroizing<Vec<u8>>,
    starts: Vec<usize>,
}

impl StringList {
    /// Reserves room for `count` strings of `bytes` bytes in all, without their NULs.
    pub(crate) fn with_capacity(count: usize, bytes: usize) -> Self {
        Self {
            bytes: Zeroizing::new(Vec::with_capacity(bytes + count)),
            starts: Vec::with_capacity(count),
        }
    }

    /// Appends one string, given in parts. `EINVAL` when it holds a NUL.
    pub(crate) fn push(&mut self, parts: &[&[u8]]) -> Result<(), Errno> {
        if parts.iter().any(|part| part.contains(&0)) {
            return Err(Errno::INVAL);
        }
        self.starts.push(self.bytes.len());
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        self.bytes.push(0);
        Ok(())
    }

    /// Pointers into this list, and the null that ends them.
    fn pointers(&self) -> Vec<*mut c_char> {
        let mut pointers = Vec::with_capacity(self.starts.len() + 1);
        for start in &self.starts {
            pointers.push(self.bytes[*start..].as_ptr().cast_mut().cast());
        }
        pointers.push(ptr::null_mut());
        pointers
    }
}

/// What a child is made of.
pub(crate) struct Plan<'a> {
    pub(crate) program: &'a CStr,
    pub(crate) args: &'a StringList,
    pub(crate) env: &'a StringList,
    pub(crate) cwd: Option<&'a CStr>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
}

/// Starts the process. Returns when it has executed its program, or with the error of the first
/// step that failed. The child leads a new session, so its pid is also its group.
#[allow(unsafe_code)]
pub(crate) fn spawn(plan: &Plan<'_>) -> Result<Pid, Errno> {
    let attributes = Attributes::new()?;
    let actions = Actions::new(plan)?;
    let args = plan.args.pointers();
    let env = plan.env.pointers();
    let mut pid = 0;
    // SAFETY: `program` is NUL-terminated; `args` and `env` are null-terminated arrays of
    // NUL-terminated strings that `plan` keeps alive; `actions` and `attributes` are initialised
    // and outlive the call; the C library writes through none of them.
    check(unsafe {
        libc::posix_spawn(
            &mut pid,
            plan.program.as_ptr(),
            actions.0.as_ptr(),
            attributes.0.as_ptr(),
            args.as_ptr(),
            env.as_ptr(),
        )
    })?;
    Pid::from_raw(pid).ok_or(Errno::SRCH)
}

/// A daemon that was started with SIGCHLD ignored would have its children reaped by the kernel,
/// and could then signal a process that has got their number. Restores the default in that case.
#[allow(unsafe_code)]
pub(crate) fn keep_children_waitable() {
    let mut current = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only reads the current one, into memory of the right type; an
    // all-zero `sigaction` is a valid value, and it means the default disposition.
    unsafe {
        if libc::sigaction(libc::SIGCHLD, ptr::null(), current.as_mut_ptr()) == 0
            && current.assume_init_ref().sa_sigaction == libc::SIG_IGN
        {
            let default = MaybeUninit::<libc::sigaction>::zeroed();
            libc::sigaction(libc::SIGCHLD, default.as_ptr(), ptr::null_mut());
        }
    }
}

/// These functions return their error rather than set `errno`.
fn check(code: c_int) -> Result<(), Errno> {
    match code {
        0 => Ok(()),
        code => Err(Errno::from_raw_os_error(code)),
    }
}

struct Attributes(MaybeUninit<libc::posix_spawnattr_t>);

#[allow(unsafe_code)]
impl Attributes {
    fn new() -> Result<Self, Errno> {
        let flags =
            (libc::POSIX_SPAWN_SETSIGMASK | libc::POSIX_SPAWN_SETSIGDEF) as libc::c_short | libc::POSIX_SPAWN_SETSID;
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the first call initialises the memory it is given; only then does a value with
        // a destructor exist, and the further calls see initialised attributes. Any bits are a
        // valid signal set.
        unsafe {
            check(libc::posix_spawnattr_init(attributes.as_mut_ptr()))?;
            let mut this = Self(attributes);
            let raw = this.0.as_mut_ptr();
            let mut signals = MaybeUninit::<libc::sigset_t>::zeroed();
            check(libc::posix_spawnattr_setsigmask(raw, signals.as_ptr()))?;
            // Not `sigfillset`: it leaves out two signals that the C library keeps for itself,
            // and those would reach the program ignored.
            ptr::write_bytes(signals.as_mut_ptr(), 0xff, 1);
            check(libc::posix_spawnattr_setsigdefault(raw, signals.as_ptr()))?;
            check(libc::posix_spawnattr_setflags(raw, flags))?;
            Ok(this)
        }
    }
}

#[allow(unsafe_code)]
impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: a value of this type is always initialised, and dropped once.
        unsafe {
            libc::posix_spawnattr_destroy(self.0.as_mut_ptr());
        }
    }
}

struct Actions(MaybeUninit<libc::posix_spawn_file_actions_t>);

#[allow(unsafe_code)]
impl Actions {
    fn new(plan: &Plan<'_>) -> Result<Self, Errno> {
        let mut actions = MaybeUninit::uninit();
        // SAFETY: the first call initialises the memory it is given; only then does a value with
        // a destructor exist, and the further calls see initialised actions. The C library
        // copies the paths.
        unsafe {
            check(libc::posix_spawn_file_actions_init(actions.as_mut_ptr()))?;
            let mut this = Self(actions);
            let raw = this.0.as_mut_ptr();
            check(libc::posix_spawn_file_actions_addopen(
                raw,
                0,
                c"/dev/null".as_ptr(),
                libc::O_RDONLY,
                0,
            ))?;
            let (stdout, stderr) = (plan.stdout.as_raw_fd(), plan.stderr.as_raw_fd());
            check(libc::posix_spawn_file_actions_adddup2(raw, stdout, 1))?;
            check(libc::posix_spawn_file_actions_adddup2(raw, stderr, 2))?;
            if let Some(cwd) = plan.cwd {
                let cwd = cwd.as_ptr();
                check(libc::posix_spawn_file_actions_addchdir_np(raw, cwd))?;
            }
            // Also what the daemon itself inherited without close-on-exec.
            check(libc::posix_spawn_file_actions_addclosefrom_np(raw, FIRST_CLOSED))?;
            Ok(this)
        }
    }
}

#[allow(unsafe_code)]
impl Drop for Actions {
    fn drop(&mut self) {
        // SAFETY: a value of this type is always initialised, and dropped once.
        unsafe {
            libc::posix_spawn_file_actions_destroy(self.0.as_mut_ptr());
        }
    }
}
