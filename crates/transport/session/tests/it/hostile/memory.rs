//! How much memory a thread holds: each test runs on one, and so measures itself alone.
#![expect(unsafe_code, reason = "an allocator that counts has to be one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn note(bytes: isize) {
    // A thread that ends may free what is left after the counter is gone.
    let _ = HELD.try_with(|held| held.set(held.get() + bytes));
}

// SAFETY: every call goes to the system's allocator as it is; the counter allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as isize);
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        note(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(size as isize - layout.size() as isize);
        // SAFETY: as above.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that this thread has allocated and not freed.
pub(crate) fn held() -> isize {
    HELD.with(Cell::get)
}
