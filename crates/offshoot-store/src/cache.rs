//! An LRU cache of small objects, bounded by bytes.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use offshoot_core::{ObjectId, ObjectKind};

/// Trees are read again and again on the way to a file; they may take up to this much each.
const MAX_TREE_BYTES: usize = 1 << 20;
/// Other objects are kept only if they are small.
const MAX_OTHER_BYTES: usize = 8 << 10;
/// What an entry costs besides its bytes.
const OVERHEAD: usize = 160;

/// Objects by id. They never change, so only erased ones have to be invalidated.
pub(crate) struct ObjectCache {
    max_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: HashMap<ObjectId, Cached>,
    by_use: BTreeMap<u64, ObjectId>,
    uses: u64,
    bytes: usize,
}

struct Cached {
    kind: ObjectKind,
    bytes: Arc<[u8]>,
    last_use: u64,
}

impl ObjectCache {
    pub(crate) fn new(max_bytes: usize) -> Self {
        ObjectCache {
            max_bytes,
            state: Mutex::default(),
        }
    }

    pub(crate) fn get(&self, id: &ObjectId) -> Option<(ObjectKind, Arc<[u8]>)> {
        let mut state = self.lock();
        state.uses += 1;
        let now = state.uses;
        let cached = state.objects.get_mut(id)?;
        let before = std::mem::replace(&mut cached.last_use, now);
        let found = (cached.kind, cached.bytes.clone());
        state.by_use.remove(&before);
        state.by_use.insert(now, *id);
        Some(found)
    }

    pub(crate) fn put(&self, id: ObjectId, kind: ObjectKind, bytes: &Arc<[u8]>) {
        let largest = if kind == ObjectKind::Tree {
            MAX_TREE_BYTES
        } else {
            MAX_OTHER_BYTES
        };
        if bytes.len() > largest.min(self.max_bytes) {
            return;
        }
        let mut state = self.lock();
        state.remove(&id);
        state.uses += 1;
        let last_use = state.uses;
        state.bytes += bytes.len() + OVERHEAD;
        state.by_use.insert(last_use, id);
        state.objects.insert(
            id,
            Cached {
                kind,
                bytes: bytes.clone(),
                last_use,
            },
        );
        while state.bytes > self.max_bytes {
            let Some((_, oldest)) = state.by_use.first_key_value() else {
                break;
            };
            let oldest = *oldest;
            state.remove(&oldest);
        }
    }

    pub(crate) fn remove(&self, id: &ObjectId) {
        self.lock().remove(id);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remove(&mut self, id: &ObjectId) {
        if let Some(cached) = self.objects.remove(id) {
            self.by_use.remove(&cached.last_use);
            self.bytes -= cached.bytes.len() + OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ObjectId {
        ObjectId::from_bytes([number; 20])
    }

    #[test]
    fn the_bound_holds_and_the_oldest_goes_first() {
        let cache = ObjectCache::new(4 * (1000 + OVERHEAD));
        let bytes: Arc<[u8]> = vec![7; 1000].into();
        for number in 0..4 {
            cache.put(id(number), ObjectKind::Blob, &bytes);
        }
        assert!(cache.get(&id(0)).is_some());
        cache.put(id(4), ObjectKind::Blob, &bytes);
        assert!(cache.get(&id(1)).is_none(), "1 was used longest ago");
        for number in [0, 2, 3, 4] {
            assert!(cache.get(&id(number)).is_some(), "{number}");
        }
        cache.put(id(4), ObjectKind::Blob, &bytes);
        cache.remove(&id(0));
        assert!(cache.get(&id(0)).is_none());
        let state = cache.lock();
        assert_eq!(state.bytes, 3 * (1000 + OVERHEAD));
        assert_eq!(state.objects.len(), state.by_use.len());
    }

    #[test]
    fn large_blobs_are_not_kept_but_large_trees_are() {
        let cache = ObjectCache::new(4 << 20);
        let bytes: Arc<[u8]> = vec![7; 100_000].into();
        cache.put(id(1), ObjectKind::Blob, &bytes);
        cache.put(id(2), ObjectKind::Tree, &bytes);
        assert!(cache.get(&id(1)).is_none());
        assert!(cache.get(&id(2)).is_some());
    }
}
