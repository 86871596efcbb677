//! The framing of git's protocols: packets with their length in four hexadecimal digits before
//! them.

use std::io::{self, Read, Write};

use offshoot_core::{Error, Result};

/// The most bytes of content in one packet, as git has it.
const LARGEST: usize = 65_516;

/// One packet of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packet<'a> {
    /// Content, without the newline at its end.
    Data(&'a [u8]),
    /// The end of a list or of the request.
    Flush,
    /// The end of a section.
    Delimiter,
}

/// The packets of a request, one after the other.
pub(crate) struct Packets<'a>(&'a [u8]);

impl<'a> Packets<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Packets(bytes)
    }

    /// The next packet; none at the end of the request.
    pub(crate) fn next(&mut self) -> Result<Option<Packet<'a>>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let bad = || Error::invalid("the request is not in git's packet format");
        let (digits, rest) = self.0.split_at_checked(4).ok_or_else(bad)?;
        // `from_str_radix` alone would also take a sign.
        let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        let length = usize::from_str_radix(digits, 16).map_err(|_| bad())?;
        let packet = match length {
            _ if !is_hex => return Err(bad()),
            0 => Packet::Flush,
            1 => Packet::Delimiter,
            2 | 3 => return Err(bad()),
            _ => {
                let (data, after) = rest.split_at_checked(length - 4).ok_or_else(bad)?;
                self.0 = after;
                return Ok(Some(Packet::Data(data.strip_suffix(b"\n").unwrap_or(data))));
            }
        };
        self.0 = rest;
        Ok(Some(packet))
    }
}

/// One packet of a request that is read as it comes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum OwnedPacket {
    /// Content, without the newline at its end.
    Data(Vec<u8>),
    /// The end of a list.
    Flush,
    /// The end of the request.
    End,
}

/// Reads the next packet of a stream, and nothing after it.
pub(crate) fn read_packet(input: &mut dyn Read) -> Result<OwnedPacket> {
    let broke_off = |error: io::Error| Error::invalid("the request broke off").with_source(error);
    let mut digits = [0; 4];
    let mut filled = 0;
    while filled < digits.len() {
        match input.read(&mut digits[filled..]).map_err(broke_off)? {
            0 if filled == 0 => return Ok(OwnedPacket::End),
            0 => return Err(broke_off(io::ErrorKind::UnexpectedEof.into())),
            count => filled += count,
        }
    }
    if digits == *b"0000" {
        return Ok(OwnedPacket::Flush);
    }
    let bad = || Error::invalid("the request is not in git's packet format");
    let is_hex = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(&digits).map_err(|_| bad())?;
    let length = usize::from_str_radix(text, 16).map_err(|_| bad())?;
    if !is_hex || length < 4 {
        return Err(bad());
    }
    let mut data = vec![0; length - 4];
    input.read_exact(&mut data).map_err(broke_off)?;
    if data.last() == Some(&b'\n') {
        data.pop();
    }
    Ok(OwnedPacket::Data(data))
}

/// Writes one line as a packet.
pub(crate) fn write_line(out: &mut dyn Write, line: impl AsRef<[u8]>) -> io::Result<()> {
    let line = line.as_ref();
    write!(out, "{:04x}", line.len() + 5)?;
    out.write_all(line)?;
    out.write_all(b"\n")
}

/// Writes content as a packet, without a newline at its end.
pub(crate) fn write_packet(out: &mut dyn Write, content: impl AsRef<[u8]>) -> io::Result<()> {
    let content = content.as_ref();
    write!(out, "{:04x}", content.len() + 4)?;
    out.write_all(content)
}

/// Writes the end of a list or of the answer.
pub(crate) fn write_flush(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"0000")
}

/// Writes the end of a section.
pub(crate) fn write_delimiter(out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"0001")
}

/// What a packet of the side band carries.
#[derive(Clone, Copy)]
pub(crate) enum Band {
    Pack = 1,
    Progress = 2,
    Failure = 3,
}

/// Writes bytes into a band, in as many packets as they need.
pub(crate) fn write_band(out: &mut dyn Write, band: Band, bytes: &[u8]) -> io::Result<()> {
    for piece in bytes.chunks(LARGEST - 1) {
        write!(out, "{:04x}", piece.len() + 5)?;
        out.write_all(&[band as u8])?;
        out.write_all(piece)?;
    }
    Ok(())
}

/// A writer whose bytes go into the band of packs, in packets as large as may be.
pub(crate) struct PackBand<'a> {
    out: &'a mut dyn Write,
    waiting: Vec<u8>,
}

impl<'a> PackBand<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Self {
        PackBand {
            out,
            waiting: Vec::with_capacity(LARGEST),
        }
    }
}

impl Write for PackBand<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(LARGEST - 1 - self.waiting.len());
        self.waiting.extend_from_slice(&bytes[..taken]);
        if self.waiting.len() == LARGEST - 1 {
            self.flush()?;
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        write_band(self.out, Band::Pack, &self.waiting)?;
        self.waiting.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_read_as_they_were_written() {
        let mut bytes = Vec::new();
        write_line(&mut bytes, "want x").unwrap();
        write_delimiter(&mut bytes).unwrap();
        write_flush(&mut bytes).unwrap();
        let mut packets = Packets::new(&bytes);
        assert_eq!(packets.next().unwrap(), Some(Packet::Data(b"want x")));
        assert_eq!(packets.next().unwrap(), Some(Packet::Delimiter));
        assert_eq!(packets.next().unwrap(), Some(Packet::Flush));
        assert_eq!(packets.next().unwrap(), None);
    }

    #[test]
    fn what_is_no_packet_is_refused() {
        for bad in [
            "0", "000", "0002", "0003", "0005", "00zz", "+004", "ffffx", "0006a",
        ] {
            assert!(Packets::new(bad.as_bytes()).next().is_err(), "{bad}");
            assert!(read_packet(&mut bad.as_bytes()).is_err(), "{bad}");
        }
        let mut input = &b"0006a\n0000pack"[..];
        let data = OwnedPacket::Data(b"a".to_vec());
        assert_eq!(read_packet(&mut input).unwrap(), data);
        assert_eq!(read_packet(&mut input).unwrap(), OwnedPacket::Flush);
        assert_eq!(input, b"pack");
        assert_eq!(read_packet(&mut &b""[..]).unwrap(), OwnedPacket::End);
    }

    #[test]
    fn a_band_is_cut_into_packets() {
        let mut out = Vec::new();
        let mut band = PackBand::new(&mut out);
        band.write_all(&vec![7; LARGEST * 2]).unwrap();
        band.flush().unwrap();
        assert_eq!(&out[..5], b"fff0\x01");
        assert_eq!(out.len(), LARGEST * 2 + 3 * 5);
    }
}
