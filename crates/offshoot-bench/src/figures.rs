//! Measured figures, with the peer each is held against and the goal it has to reach.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// What a ratio has to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// Ours divided by the peer's, at most this.
    AtMost(f64),
    /// Ours divided by the peer's, at least this.
    AtLeast(f64),
    /// Nothing: shown for information.
    None,
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// What was measured.
    pub(crate) name: String,
    /// How many files the tree has; 0 where that does not matter.
    pub(crate) files: usize,
    /// Ours.
    pub(crate) ours: f64,
    /// What the peer is.
    pub(crate) peer_name: String,
    /// The peer's.
    pub(crate) peer: f64,
    /// The unit of both.
    pub(crate) unit: &'static str,
    /// What the ratio has to be.
    pub(crate) goal: Goal,
}

impl Figure {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours / self.peer
    }

    /// Whether the goal is reached; none if there is none, or no peer.
    pub(crate) fn reached(&self) -> Option<bool> {
        match self.goal {
            _ if self.ratio().is_nan() => None,
            Goal::AtMost(limit) => Some(self.ratio() <= limit),
            Goal::AtLeast(limit) => Some(self.ratio() >= limit),
            Goal::None => None,
        }
    }

    fn goal_text(&self) -> String {
        match self.goal {
            Goal::AtMost(limit) if limit < 0.5 => format!("≤ 1/{:.0}", 1.0 / limit),
            Goal::AtMost(limit) => format!("≤ {limit}"),
            Goal::AtLeast(limit) => format!("≥ {limit}"),
            Goal::None => String::new(),
        }
    }
}

/// What this process has in memory now (`VmRSS:`) or had at most (`VmHWM:`), in MiB.
pub(crate) fn own_memory(key: &str) -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let rest = status.lines().find_map(|line| line.strip_prefix(key))?;
    let kib: f64 = rest.trim().trim_end_matches(" kB").trim().parse().ok()?;
    Some(kib / 1024.0)
}

/// All figures of a run.
#[derive(Clone, Debug)]
pub struct Figures {
    place: String,
    pub(crate) list: Vec<Figure>,
    notes: Vec<String>,
}

impl Figures {
    pub(crate) fn new(place: String) -> Self {
        Figures {
            place,
            list: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Says what could not be measured, and why.
    pub(crate) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    pub(crate) fn add(&mut self, figure: Figure) {
        self.list.push(figure);
    }

    /// A figure in milliseconds of a tree with so many files.
    pub(crate) fn add_millis(
        &mut self,
        files: usize,
        name: &str,
        ours: f64,
        peer_name: &str,
        peer: f64,
        goal: Goal,
    ) {
        self.add(Figure {
            name: name.to_owned(),
            files,
            ours,
            peer_name: peer_name.to_owned(),
            peer,
            unit: "ms",
            goal,
        });
    }

    /// The most memory that this process ever had, against the limit of 200 MB.
    pub(crate) fn add_memory(&mut self) {
        if let Some(peak) = own_memory("VmHWM:") {
            self.add(Figure {
                name: "peak memory of this process".to_owned(),
                files: 0,
                ours: peak,
                peer_name: "limit".to_owned(),
                peer: 200.0,
                unit: "MiB",
                goal: Goal::AtMost(1.0),
            });
        }
    }

    /// All of it as one document.
    pub fn to_json(&self) -> Value {
        let figures: Vec<Value> = self
            .list
            .iter()
            .map(|figure| {
                json!({
                    "name": figure.name,
                    "files": figure.files,
                    "ours": figure.ours,
                    "peer": figure.peer,
                    "peer_name": figure.peer_name,
                    "unit": figure.unit,
                    "ratio": figure.ratio(),
                    "goal": figure.goal_text(),
                    "reached": figure.reached(),
                })
            })
            .collect();
        json!({ "place": self.place, "figures": figures, "notes": self.notes })
    }

    /// A table in Markdown, which also reads well in a terminal.
    pub fn to_table(&self) -> String {
        let mut rows = vec![
            [
                "what", "files", "ours", "peer", "peer is", "ratio", "goal", "",
            ]
            .map(str::to_owned)
            .to_vec(),
        ];
        for figure in &self.list {
            let verdict = match figure.reached() {
                Some(true) => "ok",
                Some(false) => "MISSED",
                None => "",
            };
            rows.push(vec![
                figure.name.clone(),
                if figure.files == 0 {
                    String::new()
                } else {
                    figure.files.to_string()
                },
                format!("{} {}", number(figure.ours), figure.unit),
                format!("{} {}", number(figure.peer), figure.unit),
                figure.peer_name.clone(),
                ratio_text(figure.ratio()),
                figure.goal_text(),
                verdict.to_owned(),
            ]);
        }
        let widths: Vec<usize> = (0..8)
            .map(|column| {
                rows.iter()
                    .map(|row| row[column].chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        let mut text = format!("{}\n\n", self.place);
        for (index, row) in rows.iter().enumerate() {
            for (cell, width) in row.iter().zip(&widths) {
                text.push_str(&format!("| {cell:<width$} "));
            }
            text.push_str("|\n");
            if index == 0 {
                for width in &widths {
                    text.push_str(&format!("|{}", "-".repeat(width + 2)));
                }
                text.push_str("|\n");
            }
        }
        for note in &self.notes {
            text.push_str(&format!("\n{note}\n"));
        }
        text
    }
}

/// A figure that could not be measured is no number, and the name of its peer says why.
fn number(value: f64) -> String {
    match value {
        v if v.is_nan() => "–".to_owned(),
        v if v >= 100.0 => format!("{v:.0}"),
        v if v >= 1.0 => format!("{v:.1}"),
        v => format!("{v:.3}"),
    }
}

fn ratio_text(ratio: f64) -> String {
    if ratio.is_nan() {
        "–".to_owned()
    } else if ratio < 0.2 {
        format!("1/{:.0}", 1.0 / ratio)
    } else {
        format!("{ratio:.2}")
    }
}

/// Runs `work` and gives its milliseconds.
pub(crate) fn timed<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<(T, f64), E> {
    let started = Instant::now();
    let value = work()?;
    Ok((value, millis(started.elapsed())))
}

pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
