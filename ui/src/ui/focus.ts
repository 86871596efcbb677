// What a dialog loads first, such as a dry run, enables its main button; Enter shall then be enough.
import { tick } from 'svelte';

export async function focusFirst(): Promise<void> {
  await tick();
  document.querySelector<HTMLElement>('dialog[open] [data-first]:not(:disabled)')?.focus();
}
