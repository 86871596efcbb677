// Two texts side by side, and two texts as hunks.
import { Chunk, MergeView } from '@codemirror/merge';
import { syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, Text, type Extension } from '@codemirror/state';
import { EditorView, highlightSpecialChars, lineNumbers } from '@codemirror/view';
import { colours, look } from './editor';
import { languageOf } from './languages';
import { nonce } from './nonce';

/** Without a time limit scattered edits of a long file become one change of all of it. */
const DIFF = { timeout: 1000 };
const CONTEXT = 3;

const sides = EditorView.theme({
  '&': { height: 'auto', fontSize: '12px' },
  '.cm-scroller': { overflowX: 'auto' },
  '&.cm-merge-a .cm-changedLine, &.cm-merge-a .cm-deletedLine': { backgroundColor: 'var(--del)' },
  '&.cm-merge-b .cm-changedLine, &.cm-merge-b .cm-insertedLine': { backgroundColor: 'var(--add)' },
  '&.cm-merge-a .cm-changedText': { background: 'color-mix(in srgb, var(--bad) 26%, transparent)' },
  '&.cm-merge-b .cm-changedText': { background: 'color-mix(in srgb, var(--ok) 26%, transparent)' },
  '.cm-changeGutter': { display: 'none' },
  '.cm-collapsedLines': { background: 'var(--panel)', color: 'var(--muted)', padding: '2px 8px', fontFamily: 'var(--font)' },
  '.cm-mergeSpacer': { background: 'repeating-linear-gradient(-45deg, var(--panel) 0 6px, var(--bg) 6px 12px)' },
});

export interface SplitOptions {
  parent: HTMLElement;
  left: string;
  right: string;
  path: string;
  labels: [string, string];
  /** `12 lines alike`, for what is folded away. */
  alike: string;
}

/** Read-only; the returned function takes it away. `tops` tells where the changes are. */
export function makeSplit({ parent, left, right, path, labels, alike }: SplitOptions): { destroy: () => void; tops: () => number[] } {
  const language = new Compartment();
  const extensions = (label: string): Extension[] => [
    EditorView.cspNonce.of(nonce()), look, sides, syntaxHighlighting(colours), lineNumbers(), highlightSpecialChars(),
    EditorView.lineWrapping, EditorState.readOnly.of(true), EditorView.editable.of(false), language.of([]),
    EditorState.phrases.of({ '$ unchanged lines': alike }),
    EditorView.contentAttributes.of({ 'aria-label': label, role: 'textbox', 'aria-readonly': 'true', 'aria-multiline': 'true', tabindex: '0' }),
  ];
  const view = new MergeView({
    parent,
    a: { doc: left, extensions: extensions(labels[0]) },
    b: { doc: right, extensions: extensions(labels[1]) },
    collapseUnchanged: { margin: CONTEXT, minSize: 6 },
    diffConfig: DIFF,
  });
  void languageOf(path)?.().then((found) => {
    for (const one of [view.a, view.b]) one.dom.isConnected && one.dispatch({ effects: language.reconfigure(found) });
  });
  const tops = () => view.chunks.map((chunk) => view.b.lineBlockAt(Math.min(chunk.fromB, view.b.state.doc.length)).top);
  return { destroy: () => view.destroy(), tops };
}

export interface Unified {
  diff: string;
  added: number;
  removed: number;
}

/** The hunks between two texts in the unified format, for states that the server does not compare. */
export function unified(left: string, right: string): Unified {
  const [a, b] = [Text.of(left.split('\n')), Text.of(right.split('\n'))];
  const lines = (doc: Text, from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, i) => doc.line(from + i + 1).text);
  // The text after the last newline is no line if it is empty.
  const count = (doc: Text) => (doc.line(doc.lines).length ? doc.lines : doc.lines - 1);
  const lineAt = (doc: Text, at: number) => (at > doc.length ? count(doc) : Math.min(count(doc), doc.lineAt(at).number - 1));
  const changes = Chunk.build(a, b, DIFF).map((chunk) => ({
    fromA: lineAt(a, chunk.fromA), toA: chunk.toA > chunk.fromA ? lineAt(a, chunk.toA) : lineAt(a, chunk.fromA),
    fromB: lineAt(b, chunk.fromB), toB: chunk.toB > chunk.fromB ? lineAt(b, chunk.toB) : lineAt(b, chunk.fromB),
  }));
  let [diff, added, removed] = ['', 0, 0];
  for (let i = 0; i < changes.length; ) {
    let end = i + 1;
    while (end < changes.length && changes[end]!.fromA - changes[end - 1]!.toA <= 2 * CONTEXT) end += 1;
    const [first, last] = [changes[i]!, changes[end - 1]!];
    const before = Math.min(CONTEXT, first.fromA);
    const after = Math.min(CONTEXT, count(a) - last.toA);
    const body: string[] = [];
    let at = first.fromA - before;
    for (const one of changes.slice(i, end)) {
      body.push(...lines(a, at, one.fromA).map((line) => ` ${line}`));
      const [gone, come] = [lines(a, one.fromA, one.toA), lines(b, one.fromB, one.toB)];
      body.push(...gone.map((line) => `-${line}`), ...come.map((line) => `+${line}`));
      removed += gone.length;
      added += come.length;
      at = one.toA;
    }
    body.push(...lines(a, at, last.toA + after).map((line) => ` ${line}`));
    const span = (from: number, to: number) => `${to > from ? from + 1 : from},${to - from}`;
    diff += `@@ -${span(first.fromA - before, last.toA + after)} +${span(first.fromB - before, last.toB + after)} @@\n${body.join('\n')}\n`;
    i = end;
  }
  return { diff, added, removed };
}
