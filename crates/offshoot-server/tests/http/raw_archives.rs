//! Archives written byte by byte: libraries refuse the names that matter here.

/// A tar entry as a test wants it.
#[derive(Clone, Debug, Default)]
pub(crate) struct TarEntry<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) kind: u8,
    pub(crate) link: &'a [u8],
    pub(crate) content: &'a [u8],
}

/// How names that do not fit into a header are written, and whether those that do are too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Names {
    /// In the header alone, cut off at 100 bytes.
    Header,
    /// In the header and, from the last `/` that fits, its prefix.
    Prefix,
    /// In entries of GNU tar before it, whatever their length.
    Gnu,
    /// In a pax header before it, whatever their length.
    Pax,
}

/// A header as it is given: nobody checks the name.
fn header(name: &[u8], prefix: &[u8], kind: u8, link: &[u8], size: usize) -> [u8; 512] {
    let mut header = [0u8; 512];
    let mut put = |at: usize, room: usize, bytes: &[u8]| {
        let fits = bytes.len().min(room);
        header[at..at + fits].copy_from_slice(&bytes[..fits]);
    };
    put(0, 100, name);
    put(100, 8, b"0000644");
    put(108, 8, b"0000000");
    put(116, 8, b"0000000");
    put(124, 12, format!("{size:011o}").as_bytes());
    put(136, 12, b"00000000000");
    put(148, 8, b"        ");
    put(156, 1, &[kind]);
    put(157, 100, link);
    put(257, 8, b"ustar\x0000");
    put(345, 155, prefix);
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

fn block(tar: &mut Vec<u8>, header: &[u8; 512], content: &[u8]) {
    tar.extend_from_slice(header);
    tar.extend_from_slice(content);
    tar.resize(tar.len().div_ceil(512) * 512, 0);
}

/// One record of a pax header: its length counts itself.
fn pax_record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = 1 + key.len() + 1 + value.len() + 1;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    let mut record = format!("{length} {key}=").into_bytes();
    record.extend_from_slice(value);
    record.push(b'\n');
    record
}

/// Adds an entry to a tar.
pub(crate) fn add(tar: &mut Vec<u8>, names: Names, entry: &TarEntry<'_>) {
    let TarEntry {
        name,
        kind,
        link,
        content,
    } = *entry;
    let mut prefix: (&[u8], &[u8]) = (b"", name);
    match names {
        Names::Header => {}
        Names::Prefix => {
            let fits = |at: &usize| *at <= 155 && name.len() - at - 1 <= 100;
            let mut slashes = (0..name.len()).filter(|&at| name[at] == b'/');
            if let Some(at) = slashes.rfind(fits) {
                prefix = (&name[..at], &name[at + 1..]);
            }
        }
        Names::Gnu => {
            let long = [name, b"\0"].concat();
            block(
                tar,
                &header(b"././@LongLink", b"", b'L', b"", long.len()),
                &long,
            );
            if !link.is_empty() {
                let long = [link, b"\0"].concat();
                block(
                    tar,
                    &header(b"././@LongLink", b"", b'K', b"", long.len()),
                    &long,
                );
            }
        }
        Names::Pax => {
            let mut records = pax_record("path", name);
            if !link.is_empty() {
                records.extend(pax_record("linkpath", link));
            }
            block(
                tar,
                &header(b"pax", b"", b'x', b"", records.len()),
                &records,
            );
        }
    }
    let head = header(prefix.1, prefix.0, kind, link, content.len());
    block(tar, &head, content);
}

/// Adds a header that extends the next one, as it is given.
pub(crate) fn add_raw(tar: &mut Vec<u8>, kind: u8, content: &[u8]) {
    block(tar, &header(b"raw", b"", kind, b"", content.len()), content);
}

/// A pax header that sets one thing.
pub(crate) fn add_pax(tar: &mut Vec<u8>, key: &str, value: &[u8]) {
    add_raw(tar, b'x', &pax_record(key, value));
}

/// The end of a tar.
pub(crate) fn end(mut tar: Vec<u8>) -> Vec<u8> {
    tar.resize(tar.len() + 1024, 0);
    tar
}

/// A tar of entries.
pub(crate) fn tar_of(names: Names, entries: &[TarEntry<'_>]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        add(&mut tar, names, entry);
    }
    end(tar)
}

/// A zip entry as a test wants it.
#[derive(Clone, Debug)]
pub(crate) struct ZipEntry<'a> {
    /// What the directory at the end calls it.
    pub(crate) name: &'a [u8],
    /// What the entry itself says.
    pub(crate) local_name: &'a [u8],
    /// The mode of Unix with the type of the file.
    pub(crate) mode: u32,
    pub(crate) content: &'a [u8],
}

/// A zip file of stored entries.
pub(crate) fn zip_of(entries: &[ZipEntry<'_>]) -> Vec<u8> {
    let mut zip = Vec::new();
    let mut directory = Vec::new();
    for entry in entries {
        let at = zip.len() as u32;
        let mut common = Vec::new();
        // Version, flags, method, time, date.
        common.extend_from_slice(&[20, 0, 0, 0, 0, 0, 0, 0, 0x21, 0]);
        common.extend_from_slice(&crc32(entry.content).to_le_bytes());
        let size = (entry.content.len() as u32).to_le_bytes();
        common.extend_from_slice(&size);
        common.extend_from_slice(&size);
        zip.extend_from_slice(b"PK\x03\x04");
        zip.extend_from_slice(&common);
        zip.extend_from_slice(&(entry.local_name.len() as u16).to_le_bytes());
        zip.extend_from_slice(&[0, 0]);
        zip.extend_from_slice(entry.local_name);
        zip.extend_from_slice(entry.content);
        // Made on Unix.
        directory.extend_from_slice(b"PK\x01\x02\x14\x03");
        directory.extend_from_slice(&common);
        directory.extend_from_slice(&(entry.name.len() as u16).to_le_bytes());
        // No extra field, no comment, first disk, no internal attributes.
        directory.extend_from_slice(&[0; 8]);
        directory.extend_from_slice(&(entry.mode << 16).to_le_bytes());
        directory.extend_from_slice(&at.to_le_bytes());
        directory.extend_from_slice(entry.name);
    }
    let (at, count) = (zip.len() as u32, entries.len() as u16);
    zip.extend_from_slice(&directory);
    zip.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    zip.extend_from_slice(&count.to_le_bytes());
    zip.extend_from_slice(&count.to_le_bytes());
    zip.extend_from_slice(&(directory.len() as u32).to_le_bytes());
    zip.extend_from_slice(&at.to_le_bytes());
    zip.extend_from_slice(&[0, 0]);
    zip
}

fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}
