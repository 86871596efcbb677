// CodeMirror as we use it: one look from our tokens, and the CSP's nonce for its styles.
import { defaultKeymap, history, historyKeymap, indentWithTab } from '@codemirror/commands';
import { bracketMatching, HighlightStyle, indentOnInput, syntaxHighlighting } from '@codemirror/language';
import { highlightSelectionMatches, search, searchKeymap } from '@codemirror/search';
import { Compartment, EditorState, StateEffect, StateField, type Extension } from '@codemirror/state';
import { Decoration, type DecorationSet, drawSelection, EditorView, highlightActiveLine, highlightSpecialChars, keymap, lineNumbers } from '@codemirror/view';
import { tags } from '@lezer/highlight';
import { languageOf } from './languages';
import { nonce } from './nonce';

export const look = EditorView.theme({
  '&': { height: '100%', fontSize: '13px', backgroundColor: 'var(--bg)', color: 'var(--text)' },
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': { fontFamily: 'var(--mono)', lineHeight: '20px' },
  '.cm-content': { caretColor: 'var(--text)', padding: '8px 0' },
  '.cm-gutters': { backgroundColor: 'var(--bg)', color: 'var(--muted)', border: 'none', paddingLeft: '4px' },
  '.cm-activeLine, .cm-activeLineGutter': { backgroundColor: 'var(--panel)' },
  '.cm-cursor': { borderLeftColor: 'var(--text)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground': { backgroundColor: 'var(--selected)' },
  '.cm-panels': { backgroundColor: 'var(--panel)', color: 'var(--text)', borderColor: 'var(--line)' },
  '.cm-marked': { backgroundColor: 'var(--glow)' },
  '.cm-searchMatch': { backgroundColor: 'var(--glow)' },
  '.cm-selectionMatch': { backgroundColor: 'var(--base)' },
  '.cm-matchingBracket': { backgroundColor: 'var(--selected)' },
});

export const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword], color: 'var(--agent-0)' },
  { tag: [tags.string, tags.special(tags.string), tags.regexp], color: 'var(--agent-4)' },
  { tag: [tags.number, tags.bool, tags.null, tags.atom], color: 'var(--agent-2)' },
  { tag: [tags.comment, tags.meta], color: 'var(--muted)' },
  { tag: [tags.typeName, tags.className, tags.namespace], color: 'var(--agent-5)' },
  { tag: [tags.function(tags.variableName), tags.function(tags.propertyName), tags.macroName], color: 'var(--agent-6)' },
  { tag: [tags.propertyName, tags.attributeName, tags.tagName], color: 'var(--accent)' },
  { tag: [tags.heading], color: 'var(--text)', fontWeight: '600' },
  { tag: [tags.link, tags.url], color: 'var(--accent)' },
  { tag: tags.emphasis, fontStyle: 'italic' },
  { tag: tags.strong, fontWeight: '600' },
  { tag: tags.invalid, color: 'var(--bad)' },
]);

const setMarks = StateEffect.define<DecorationSet>();
const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update: (now, change) => change.effects.find((effect) => effect.is(setMarks))?.value ?? now.map(change.changes),
  provide: (field) => EditorView.decorations.from(field),
});

export interface Options {
  parent: HTMLElement;
  text: string;
  path: string;
  label: string;
  /** Called with every change; without it the text cannot be changed. */
  onchange?: ((text: string) => void) | undefined;
  onsave?: (() => void) | undefined;
}

export function makeEditor({ parent, text, path, label, onchange, onsave }: Options): EditorView {
  const language = new Compartment();
  const editing: Extension[] = onchange
    ? [
        history(), indentOnInput(), highlightActiveLine(),
        keymap.of([{ key: 'Mod-s', preventDefault: true, run: () => (onsave?.(), true) }, indentWithTab, ...historyKeymap]),
        EditorView.updateListener.of((update) => update.docChanged && onchange(update.state.doc.toString())),
      ]
    : [EditorState.readOnly.of(true)];
  const view = new EditorView({
    parent,
    doc: text,
    extensions: [
      EditorView.cspNonce.of(nonce()), look, syntaxHighlighting(colours), lineNumbers(), highlightSpecialChars(),
      drawSelection(), bracketMatching(), highlightSelectionMatches(), search({ top: true }), EditorView.lineWrapping, marks,
      EditorView.contentAttributes.of({ 'aria-label': label, ...(onchange ? {} : { tabindex: '0' }) }), language.of([]), ...editing,
      keymap.of([...searchKeymap, ...defaultKeymap]),
    ],
  });
  // Plain text at once, colours later.
  void languageOf(path)?.().then((found) => view.dom.isConnected && view.dispatch({ effects: language.reconfigure(found) }));
  return view;
}

/** Another text in the same editor; what did not change keeps its place. */
export function setText(view: EditorView, text: string): void {
  const old = view.state.doc.toString();
  if (old === text) return;
  let from = 0;
  while (from < old.length && from < text.length && old[from] === text[from]) from += 1;
  let end = 0;
  while (end < old.length - from && end < text.length - from && old[old.length - 1 - end] === text[text.length - 1 - end]) end += 1;
  view.dispatch({ changes: { from, to: old.length - end, insert: text.slice(from, text.length - end) } });
}

/** Marks the lines that an address names (`L3-9`) and goes to the first; nothing for any other text. */
export function markLines(view: EditorView, lines: string): void {
  const found = /^L(\d+)(?:-L?(\d+))?$/.exec(lines);
  const { doc } = view.state;
  const first = Math.min(doc.lines, Math.max(1, Number(found?.[1] ?? 1)));
  const last = Math.min(doc.lines, Math.max(first, Number(found?.[2] ?? first)));
  const all = found ? Array.from({ length: last - first + 1 }, (_, i) => Decoration.line({ class: 'cm-marked' }).range(doc.line(first + i).from)) : [];
  const effects: StateEffect<unknown>[] = [setMarks.of(Decoration.set(all))];
  if (found) effects.push(EditorView.scrollIntoView(doc.line(first).from, { y: 'center' }));
  view.dispatch({ effects });
}
