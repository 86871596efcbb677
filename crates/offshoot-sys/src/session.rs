//! What a process has to do with the one that started it: terminal, signals, open files.

use std::io;

/// Closes every file but the three standard ones. For a process that outlives the one that started it
/// and must hold nothing of it: a lock, or a pipe whose reader waits for its end.
///
/// Only for the start of a process: a file that this process opened itself would be closed under the
/// code that uses it.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "no library has a safe form of this call")]
pub fn close_inherited_files() -> io::Result<()> {
    // SAFETY: the caller has opened nothing, so no owner of one of these descriptors exists here.
    match unsafe { libc::close_range(3, libc::c_uint::MAX, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets signals that a terminal sends (`^C`, `^\`, its end) pass this process by: they are meant for
/// the program that it started. Unlike ignored ones, caught signals end that program as usual.
#[expect(unsafe_code, reason = "no library has a safe form of this call")]
pub fn leave_terminal_signals_to_child() -> io::Result<()> {
    extern "C" fn nothing(_signal: libc::c_int) {}
    for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP] {
        let handler = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, which is safe at any point of the program.
        if unsafe { libc::signal(signal, handler) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
