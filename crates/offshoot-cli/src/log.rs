//! The log of a server, on stderr. A log that cannot be written, or that nobody reads, costs no
//! answer: a thread of its own writes it, and lines for which there is no room are counted instead.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Lines that wait while stderr takes none.
const WAITING_LINES: usize = 4096;
/// How long the end of the program waits for the last lines.
const LAST_LINES: Duration = Duration::from_millis(500);

enum Message {
    Line(Vec<u8>),
    /// Answered when all before it is written.
    Flush(Sender<()>),
}

/// The log; dropping it writes out what still waits.
pub(crate) struct Log(SyncSender<Message>);

impl Log {
    /// Begins to log. It never holds a token: requests are logged without their query and headers.
    pub(crate) fn start(filter: &str, json: bool) -> Log {
        let (sender, messages) = sync_channel(WAITING_LINES);
        let lost = Arc::new(AtomicU64::new(0));
        let lines = Lines {
            sender: sender.clone(),
            lost: lost.clone(),
        };
        // Without the thread there is no log, and all the same a server.
        let thread = std::thread::Builder::new().name("offshoot-log".into());
        let _ = thread.spawn(move || write_out(&messages, &lost, &mut io::stderr()));
        let otherwise = || Targets::new().with_default(LevelFilter::INFO);
        let filter: Targets = filter.parse().unwrap_or_else(|_| otherwise());
        let log = tracing_subscriber::registry().with(filter);
        let layer = fmt::layer()
            .with_writer(move || lines.clone())
            .with_target(false);
        // A second server in one process, as tests have it, keeps the first one's log.
        let _ = if json {
            log.with(layer.json()).try_init()
        } else {
            log.with(layer.with_ansi(false)).try_init()
        };
        Log(sender)
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        let (tell, told) = channel();
        if self.0.try_send(Message::Flush(tell)).is_ok() {
            let _ = told.recv_timeout(LAST_LINES);
        }
    }
}

/// Where lines go in. Never fails and never waits.
#[derive(Clone)]
struct Lines {
    sender: SyncSender<Message>,
    lost: Arc<AtomicU64>,
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.sender.try_send(Message::Line(line.to_vec())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_out(messages: &Receiver<Message>, lost: &AtomicU64, out: &mut dyn Write) {
    while let Ok(message) = messages.recv() {
        match message {
            Message::Line(line) => {
                if out.write_all(&line).is_err() {
                    lost.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                let missing = lost.swap(0, Ordering::Relaxed);
                let note = format!("{missing} lines of the log before this one were lost\n");
                if missing > 0 && out.write_all(note.as_bytes()).is_err() {
                    lost.fetch_add(missing, Ordering::Relaxed);
                }
            }
            Message::Flush(tell) => {
                let _ = tell.send(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes nothing at first.
    struct Full(usize, Vec<u8>);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 > 0 {
                self.0 -= 1;
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.1.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_cannot_be_written_is_counted() {
        let (sender, messages) = sync_channel(3);
        let lost = Arc::new(AtomicU64::new(0));
        let mut lines = Lines {
            sender,
            lost: lost.clone(),
        };
        for line in ["a\n", "b\n", "c\n", "no room\n"] {
            lines.write_all(line.as_bytes()).unwrap();
        }
        drop(lines);
        let mut out = Full(2, Vec::new());
        write_out(&messages, &lost, &mut out);
        let text = String::from_utf8(out.1).unwrap();
        assert_eq!(text, "c\n3 lines of the log before this one were lost\n");
    }
}
