use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// How many files the process may have open, once it has asked for as many as it can get
/// (`RLIMIT_NOFILE`). None if the system doesn't say.
pub fn open_files() -> Option<usize> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let files = match setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    };
    Some(usize::try_from(files).unwrap_or(usize::MAX))
}
