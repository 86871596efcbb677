//! A cache of the content ids of files on disk, so that a large file is hashed once and not with
//! every request for it.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use offshoot_core::{ObjectId, Timestamp};
use offshoot_sys::Stat;

/// The most files in each of the two generations of the cache.
const GENERATION: usize = 4096;
/// A file that changed this recently may change again within the same tick of the clock.
const RACY_MICROS: i64 = 50_000;

/// The key of a file. Every write to a file changes its `ctime`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Identity {
    dev: u64,
    ino: u64,
    ctime_ns: i128,
    size: u64,
}

impl From<&Stat> for Identity {
    fn from(stat: &Stat) -> Self {
        Identity {
            dev: stat.dev,
            ino: stat.ino,
            ctime_ns: stat.ctime_ns,
            size: stat.size,
        }
    }
}

/// The cache. When the young generation is full it becomes the old one.
#[derive(Default)]
pub(crate) struct ContentIdCache(Mutex<[HashMap<Identity, ObjectId>; 2]>);

impl ContentIdCache {
    /// The id of the file, if it is cached and the file has not changed since.
    pub(crate) fn get(&self, stat: &Stat) -> Option<ObjectId> {
        let key = Identity::from(stat);
        let generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        generations
            .iter()
            .find_map(|known| known.get(&key))
            .copied()
    }

    /// Caches the id of a file, unless the file may change again without a change of its `ctime`.
    pub(crate) fn put(&self, stat: &Stat, id: ObjectId) {
        let changed = Timestamp((stat.ctime_ns / 1_000) as i64);
        if Timestamp::now().0 - changed.0 < RACY_MICROS {
            return;
        }
        let mut generations = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if generations[0].len() >= GENERATION {
            generations[1] = std::mem::take(&mut generations[0]);
        }
        generations[0].insert(Identity::from(stat), id);
    }
}
