//! Families, flushes, reopening, kills and power cuts.

use kingtide::{Db, ErrorKind};
use kingtide_env::MemoryEnv;

use super::driver::{Driver, FAMILIES_MAX, OpenFamily};
use crate::{
    dump::{DEFAULT_FAMILY, dump},
    violation::{Checked, Violation, ensure},
    world,
};

impl Driver {
    pub(super) fn create_family(&mut self) -> Checked {
        if self.families.len() >= FAMILIES_MAX {
            return Ok(());
        }
        let name = self.new_name();
        let options = self.some_family_options();
        self.note(format!(
            "create {name}, {:?}, {}",
            options.sync, options.comparator
        ));
        let handle = self.db.create_family(&name, options.clone())?;
        let number = self.model.create(&name, &options.comparator);
        let again = self.db.create_family(&name, options.clone());
        ensure(
            again.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists),
            || "a family was created twice".to_owned(),
        )?;
        self.epoch += 1;
        let family = OpenFamily {
            number,
            handle,
            sync: options.sync,
            comparator: options.comparator,
            epoch: self.epoch,
        };
        self.families.insert(name, family);
        self.families_changed()
    }

    pub(super) fn drop_family(&mut self) -> Checked {
        if self.families.len() < 2 {
            return Ok(());
        }
        let name = self.some_family();
        self.note(format!("drop {name}"));
        if self.is_in_use(&name) {
            let refused = self.db.drop_family(&name);
            return ensure(
                refused.is_err_and(|error| error.kind() == ErrorKind::Busy),
                || "a family was dropped although a prepared transaction writes to it".to_owned(),
            );
        }
        // What becomes of transactions and iterators of a dropped family is not part of the promise.
        self.transactions.clear();
        if let Some(family) = self.families.remove(&name) {
            self.iters.retain(|held| held.family != family.number);
        }
        self.db.drop_family(&name)?;
        self.model.drop_family(&name);
        let lookup = self.db.family(&name);
        ensure(
            lookup.is_err_and(|error| error.kind() == ErrorKind::NotFound),
            || "a dropped family is still there".to_owned(),
        )?;
        self.families_changed()
    }

    pub(super) fn rename_or_clone_family(&mut self) -> Checked {
        let from = self.some_family();
        let to = self.new_name();
        if self.random.one_in(2) || self.families.len() >= FAMILIES_MAX {
            self.note(format!("rename {from} to {to}"));
            self.db.rename_family(&from, &to)?;
            self.model.rename(&from, &to);
            if let Some(family) = self.families.remove(&from) {
                let name = family.handle.name();
                ensure(name == to, || {
                    format!("the handle is called {name}, not {to}")
                })?;
                self.families.insert(to, family);
            }
        } else {
            self.note(format!("clone {from} to {to}"));
            let handle = self.db.clone_family(&from, &to)?;
            let number = self.model.clone_family(&from, &to);
            self.epoch += 1;
            let source = &self.families[&from];
            let family = OpenFamily {
                number: number.unwrap_or(source.number),
                handle,
                sync: source.sync,
                comparator: source.comparator.clone(),
                epoch: self.epoch,
            };
            self.families.insert(to, family);
        }
        self.families_changed()
    }

    /// A change of the families is durable when it returns, and with it everything that was committed before.
    fn families_changed(&mut self) -> Checked {
        self.floor = self.model.last_commit();
        let mut names = self.db.families();
        names.retain(|name| name != DEFAULT_FAMILY);
        let expected = self.model.names();
        ensure(names == expected, || {
            format!("the families are {names:?}, expected {expected:?}")
        })
    }

    pub(super) fn flush(&mut self) -> Checked {
        let name = self.some_family();
        self.note(format!("flush {name}"));
        let family = &self.families[&name];
        self.db.flush(&family.handle)?;
        self.floor = self.floor.max(self.model.last_commit_of(family.number));
        Ok(())
    }

    pub(super) fn compact(&mut self) -> Checked {
        let name = self.some_family();
        self.note(format!("compact {name}"));
        self.db.compact(&self.families[&name].handle)?;
        Ok(())
    }

    pub(super) fn sync_wal(&mut self) -> Checked {
        self.note("sync_wal");
        self.db.sync_wal()?;
        self.floor = self.model.last_commit();
        Ok(())
    }

    /// Lets go of everything that belongs to the open database, which then must end.
    fn let_go(&mut self) {
        self.transactions.clear();
        self.iters.clear();
        self.snapshots.clear();
        self.families
            .values_mut()
            .for_each(|family| family.epoch = 0);
    }

    pub(super) fn reopen(&mut self) -> Checked {
        self.note("close and open");
        self.let_go();
        self.db.close()?;
        self.floor = self.model.last_commit();
        self.tally.reopens += 1;
        self.open()
    }

    /// A kill or a power cut, while flushes and merges run.
    pub(super) fn crash(&mut self) -> Checked {
        let seed = self.random.draw();
        let found = if self.random.one_in(3) {
            self.note("kill");
            self.floor = self.model.last_commit();
            self.tally.kills += 1;
            self.env.kill()
        } else {
            let image = *self.random.pick(&world::IMAGES);
            self.note(format!(
                "power cut, {image:?}, floor {} of {}",
                self.floor,
                self.model.last_commit()
            ));
            self.tally.power_cuts += 1;
            self.env.crash(image, seed)
        };
        self.let_go();
        world::power_off(&self.env);
        // A machine that is off answers errors, also here; what counts is what the next opening finds.
        let _ = self.db.close();
        self.env = found;
        self.settings.env = world::options(&self.env).env;
        self.open()
    }

    /// Opens what is there, and looks whether it is what must be there.
    fn open(&mut self) -> Checked {
        if self.random.one_in(4) {
            self.look_without_writing()?;
        }
        let last = self.model.last_commit();
        self.db = Db::open(world::DATABASE, self.settings.clone())
            .map_err(|error| Violation::from(error).within("open"))?;
        let (found, clock) = world::timed(&self.env, || dump(&self.db));
        self.find_prepared()?;
        let kept = self.model.find_prefix(&found?, self.floor, clock)?;
        self.settle_prepared(kept)?;
        self.tally.commits_lost += last - kept;
        // Recovery is durable: what it found cannot be lost by a later power cut.
        self.floor = kept;
        self.last_sequence = self.db.snapshot()?.sequence();
        for (name, family) in &mut self.families {
            family.handle = self.db.family(name)?;
        }
        Ok(())
    }

    /// A read-only opening shows a prefix too, and writes nothing.
    fn look_without_writing(&mut self) -> Checked {
        let calls = self.env.io_count();
        let mut settings = self.settings.clone();
        settings.read_only = true;
        let db = Db::open(world::DATABASE, settings)
            .map_err(|error| Violation::from(error).within("open for reading only"))?;
        let (found, clock) = world::timed(&self.env, || dump(&db));
        self.model
            .clone()
            .find_prefix(&found?, self.floor, clock)
            .map_err(|violation| violation.within("opened for reading only"))?;
        db.close()?;
        unwritten(&self.env, calls)
    }
}

fn unwritten(env: &MemoryEnv, calls: u64) -> Checked {
    let written = env.io_count() - calls;
    ensure(written == 0, || {
        format!("{written} calls changed the directory of a database opened for reading only")
    })
}
