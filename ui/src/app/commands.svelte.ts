// Every action is a command: its button, its key, its line in the palette and in the help, and the
// `offshoot` command that does the same. Views register theirs while they are shown.
import { untrack } from 'svelte';
import { isTyping, nameOfKey, Pairs } from './keys';

export interface Command {
  id: string;
  title: string;
  /** `Ctrl+K`, `g h`, `F2`; several mean the same. */
  key?: string | string[];
  run: () => void;
  /** What one would type instead. */
  cli?: string;
  /** Not offered while this is false; its key does nothing. */
  when?: boolean;
  /** Works while typing, too. */
  whileTyping?: boolean;
  /** In the help and by key, but not in the palette: moving in lists. */
  hidden?: boolean;
}

export interface Group {
  title: string;
  commands: Command[];
}

const OFF = 'offshoot.keys';

class Commands {
  /** The newest last: its keys come first. */
  #groups = $state.raw<(() => Group)[]>([]);
  #pairs = new Pairs();
  /** Single keys can be turned off; those with Ctrl stay. */
  singleKeys = $state(localStorage.getItem(OFF) !== 'off');

  groups = $derived(this.#groups.map((group) => group()).reverse());

  setSingleKeys(on: boolean): void {
    this.singleKeys = on;
    localStorage.setItem(OFF, on ? 'on' : 'off');
  }

  add(group: () => Group): () => void {
    this.#groups = [...this.#groups, group];
    return () => (this.#groups = this.#groups.filter((other) => other !== group));
  }

  start(): void {
    window.addEventListener('keydown', (event) => this.#press(event));
  }

  #press(event: KeyboardEvent): void {
    if (event.defaultPrevented || event.isComposing) return;
    if (document.querySelector('dialog[open]')) return;
    const typing = isTyping(event.target);
    const all = this.groups.flatMap((group) => group.commands).filter((command) => command.when !== false);
    const keysOf = (command: Command) => [command.key ?? []].flat();
    const name = nameOfKey(event);
    const starts = (key: string) => all.some((command) => keysOf(command).some((one) => one.startsWith(`${key} `)));
    const names = typing ? [name] : this.#pairs.names(name, starts);
    for (const wanted of names) {
      const isSingle = !/^(Ctrl|Alt)\+|^F\d|^Escape/.test(wanted);
      // A command may work while typing, but a letter is then a letter.
      const command = all.find((one) => keysOf(one).includes(wanted) && (!typing || (one.whileTyping && !isSingle)));
      if (!command) continue;
      if (isSingle && !this.singleKeys) return;
      // A focused button or link answers Enter and Space itself.
      if ((wanted === 'Enter' || wanted === 'Space') && (event.target as Element).closest?.('button, a[href], [role=menuitem], summary')) return;
      event.preventDefault();
      command.run();
      return;
    }
  }
}

export const commands = new Commands();

/** Registers commands for as long as the component is there. */
export function useCommands(group: () => Group): void {
  $effect(() => untrack(() => commands.add(group)));
}
