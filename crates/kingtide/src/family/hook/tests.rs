//! Goal: the calls of one family come in the order of tickets, whatever becomes of the tickets. Under `--cfg loom` in
//! every interleaving.

use super::*;

fn silent() -> CommitHook {
    Arc::new(|_| Ok(()))
}

fn hooked() -> Arc<HookQueue> {
    let queue = HookQueue::new();
    drop(queue.replace(Some(silent())));
    queue
}

#[cfg(not(loom))]
mod plain {
    use super::*;

    struct Nothing;

    impl OperationList for Nothing {
        fn count(&self) -> usize {
            0
        }

        fn operation(&self, _index: usize) -> CommitOperation<'_> {
            CommitOperation::Delete { key: b"" }
        }
    }

    fn serving(queue: &HookQueue) -> u64 {
        queue.state.lock().serving
    }

    #[test]
    fn tickets_that_are_given_up_are_passed_over() {
        let queue = hooked();
        let mut tickets: VecDeque<HookTicket> = (0..5)
            .map(|_| queue.ticket().expect("a hook is set"))
            .collect();
        drop(tickets.remove(3));
        drop(tickets.remove(1));
        assert_eq!(serving(&queue), 0);
        for turn in [2, 4] {
            let ticket = tickets.pop_front().expect("three are left");
            ticket.call("f", SeqNo(1), &Nothing);
            assert_eq!(serving(&queue), turn);
        }
        drop(tickets);
        assert_eq!(serving(&queue), 5);
        assert!(queue.state.lock().abandoned.is_empty());
        assert_eq!(queue.counts().calls, 2);
    }

    #[test]
    fn a_ticket_keeps_the_hook_of_its_moment() {
        let queue = HookQueue::new();
        assert!(queue.ticket().is_none());
        let called = Arc::new(Mutex::new(Vec::new()));
        let hook = |name: &'static str| -> CommitHook {
            let called = Arc::clone(&called);
            Arc::new(move |_| {
                called.lock().push(name);
                Ok(())
            })
        };
        queue.settle(queue.replace(Some(hook("first"))));
        let early = queue.ticket().expect("a hook is set");
        let replaced = queue.replace(Some(hook("second")));
        let late = queue.ticket().expect("a hook is set");
        early.call("f", SeqNo(1), &Nothing);
        // Does not wait for the second one's ticket.
        queue.settle(replaced);
        let cleared = queue.replace(None);
        assert!(queue.ticket().is_none());
        late.call("f", SeqNo(2), &Nothing);
        queue.settle(cleared);
        assert_eq!(*called.lock(), ["first", "second"]);
    }

    #[test]
    fn panics_and_errors_are_counted_and_end_the_turn() {
        let queue = HookQueue::new();
        let fail: CommitHook = Arc::new(|event| match event.sequence().0 {
            1 => Err("no".to_owned()),
            2 => panic!("with a {}", "message"),
            _ => Ok(()),
        });
        drop(queue.replace(Some(fail)));
        let call = |sequence| {
            let ticket = queue.ticket().expect("a hook is set");
            ticket.call("f", SeqNo(sequence), &Nothing);
            assert!(!is_inside_any());
            let counts = queue.counts();
            (counts.calls, counts.failures, counts.last_failure)
        };
        assert_eq!(call(1), (1, 1, Some("no".to_owned())));
        let after_panic = (2, 2, Some("a panic: with a message".to_owned()));
        assert_eq!(call(2), after_panic);
        assert_eq!(call(3), (3, 2, after_panic.2));
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;

    /// What commits to two families, and the calls that were made, by number.
    #[derive(Clone)]
    struct Committer {
        queues: Vec<Arc<HookQueue>>,
        commit_lock: Arc<Mutex<()>>,
        calls: Arc<Mutex<Vec<Vec<u64>>>>,
    }

    impl Committer {
        fn new(families: usize) -> Self {
            Self {
                queues: (0..families).map(|_| hooked()).collect(),
                commit_lock: Arc::default(),
                calls: Arc::new(Mutex::new(vec![Vec::new(); families])),
            }
        }

        /// One commit to all families, whose outcome is known or not.
        fn commit(&self, is_known: bool) {
            let tickets: Vec<Option<HookTicket>> = {
                let _ordered = self.commit_lock.lock();
                self.queues.iter().map(|queue| queue.ticket()).collect()
            };
            for (family, ticket) in tickets.into_iter().enumerate() {
                if let Some(ticket) = ticket.filter(|_| is_known) {
                    ticket.wait_turn();
                    self.calls.lock()[family].push(ticket.number);
                }
            }
        }

        fn spawn(&self, is_known: bool) -> loom::thread::JoinHandle<()> {
            let committer = self.clone();
            loom::thread::spawn(move || committer.commit(is_known))
        }
    }

    fn model(body: impl Fn() + Send + Sync + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(body);
    }

    /// Goal: who waits for a turn gets it, in order, beside one who gives its ticket up.
    #[test]
    fn loom_hook_calls_come_in_the_order_of_tickets() {
        model(|| {
            let committer = Committer::new(1);
            let threads = [committer.spawn(true), committer.spawn(false)];
            committer.commit(true);
            for thread in threads {
                thread.join().expect("no panic");
            }
            let calls = committer.calls.lock();
            assert!(calls[0].is_sorted());
            assert_eq!(calls[0].len(), 2);
        });
    }

    /// Goal: two commits to two families do not wait for each other, and no call comes after its hook was cleared.
    #[test]
    fn loom_a_hook_that_is_cleared_is_not_called() {
        model(|| {
            let committer = Committer::new(2);
            let threads = [committer.spawn(true), committer.spawn(true)];
            let replaced = {
                let _ordered = committer.commit_lock.lock();
                committer.queues[0].replace(None)
            };
            committer.queues[0].settle(replaced);
            let told = committer.calls.lock()[0].clone();
            for thread in threads {
                thread.join().expect("no panic");
            }
            let calls = committer.calls.lock();
            assert_eq!(calls[0], told);
            assert!(calls[0].is_sorted() && calls[1].is_sorted());
            assert_eq!(calls[1].len(), 2);
        });
    }
}
