//! Goal: nothing but a code leaves the border, and what it stands for is told to the thread that got it. Method: bodies
//! that fail in every way.

use std::ffi::CStr;

use super::*;

fn message() -> String {
    // SAFETY: never null, ends with a zero byte, and lives until the next failure of this thread.
    let text = unsafe { CStr::from_ptr(last_message()) };
    text.to_string_lossy().into_owned()
}

#[test]
fn a_panic_becomes_a_code() {
    let code = answer(|| panic!("a panic that a test makes"));
    assert_eq!(code, code::UNKNOWN);
    assert_eq!((last_code(), last_kind()), (code::UNKNOWN, kind::INTERNAL));
    assert!(message().contains("panicked"));
    let number = answer_with(|| -> Outcome<i32> { panic!("another one") }, |_| 42);
    assert_eq!(number, 42);
}

#[test]
fn failures_are_told_to_their_thread_alone_and_stay_until_the_next() {
    forget_last();
    assert_eq!(message(), "");
    assert_eq!(
        answer(|| Err(Failure::invalid("with a \0 inside"))),
        code::INVALID_ARGS
    );
    assert_eq!(answer(|| Ok(())), code::SUCCESS);
    assert_eq!(message(), "with a   inside");
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!((last_code(), message()), (0, String::new())));
    });
    assert!(last_conflict().is_none());
}

#[test]
fn inside_a_callback_calls_that_wait_are_refused() {
    assert!(not_in_callback().is_ok());
    {
        let _outer = InCallback::enter();
        let inner = InCallback::enter();
        drop(inner);
        assert_eq!(
            not_in_callback().map_err(|failure| failure.code()),
            Err(code::BUSY)
        );
        assert!(not_in_hook().is_ok());
    }
    assert!(not_in_callback().is_ok());
    let _hook = InHook::enter();
    assert_eq!(
        not_in_hook().map_err(|failure| failure.code()),
        Err(code::BUSY)
    );
}
