//! Work shared out among a few threads, whose results come back one by one.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError, mpsc},
    thread,
};

/// Does `work` with each item, on as many threads as there are `places`, and `take`s what comes of it, on the calling
/// thread. A thread works in one of the places, so that no two are in the same.
///
/// # Errors
/// The first one of `work` or `take`; items that were not begun by then are left.
pub fn each<P, T, R>(
    places: &[P],
    items: Vec<T>,
    work: impl Fn(&P, T) -> Result<R, String> + Sync,
    mut take: impl FnMut(R) -> Result<(), String>,
) -> Result<(), String>
where
    P: Sync,
    T: Send,
    R: Send,
{
    let queue = Mutex::new(VecDeque::from(items));
    let lock = || queue.lock().unwrap_or_else(PoisonError::into_inner);
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for place in places {
            let sender = sender.clone();
            let (lock, work) = (&lock, &work);
            scope.spawn(move || {
                loop {
                    let item = lock().pop_front();
                    let Some(item) = item else { return };
                    if sender.send(work(place, item)).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut outcome = Ok(());
        for result in results {
            if let Err(message) = result.and_then(&mut take) {
                lock().clear();
                outcome = outcome.and(Err(message));
            }
        }
        outcome
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_on_once() {
        let mut sum = 0;
        let doubled = |_: &(), item: u64| Ok(item * 2);
        let outcome = each(&[(), ()], (1..=100).collect(), doubled, |item| {
            sum += item;
            Ok(())
        });
        assert_eq!((outcome, sum), (Ok(()), 10_100));
    }

    #[test]
    fn an_error_ends_the_work() {
        let mut count = 0;
        let work = |_: &(), item: u64| match item {
            3 => Err("three".to_owned()),
            _ => Ok(item),
        };
        let outcome = each(&[()], (0..1_000_000).collect(), work, |_| {
            count += 1;
            Ok(())
        });
        assert_eq!(outcome, Err("three".to_owned()));
        assert!(count < 1_000_000);
    }
}
