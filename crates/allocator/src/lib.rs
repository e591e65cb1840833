//! The memory allocator of every program that links this crate: jemalloc, where it is supported.
//! Without the feature `jemalloc`, as tests are built, it is the C library's: to build jemalloc
//! takes minutes.
//!
//! The C library's allocator keeps freed pages for as long as a page after them is in use, so that
//! a process stays as large as its busiest moment.

#![forbid(unsafe_code)]

#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Returns freed pages to the operating system within 10 s from now on, also while the process is
/// idle, through a thread in the background.
///
/// # Errors
///
/// jemalloc refuses the setting; the process works as before.
#[cfg(all(feature = "jemalloc", not(target_env = "msvc")))]
pub fn return_freed_pages() -> Result<(), String> {
    tikv_jemalloc_ctl::background_thread::write(true).map_err(|error| error.to_string())
}

/// Nothing to do for this platform's allocator.
///
/// # Errors
///
/// None.
#[cfg(not(all(feature = "jemalloc", not(target_env = "msvc"))))]
pub fn return_freed_pages() -> Result<(), String> {
    Ok(())
}
