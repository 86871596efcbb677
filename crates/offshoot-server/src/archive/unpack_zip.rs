//! Reads zip files. What an entry is called and how large it is comes from the directory at the end
//! of the file; what the entries themselves say of that is not looked at.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};

use offshoot_core::Result;
use zip::ZipArchive;
use zip::result::ZipError;

use super::unpack::{Entry, Kind, ReadState, Unpacking, too_many, too_much, unreadable};

/// No target of a link is longer: the kernel takes none.
const MAX_TARGET: u64 = 4096;

impl Unpacking<'_> {
    pub(super) fn zip(&self, mut archive: File, state: &mut ReadState<'_>) -> Result<()> {
        let declared = declared_entries(&mut archive).map_err(unreadable)?;
        if declared > self.limits.entries {
            return Err(too_many(self.limits.entries));
        }
        let mut zip = ZipArchive::new(BufReader::new(archive)).map_err(unreadable)?;
        // What the directory says is checked before anything is written; what is really there
        // is counted while it is.
        let mut total = 0u64;
        for index in 0..zip.len() {
            total = total.saturating_add(zip.by_index_raw(index).map_err(unreadable)?.size());
        }
        if total > self.limits.bytes {
            return Err(too_much(self.limits.bytes));
        }
        for index in 0..zip.len() {
            if self.failed() {
                return Ok(());
            }
            self.zip_entry(&mut zip, index, state)?;
        }
        Ok(())
    }

    fn zip_entry(
        &self,
        zip: &mut ZipArchive<BufReader<File>>,
        index: usize,
        state: &mut ReadState<'_>,
    ) -> Result<()> {
        let (name, mut kind, size) = {
            let entry = zip.by_index_raw(index).map_err(unreadable)?;
            (entry.name_raw().to_vec(), kind_of(&entry), entry.size())
        };
        let mut nothing = io::empty();
        let mut opened;
        let content: &mut dyn Read = match &mut kind {
            Kind::Dir | Kind::Other(_) => &mut nothing,
            Kind::File { .. } | Kind::Link(_) => match zip.by_index(index) {
                Ok(content) => {
                    opened = content;
                    &mut opened
                }
                // It is whole, but of a kind that cannot be read here.
                Err(cause @ ZipError::UnsupportedArchive(_)) => {
                    return self.refuse(&name, unreadable(cause));
                }
                Err(cause) => return Err(unreadable(cause)),
            },
        };
        if let Kind::Link(target) = &mut kind {
            let read = content.take(MAX_TARGET).read_to_end(target);
            read.map_err(unreadable)?;
        }
        let entry = Entry {
            name: &name,
            kind,
            size,
            content,
        };
        self.entry(entry, state).map(drop)
    }
}

fn kind_of<R: Read>(entry: &zip::read::ZipFile<'_, R>) -> Kind {
    const TYPE: u32 = 0o170_000;
    let mode = entry.unix_mode().unwrap_or(0);
    match mode & TYPE {
        _ if entry.encrypted() => Kind::Other("it is encrypted"),
        // The target is its content.
        0o120_000 => Kind::Link(Vec::new()),
        0 | 0o100_000 | 0o040_000 if entry.is_dir() => Kind::Dir,
        0 | 0o100_000 => Kind::File {
            executable: mode & 0o100 != 0,
        },
        0o040_000 => Kind::Dir,
        _ => Kind::Other("devices, pipes and sockets are not imported"),
    }
}

/// How many entries a zip file says it has, from the record at its end. The library reserves room
/// for all of them before we could count.
fn declared_entries(file: &mut File) -> io::Result<u64> {
    let size = file.seek(SeekFrom::End(0))?;
    let tail = size.min(22 + 65_535);
    file.seek(SeekFrom::Start(size - tail))?;
    let mut end = vec![0; tail as usize];
    file.read_exact(&mut end)?;
    file.seek(SeekFrom::Start(0))?;
    let found = end.windows(4).rposition(|four| four == b"PK\x05\x06");
    let Some(record) = found.and_then(|at| end.get(at..at + 22)) else {
        return Ok(0);
    };
    let short = u64::from(u16::from_le_bytes([record[10], record[11]]));
    // The record for larger numbers stands before this one.
    let large = end.windows(4).rposition(|four| four == b"PK\x06\x06");
    let large = large.and_then(|at| end.get(at + 32..at + 40));
    let large = large.map(|bytes| {
        let mut number = [0; 8];
        number.copy_from_slice(bytes);
        u64::from_le_bytes(number)
    });
    Ok(large.unwrap_or(0).max(short))
}
