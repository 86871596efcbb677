//! Merges each collected case here and with git, and counts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use offshoot_merge::{FileMerge, MergeFileOptions, merge_file};

/// What is counted, per repository and over all.
#[derive(Clone, Default)]
struct Counts {
    files: usize,
    git_clean: usize,
    git_clean_right: usize,
    /// Where git is clean: how often the same bytes came out here.
    equal_to_git: usize,
    clean: usize,
    clean_right: usize,
    conflicts: usize,
    resolved: usize,
    resolved_right: usize,
    json_conflicts: usize,
    json_resolved: usize,
    json_right: usize,
    /// Files in which a reason took part, and how many of them came out as people did.
    reasons: BTreeMap<String, (usize, usize)>,
    micros: Vec<u64>,
}

impl Counts {
    fn add(&mut self, other: &Counts) {
        self.files += other.files;
        self.git_clean += other.git_clean;
        self.git_clean_right += other.git_clean_right;
        self.equal_to_git += other.equal_to_git;
        self.clean += other.clean;
        self.clean_right += other.clean_right;
        self.conflicts += other.conflicts;
        self.resolved += other.resolved;
        self.resolved_right += other.resolved_right;
        self.json_conflicts += other.json_conflicts;
        self.json_resolved += other.json_resolved;
        self.json_right += other.json_right;
        for (reason, (resolved, right)) in &other.reasons {
            let counts = self.reasons.entry(reason.clone()).or_default();
            counts.0 += resolved;
            counts.1 += right;
        }
        self.micros.extend(&other.micros);
    }

    fn print(&self, name: &str) {
        let percent = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        let mut micros = self.micros.clone();
        micros.sort_unstable();
        let at = |share: f64| {
            let index = (micros.len() as f64 * share) as usize;
            micros
                .get(index)
                .map_or(0.0, |&micros| micros as f64 / 1000.0)
        };
        println!(
            "| {name} | {} | {:.1} | {:.1} | {}/{} | {} | {:.1} % ({}) | {:.1} % | {:.2} % | {:.2} % | {} / {} / {} | {:.2} | {:.1} |",
            self.files,
            percent(self.git_clean, self.files),
            percent(self.clean, self.files),
            self.equal_to_git,
            self.git_clean,
            self.conflicts,
            percent(self.resolved, self.conflicts),
            self.resolved,
            percent(self.resolved_right, self.resolved),
            percent(self.clean - self.clean_right, self.files),
            percent(self.git_clean - self.git_clean_right, self.files),
            self.json_conflicts,
            self.json_resolved,
            self.json_right,
            at(0.5),
            at(0.99),
        );
    }
}

/// What the command line asks for.
struct Options {
    git: bool,
    /// Prints cases that were resolved in another way than people's, at most so many.
    show_wrong: usize,
    /// Prints cases that stay in conflict, at most so many.
    show_conflicts: usize,
    /// Shows only paths that end so.
    suffix: String,
    /// Writes each conflict of git with what became of it here.
    cases: Option<std::fs::File>,
    /// Writes each conflict of git with all contents, a JSON value per line.
    dump: Option<std::io::BufWriter<std::fs::File>>,
}

pub(crate) fn run(arguments: &[&str]) {
    let mut options = Options {
        git: true,
        show_wrong: 0,
        show_conflicts: 0,
        suffix: String::new(),
        cases: None,
        dump: None,
    };
    let mut repositories = Vec::new();
    for argument in arguments {
        match argument.split_once('=').unwrap_or((argument, "")) {
            ("--no-git", _) => options.git = false,
            ("--show-wrong", count) => options.show_wrong = count.parse().unwrap(),
            ("--show-conflicts", count) => options.show_conflicts = count.parse().unwrap(),
            ("--cases", path) => options.cases = Some(std::fs::File::create(path).unwrap()),
            ("--dump", path) => {
                let file = std::fs::File::create(path).unwrap();
                options.dump = Some(std::io::BufWriter::new(file));
            }
            ("--suffix", suffix) => options.suffix = suffix.to_owned(),
            _ => repositories.push(PathBuf::from(argument)),
        }
    }
    println!(
        "| repository | files | git clean % | clean % | equal to git where it is clean | git's \
         conflicts | resolved | as people did | clean but different | git's clean but different | JSON conflicts / resolved / \
         as people did | median ms | p99 ms |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut all = Counts::default();
    let mut formats = BTreeMap::new();
    for pair in repositories.chunks(2) {
        let by_format = run_one(&pair[0], &pair[1], &mut options);
        let mut counts = Counts::default();
        for (format, of_format) in &by_format {
            counts.add(of_format);
            let known: &mut Counts = formats.entry(*format).or_default();
            known.add(of_format);
        }
        let named = |path: &Path| path.file_name() != Some("repo".as_ref());
        let name = pair[0].ancestors().find(|path| named(path));
        let name = name.and_then(Path::file_stem).unwrap_or_default();
        let name = name.to_string_lossy().replace('+', "/");
        counts.print(&name);
        all.add(&counts);
    }
    all.print("all");
    for (format, counts) in &formats {
        counts.print(format);
    }
    println!("\n| reasons together | files | as people did |\n|---|---|---|");
    for (reasons, (resolved, right)) in &all.reasons {
        println!("| {reasons} | {resolved} | {right} |");
    }
}

/// The counts of one repository by the format of its files.
fn run_one(repo: &Path, list: &Path, options: &mut Options) -> BTreeMap<&'static str, Counts> {
    let mut objects = Objects::open(repo);
    let mut formats: BTreeMap<&'static str, Counts> = BTreeMap::new();
    let directory = tempfile::tempdir().unwrap();
    for line in std::fs::read_to_string(list).unwrap().lines() {
        let fields: Vec<&str> = line.splitn(6, '\t').collect();
        let [commit, base, ours, theirs, merged, path] = fields[..] else {
            continue;
        };
        let contents = [base, ours, theirs, merged].map(|id| objects.read(id));
        let [Some(base), Some(ours), Some(theirs), Some(merged)] = contents else {
            continue;
        };
        let binary = |bytes: &[u8]| bytes.iter().take(8000).any(|&byte| byte == 0);
        if [&base, &ours, &theirs].iter().any(|side| binary(side)) {
            continue;
        }
        // A merge that was committed with conflict markers is no reference.
        if has_markers(&merged) && !has_markers(&ours) && !has_markers(&theirs) {
            continue;
        }
        let counts = formats.entry(format_of(path)).or_default();
        let plain = MergeFileOptions {
            lines_only: true,
            ..MergeFileOptions::default()
        };
        let by_git = if options.git {
            git_merge_file(directory.path(), &base, &ours, &theirs)
        } else {
            merge_file(path.as_bytes(), &base, &ours, &theirs, &plain).into_clean()
        };
        let start = Instant::now();
        let outcome = merge_file(
            path.as_bytes(),
            &base,
            &ours,
            &theirs,
            &MergeFileOptions::default(),
        );
        let elapsed = start.elapsed().as_micros() as u64;
        if [&base, &ours, &theirs]
            .iter()
            .all(|side| side.len() <= 1 << 20)
        {
            counts.micros.push(elapsed);
        }
        count(counts, by_git.as_deref(), &outcome, &merged, path);
        if let (None, Some(cases)) = (&by_git, &mut options.cases) {
            let state = match &outcome {
                FileMerge::Conflict { .. } => "conflict",
                FileMerge::Clean { bytes, .. } if *bytes == merged => "right",
                FileMerge::Clean { .. } => "different",
            };
            writeln!(cases, "{state}\t{commit}\t{path}").unwrap();
        }
        if let (None, Some(dump)) = (&by_git, &mut options.dump) {
            let sides = [&base, &ours, &theirs, &merged];
            writeln!(dump, "{}", as_json(commit, path, sides, &outcome)).unwrap();
        }
        let shown = path.ends_with(&options.suffix);
        let wrong = matches!(&outcome, FileMerge::Clean { bytes, .. } if *bytes != merged);
        if by_git.is_none() && wrong && shown && options.show_wrong > 0 {
            options.show_wrong -= 1;
            show(
                &format!("{commit} {path}"),
                &base,
                &ours,
                &theirs,
                &merged,
                Some(&outcome),
            );
        }
        if !outcome.is_clean() && shown && options.show_conflicts > 0 {
            options.show_conflicts -= 1;
            show(
                &format!("{commit} {path}"),
                &base,
                &ours,
                &theirs,
                &merged,
                None,
            );
        }
        if let (Some(by_git), FileMerge::Clean { bytes, .. }) = (&by_git, &outcome)
            && by_git != bytes
        {
            println!("DIFFERS FROM GIT {commit} {path}");
        }
    }
    formats
}

fn has_markers(text: &[u8]) -> bool {
    let mut lines = text.split(|&byte| byte == b'\n');
    lines.any(|line| line.starts_with(b"<<<<<<< ") || line.starts_with(b">>>>>>> "))
}

/// What kind of text a file holds, by its name.
fn format_of(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    match name
        .rsplit_once('.')
        .map_or(name, |(_, extension)| extension)
    {
        "md" | "mdx" | "markdown" | "rst" | "txt" | "adoc" | "tex" | "CHANGELOG" => "prose",
        "yml" | "yaml" => "YAML",
        "toml" => "TOML",
        "lock" => "lock files",
        "json" | "jsonl" | "ndjson" => "JSON",
        _ => "code",
    }
}

fn count(
    counts: &mut Counts,
    by_git: Option<&[u8]>,
    outcome: &FileMerge,
    merged: &[u8],
    path: &str,
) {
    counts.files += 1;
    let clean = match outcome {
        FileMerge::Clean { bytes, .. } => Some(bytes.as_slice()),
        FileMerge::Conflict { .. } => None,
    };
    let right = clean == Some(merged);
    counts.clean += usize::from(clean.is_some());
    counts.clean_right += usize::from(right);
    if let Some(by_git) = by_git {
        counts.git_clean += 1;
        counts.git_clean_right += usize::from(by_git == merged);
        counts.equal_to_git += usize::from(clean == Some(by_git));
        return;
    }
    counts.conflicts += 1;
    counts.resolved += usize::from(clean.is_some());
    counts.resolved_right += usize::from(right);
    if let FileMerge::Clean { parts, .. } = outcome {
        let reasons: BTreeSet<&str> = parts.iter().map(|part| part.reason.as_str()).collect();
        let reasons: Vec<&str> = reasons.into_iter().collect();
        let known = counts.reasons.entry(reasons.join(" + ")).or_default();
        known.0 += 1;
        known.1 += usize::from(right);
    }
    if path.ends_with(".json") {
        counts.json_conflicts += 1;
        counts.json_resolved += usize::from(clean.is_some());
        counts.json_right += usize::from(right);
    }
}

/// A case with all its contents, each byte as the character of that number.
fn as_json(
    commit: &str,
    path: &str,
    sides: [&Vec<u8>; 4],
    outcome: &FileMerge,
) -> serde_json::Value {
    let text = |bytes: &[u8]| -> String { bytes.iter().map(|&byte| byte as char).collect() };
    let [base, ours, theirs, merged] = sides.map(|side| text(side));
    let (result, reasons) = match outcome {
        FileMerge::Clean { bytes, parts, .. } => {
            let reasons = parts.iter().map(|part| part.reason.as_str()).collect();
            (Some(text(bytes)), reasons)
        }
        FileMerge::Conflict { .. } => (None, Vec::new()),
    };
    serde_json::json!({
        "commit": commit, "path": path, "base": base, "ours": ours, "theirs": theirs,
        "merged": merged, "result": result, "reasons": reasons,
    })
}

/// Prints a case as differences to people's result.
fn show(
    name: &str,
    base: &[u8],
    ours: &[u8],
    theirs: &[u8],
    merged: &[u8],
    outcome: Option<&FileMerge>,
) {
    println!("\n=================== {name}");
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    let people = write("people", merged);
    if let Some(FileMerge::Clean { bytes, .. }) = outcome {
        let here = write("here", bytes);
        let output = Command::new("diff")
            .arg("-u")
            .arg(here)
            .arg(&people)
            .output()
            .unwrap();
        println!("{}", String::from_utf8_lossy(&output.stdout));
    }
    let paths = [
        write("ours", ours),
        write("base", base),
        write("theirs", theirs),
    ];
    let output = Command::new("git")
        .args(["merge-file", "-p", "--diff3", "--diff-algorithm=histogram"])
        .args(&paths)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut inside = false;
    for line in text.lines() {
        inside |= line.starts_with("<<<<<<<");
        if inside {
            println!("{line}");
        }
        inside &= !line.starts_with(">>>>>>>");
    }
}

fn git_merge_file(directory: &Path, base: &[u8], ours: &[u8], theirs: &[u8]) -> Option<Vec<u8>> {
    let paths = [("ours", ours), ("base", base), ("theirs", theirs)].map(|(name, bytes)| {
        let path = directory.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    });
    let output = Command::new("git")
        .args(["merge-file", "-p", "-q", "--diff-algorithm=histogram"])
        .args(&paths)
        .output()
        .unwrap();
    output.status.success().then_some(output.stdout)
}

/// Contents of a repository through one `git cat-file --batch`.
struct Objects {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    cache: BTreeMap<String, Option<Vec<u8>>>,
}

impl Objects {
    fn open(repo: &Path) -> Self {
        let mut child = Command::new("git")
            .arg("--git-dir")
            .arg(repo)
            .args(["cat-file", "--batch"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Objects {
            child,
            input,
            output,
            cache: BTreeMap::new(),
        }
    }

    fn read(&mut self, id: &str) -> Option<Vec<u8>> {
        if let Some(known) = self.cache.get(id) {
            return known.clone();
        }
        writeln!(self.input, "{id}").unwrap();
        let mut header = String::new();
        self.output.read_line(&mut header).unwrap();
        let size = header
            .trim()
            .rsplit(' ')
            .next()
            .and_then(|size| size.parse::<usize>().ok());
        let content = size.map(|size| {
            let mut bytes = vec![0; size + 1];
            self.output.read_exact(&mut bytes).unwrap();
            bytes.pop();
            bytes
        });
        if self.cache.len() > 64 {
            self.cache.clear();
        }
        self.cache.insert(id.to_owned(), content.clone());
        content
    }
}

impl Drop for Objects {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
